//! A process whose threads ran together goes over to turns: it is about to share memory with others, and is
//! recorded serially from there on. One thread goes on in the call that it is in, if that is why; each other one, where
//! it has come to rest, waits for its first turn. All of these turns are on the schedule, so that a replay which has
//! found the order of the threads up to there knows where each of them stands.

use std::sync::atomic::{AtomicBool, Ordering};

use relive_trace::Kind;

use super::baton::Taken;
use super::{Serial, Start};
use crate::failure::Result;
use crate::mode::HandedOn;
use crate::shm::Shm;
use crate::tape::Tape;
use crate::task::Task;

impl Serial {
    /// The mode of a process that goes over in a call of the task's, which has the first turn. It is logged by the
    /// claim or the fork that is behind this.
    #[must_use]
    pub fn taking_over(shm: Shm, task: &Task) -> Self {
        Self {
            owes_turn: AtomicBool::new(true),
            ..Self::of_process(shm, task.process.index, task.slot)
        }
    }

    /// The mode of a process that goes over because another one has asked it to: all of its threads wait for their turns.
    #[must_use]
    pub fn when_asked(shm: Shm, process: u32) -> Self {
        let serial = Self::of_process(shm, process, 0);
        serial.baton.lies_free();
        serial
    }

    fn of_process(shm: Shm, process: u32, slot: u32) -> Self {
        let start = Start {
            process,
            slot,
            goes_on: false,
            handed_on: HandedOn::default(),
        };
        Self::within_sketch(shm, start)
    }

    /// The process has heard of so many changes of files.
    pub fn has_heard(&self, changes: u64) {
        self.baton.has_heard(changes);
    }

    /// The first turn of a process that has gone over, if it is yet to be logged: the caller does that.
    pub(super) fn first_turn(&self) -> Taken {
        Taken {
            switched: self.owes_turn.swap(false, Ordering::Relaxed),
            before: None,
        }
    }

    /// The task, which has the first turn, goes on in it.
    pub fn takes_over(&'static self, task: &mut Task) {
        goes_over(task, self);
        // Another thread may have called it out for a line of memory, before that one came to rest.
        task.ctx.wanted = 0;
        self.new_slice(task);
    }

    /// The task has come to rest at a safe point, and waits for its turn there.
    ///
    /// # Errors
    /// The switch, or the turn that follows, is lost.
    pub fn takes_over_rested(&'static self, task: &mut Task) -> Result<()> {
        task.record(Kind::Switch { steps: task.steps })?;
        self.await_turn(task)
    }

    /// The task has come to rest in a call, and waits for its turn there.
    ///
    /// # Errors
    /// The turn is lost.
    pub fn takes_over_in_call(&'static self, task: &mut Task) -> Result<()> {
        self.await_turn(task)?;
        task.log.switched = true;
        Ok(())
    }

    fn await_turn(&'static self, task: &mut Task) -> Result<()> {
        goes_over(task, self);
        let taken = self.baton.take(task)?;
        // The thread that had quiet may have called it out just as it came to rest.
        task.ctx.wanted = 0;
        self.turn(task, taken.before)?;
        self.new_slice(task);
        Ok(())
    }
}

/// The task has turns; when it is where says nothing from here on.
fn goes_over(task: &mut Task, turns: &'static Serial) {
    task.part(turns);
    if let Tape::Out(tape) = &mut task.tape {
        tape.course = None;
    }
}
