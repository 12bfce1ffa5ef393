//! Signal actions: the default action of each signal, and the host's own disposition for the guest's
//! action.

use relive_host::signal::{Disposition, KernelAction, SYNCHRONOUS, TO_NEWBORNS};

/// Handler value of SIG_DFL.
pub const SIG_DFL: u64 = 0;
/// Handler value of SIG_IGN.
pub const SIG_IGN: u64 = 1;

/// The default action of a signal; see signal(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultAction {
    /// Ends the process.
    Terminate,
    /// Does nothing (also for SIGCONT, whose effect the kernel brings about itself).
    Ignore,
    /// Stops the process: the kernel does that to the host as a whole.
    Stop,
}

/// The default action of `sig`.
#[must_use]
pub fn default_action(sig: i32) -> DefaultAction {
    match sig {
        libc::SIGCHLD | libc::SIGURG | libc::SIGWINCH | libc::SIGCONT => DefaultAction::Ignore,
        libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => DefaultAction::Stop,
        _ => DefaultAction::Terminate,
    }
}

/// The host's disposition for a signal for which the guest has `action`: the kernel must know
/// which signals are ignored and which stop, and the host's handler must note the others. A signal that
/// comes to new threads in spite of their masks is never ignored: where the guest's thread blocks it, it waits for sigwait(3).
#[must_use]
pub fn host_disposition(sig: i32, action: &KernelAction) -> Disposition {
    if SYNCHRONOUS.contains(&sig) || sig == TO_NEWBORNS {
        return Disposition::Handler;
    }
    match (action.handler, default_action(sig)) {
        (SIG_IGN, _) => Disposition::Ignore,
        (SIG_DFL, DefaultAction::Ignore | DefaultAction::Stop) => Disposition::Default,
        _ => Disposition::Handler,
    }
}
