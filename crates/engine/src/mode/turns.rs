//! Turns: the length of a task's slices, and the use of its turn while it waits.

use crate::failure::Result;
use crate::flow::Flow;
use crate::task::Task;

/// How tasks take turns.
pub trait Turns {
    /// Enters the kernel by `enter` for a call that may sleep; other threads may run meanwhile.
    ///
    /// # Errors
    /// The turn that follows is lost.
    fn asleep(&self, task: &mut Task, enter: &mut dyn FnMut() -> i64) -> Result<i64>;

    /// Waits by `wait` at the present safe point; other threads may run meanwhile.
    ///
    /// # Errors
    /// The turn that follows is lost.
    fn rest(&self, task: &mut Task, wait: &mut dyn FnMut(&mut Task) -> Result<()>) -> Result<()> {
        wait(task)
    }

    /// The task has been at rest, while another thread had quiet, at a place that its tape can name, and is about
    /// to go on.
    ///
    /// # Errors
    /// As [`Turns::asleep`].
    fn rested(&self, _: &mut Task) -> Result<()> {
        Ok(())
    }

    /// Whether other threads, or processes that map it too, may see memory that a sleeping call uses.
    fn others_see(&self, task: &Task) -> bool;

    /// Makes a call by `enter` in the thread's turn, which goes on. A signal by which another thread asks for a turn would cut it
    /// short: none comes.
    fn in_turn(&self, _task: &Task, enter: &mut dyn FnMut() -> i64) -> i64 {
        enter()
    }

    /// A call that was made so, as it does not wait, has found nothing: others that want a turn have it first.
    ///
    /// # Errors
    /// As [`Turns::asleep`].
    fn found_nothing(&self, _task: &mut Task) -> Result<()> {
        Ok(())
    }

    /// Grants a new slice of ticks.
    fn begin_slice(&self, task: &mut Task);

    /// The task has woken others, in a call that it goes on from.
    fn woke(&self, _: &mut Task) {}

    /// Whether the task is not to run on by itself: [`Turns::end_budget`] steps it. Asked of a mode that
    /// samples, as its properties say.
    fn samples(&self, _: &Task) -> bool {
        false
    }

    /// The task is at a safe point. Asked of a mode that makes checkpoints, as its properties say.
    ///
    /// # Errors
    /// As [`Turns::asleep`].
    fn checkpoint(&self, _task: &mut Task) -> Result<()> {
        Ok(())
    }

    /// The task is about to sleep in a call, and nothing of the guest's has changed. Asked of such a mode, but not where it
    /// is asked for [`Turns::asleep`].
    ///
    /// # Errors
    /// As [`Turns::asleep`].
    fn checkpoint_before_sleep(&self, _task: &mut Task) -> Result<()> {
        Ok(())
    }

    /// The budget is used up, by a signal or by the slice; the task is at a safe point.
    ///
    /// # Errors
    /// Divergence, an unsupported operation.
    fn end_budget(&self, task: &mut Task) -> Result<Flow>;

    /// The task has executed `pause`.
    ///
    /// # Errors
    /// As [`Turns::asleep`].
    fn pause(&self, task: &mut Task) -> Result<()>;

    /// sched_yield(2): `enter` makes the call.
    ///
    /// # Errors
    /// As [`Turns::asleep`].
    fn give_way(
        &self,
        task: &mut Task,
        enter: &mut dyn FnMut(&mut Task) -> Result<i64>,
    ) -> Result<i64>;
}
