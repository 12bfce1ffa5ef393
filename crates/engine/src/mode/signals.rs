//! Signals that a mode has a part in: the tape demands them, or their order with others' actions counts.

use crate::call::Call;
use crate::closed_page::ClosedPage;
use crate::failure::Result;
use crate::siginfo::SigInfo;
use crate::task::Task;

/// Where signals come from.
pub trait Signals {
    /// Sends a signal: `send` makes the call.
    ///
    /// # Errors
    /// Something unsupported.
    fn send_signal(
        &self,
        task: &mut Task,
        call: &Call,
        sig: i32,
        send: &mut dyn FnMut(&mut Task) -> i64,
    ) -> Result<i64>;

    /// The present instruction raises a signal: the tape must say so.
    ///
    /// # Errors
    /// Divergence.
    fn raised(&self, task: &mut Task, info: &SigInfo) -> Result<()>;

    /// Whether a signal that kills one thread of several ends the thread at hand alone.
    ///
    /// # Errors
    /// Divergence.
    fn ends_thread_alone(&self, task: &mut Task) -> Result<bool>;

    /// Whether another recorded process has killed this one, and left it to itself to end.
    fn is_being_killed(&self, task: &Task) -> bool;

    /// Before the task runs guest code: closes the page where the next event is a fault that the page's
    /// file raised.
    fn arm(&self, _task: &mut Task) -> Option<ClosedPage> {
        None
    }
}
