//! The order of changes to objects that processes share.

use crate::call::Call;
use crate::call::reply::Reply;
use crate::failure::Result;
use crate::flow::Flow;
use crate::sharing::changes::FileRange;
use crate::task::Task;

/// The operation of another thread that one follows: the thread, by its index in the process, and the number of its
/// operation.
pub type PrecedingOp = (u32, u64);

/// A shared map of a file that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct FileUse<'a> {
    /// The part that it shows.
    pub part: FileRange,
    /// The process may write to the file through it.
    pub writes: bool,
    /// The file's name, for messages.
    pub name: &'a str,
}

/// The order of changes to objects that processes share and that a replay computes again.
pub trait Order: Sync {
    /// The task is about to make a call of which a replay computes an effect on state that the threads of
    /// its process share. Until [`Order::release`] no other thread makes one. Waits at rest.
    ///
    /// # Errors
    /// The order of the call is lost.
    fn acquire(&self, _task: &mut Task) -> Result<()> {
        Ok(())
    }

    /// The call is over, and on the tape.
    fn release(&self, _task: &mut Task) {}

    /// The call at hand, which has acquired its order, sets the action of a signal; the caller has the lock of the
    /// process's state. The operation of another thread that it follows, if there is one: for [`Order::follows`].
    fn sets_action(&self, _task: &Task) -> Option<PrecedingOp> {
        None
    }

    /// As [`Order::sets_action`], for a signal that is taken, with an event: an operation of the task.
    fn takes_action(&self, _task: &mut Task) -> Option<PrecedingOp> {
        None
    }

    /// The task's operation follows one of another thread: with `event`, its next event, or else the present
    /// instruction. The caller has no lock.
    ///
    /// # Errors
    /// The order is lost.
    fn follows(&self, _task: &mut Task, _before: PrecedingOp, _event: bool) -> Result<()> {
        Ok(())
    }

    /// The call at hand is about to wake waiters of words of guest memory, or has waited for them: an operation for each,
    /// as an atomic instruction on that word is.
    ///
    /// # Errors
    /// As [`Order::acquire`].
    fn touch(&self, task: &mut Task, words: &mut [u64]) -> Result<()> {
        self.change_words(task, words, &mut |_| Ok(()))
    }

    /// The same of words that the end of the thread changes, by `change`. All of them at one moment: whoever comes behind one
    /// of the operations finds all words changed. `change` takes no object of others, and waits for nobody.
    ///
    /// # Errors
    /// As [`Order::acquire`], or those of `change`.
    fn change_words(
        &self,
        task: &mut Task,
        _words: &mut [u64],
        change: &mut dyn FnMut(&mut Task) -> Result<()>,
    ) -> Result<()> {
        change(task)
    }

    /// The task stands in front of an instruction that accesses lines of memory which it has to ask for: it gets
    /// them, at rest meanwhile, and makes the instruction where that alone makes sure that it can.
    ///
    /// # Errors
    /// The order is lost.
    fn permit(&self, _task: &mut Task) -> Result<Flow> {
        Ok(Flow::Continue)
    }

    /// The task is about to make one instruction, by a step that looks at no permission: it gets the lines.
    ///
    /// # Errors
    /// As [`Order::permit`].
    fn permit_step(&self, _task: &mut Task) -> Result<()> {
        Ok(())
    }

    /// The task is about to stand still in the call at hand (`event`), or in front of its next instruction, while another
    /// thread has quiet: others may take its lines.
    ///
    /// # Errors
    /// As [`Order::permit`].
    fn stands_still(&self, _task: &mut Task, _event: bool) -> Result<()> {
        Ok(())
    }

    /// The task is about to go on from where it stood still.
    ///
    /// # Errors
    /// As [`Order::permit`].
    fn stood_still(&self, _task: &mut Task, _event: bool) -> Result<()> {
        Ok(())
    }

    /// Whether others must be at rest where access to memory is taken away: nothing else says what each of them has done before.
    fn cuts_accesses(&self) -> bool {
        false
    }

    /// The task is about to take access to memory away, all others at rest.
    ///
    /// # Errors
    /// The tape is lost.
    fn takes_access(&self, _task: &mut Task) -> Result<()> {
        Ok(())
    }

    /// The task was at rest in the call at hand: it gets the memory of the call again, or its turn.
    ///
    /// # Errors
    /// As [`Order::permit`].
    fn back_in_call(&self, _task: &mut Task) -> Result<()> {
        Ok(())
    }

    /// The task makes a call live: it gets the memory that the call reads and writes, for its next event.
    ///
    /// # Errors
    /// As [`Order::permit`].
    fn permit_call(&self, _task: &mut Task, _call: &Call) -> Result<()> {
        Ok(())
    }

    /// The same for the memory of a signal's frame, in front of the instruction at hand: perhaps no signal is delivered,
    /// and a replay cannot let a thread wait at a fault. Whether it was at rest meanwhile: others may have mended what
    /// the instruction met.
    ///
    /// # Errors
    /// As [`Order::permit`].
    fn permit_frame(&self, _task: &mut Task) -> Result<bool> {
        Ok(false)
    }

    /// The caller is about to map a file shared. Afterwards no other process changes its content before the call is over.
    ///
    /// # Errors
    /// An unsupported operation.
    fn acquire_file(&self, _task: &mut Task, _call: &Call, _used: &FileUse<'_>) -> Result<()> {
        Ok(())
    }

    /// The call at hand, of which nothing is done yet, does what nobody can order while threads run together: from here on they take
    /// turns.
    ///
    /// # Errors
    /// They cannot.
    fn takes_turns(&self, _task: &mut Task) -> Result<()> {
        Ok(())
    }

    /// Gives up files that the guest's map has no more, after a call that changed the map.
    fn release_files(&self, task: &Task) {
        task.machine().memory().space.take_dropped();
    }

    /// Makes a call by `make`, which may change files that are mapped. Only such calls are made so:
    /// [`Call::may_change_files`].
    ///
    /// # Errors
    /// An unsupported operation.
    fn change_files(
        &self,
        task: &mut Task,
        call: &Call,
        make: &mut dyn FnMut(&mut Task, &Call) -> Result<Reply>,
    ) -> Result<Reply> {
        make(task, call)
    }
}
