//! Signal names: signal(7).

use std::borrow::Cow;

const STANDARD: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// The name of a signal number; real-time signals are counted from the kernel's `SIGRTMIN`, 32.
/// (A C library keeps the first two or three of those for itself and counts from there.)
pub fn signal_name(signal: i32) -> Option<Cow<'static, str>> {
    match signal {
        1..=31 => Some(Cow::Borrowed(STANDARD[signal as usize - 1])),
        32 => Some(Cow::Borrowed("SIGRTMIN")),
        33..=64 => Some(Cow::Owned(format!("SIGRTMIN+{}", signal - 32))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_has_its_number() {
        for (number, name) in [
            (libc::SIGHUP, "SIGHUP"),
            (libc::SIGBUS, "SIGBUS"),
            (libc::SIGUSR1, "SIGUSR1"),
            (libc::SIGSTKFLT, "SIGSTKFLT"),
            (libc::SIGCHLD, "SIGCHLD"),
            (libc::SIGSTOP, "SIGSTOP"),
            (libc::SIGVTALRM, "SIGVTALRM"),
            (libc::SIGIO, "SIGIO"),
            (libc::SIGSYS, "SIGSYS"),
            (32, "SIGRTMIN"),
            (64, "SIGRTMIN+32"),
        ] {
            assert_eq!(signal_name(number).as_deref(), Some(name));
        }
        for nothing in [i32::MIN, -1, 0, 65, i32::MAX] {
            assert_eq!(signal_name(nothing), None);
        }
    }
}
