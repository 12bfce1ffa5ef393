//! A page that a replay has closed because the recording found no file behind it there: an access to it
//! raises the recorded SIGBUS.

use relive_host::addr::PAGE;

use crate::signals::info::{SigInfo, fault_addr, signo};
use crate::task::Task;

/// A page that the recording has not found behind the end of its file.
pub struct ClosedPage {
    /// Its address.
    pub page: u64,
    /// The recorded signal.
    pub info: SigInfo,
}

impl ClosedPage {
    /// Whether the fault at hand is the recorded one: it becomes that.
    pub fn is_hit(&self, task: &mut Task) -> bool {
        let fault = &mut task.ctx.fault;
        let hit = signo(&fault.siginfo) == libc::SIGSEGV
            && fault_addr(&fault.siginfo) & !(PAGE - 1) == self.page;
        if hit {
            fault.siginfo = self.info;
        }
        hit
    }

    /// Makes the page accessible again.
    pub fn disarm(self, task: &Task) {
        task.machine().memory().reopen(self.page);
    }
}
