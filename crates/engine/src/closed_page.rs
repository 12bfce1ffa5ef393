//! A page that a replay has closed because the recording found no file behind it there: an access to it
//! raises the recorded SIGBUS.

use relive_host::Context;
use relive_host::addr::PAGE;

use crate::siginfo::{SigInfo, fault_addr, signo};

/// A page that the recording has not found behind the end of its file.
pub struct ClosedPage {
    /// Its address.
    pub page: u64,
    /// The recorded signal.
    pub info: SigInfo,
}

impl ClosedPage {
    /// Whether the fault at hand is the recorded one: it becomes that.
    pub fn is_hit(&self, ctx: &mut Context) -> bool {
        let fault = &mut ctx.fault;
        let hit = signo(&fault.siginfo) == libc::SIGSEGV
            && fault_addr(&fault.siginfo) & !(PAGE - 1) == self.page;
        if hit {
            fault.siginfo = self.info;
        }
        hit
    }
}
