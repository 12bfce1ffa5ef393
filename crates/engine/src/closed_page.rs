//! A page that a replay has closed because the recording found the end of its file before it: an access
//! to it raises the recorded SIGBUS.

use relive_host::Context;
use relive_host::addr::PAGE;

use crate::siginfo::{SigInfo, fault_addr, signo};

/// A page that lay behind the end of its file in the recording.
pub struct ClosedPage {
    /// Its address.
    pub page: u64,
    /// The recorded signal.
    pub info: SigInfo,
}

impl ClosedPage {
    /// Whether the fault at hand is the recorded one; if so, it gets the recorded signal.
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
