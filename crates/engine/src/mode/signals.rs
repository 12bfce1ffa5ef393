//! Signals in which a mode takes part: the tape demands them, or their order among other threads' actions
//! counts.

use crate::call::Call;
use crate::closed_page::ClosedPage;
use crate::failure::Result;
use crate::siginfo::SigInfo;
use crate::task::Task;

/// The source of signals.
pub trait Signals {
    /// Sends a signal: `send` makes the call.
    ///
    /// # Errors
    /// An unsupported operation.
    fn send_signal(
        &self,
        task: &mut Task,
        call: &Call,
        sig: i32,
        send: &mut dyn FnMut(&mut Task) -> Result<i64>,
    ) -> Result<i64>;

    /// The present instruction raises a signal: a tape must have it here. Returns whether it is delivered
    /// at once, and no tracer had a say.
    ///
    /// # Errors
    /// Divergence.
    fn raised(&self, task: &mut Task, info: &SigInfo) -> Result<bool>;

    /// Whether a signal that kills one thread of several ends the thread at hand alone.
    ///
    /// # Errors
    /// Divergence.
    fn ends_thread_alone(&self, task: &mut Task) -> Result<bool>;

    /// Whether another recorded process has killed this one, which must end by itself.
    fn is_being_killed(&self, task: &Task) -> bool;

    /// Before the task runs guest code in a confined host: if the next event is a fault that a page's
    /// file raised, closes that page.
    ///
    /// # Errors
    /// It cannot be closed.
    fn arm(&self, _task: &mut Task) -> Result<Option<Box<ClosedPage>>> {
        Ok(None)
    }
}
