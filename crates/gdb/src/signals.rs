//! Linux signal numbers as gdb numbers them (gdb/signals.def), where the two differ.

use gdbstub::common::Signal;

const DIFFERENT: [(i32, u8); 20] = [
    (libc::SIGBUS, 10),
    (libc::SIGUSR1, 30),
    (libc::SIGUSR2, 31),
    (libc::SIGCHLD, 20),
    (libc::SIGCONT, 19),
    (libc::SIGSTOP, 17),
    (libc::SIGTSTP, 18),
    (libc::SIGTTIN, 21),
    (libc::SIGTTOU, 22),
    (libc::SIGURG, 16),
    (libc::SIGXCPU, 24),
    (libc::SIGXFSZ, 25),
    (libc::SIGVTALRM, 26),
    (libc::SIGPROF, 27),
    (libc::SIGWINCH, 28),
    (libc::SIGIO, 23),
    (libc::SIGPWR, 32),
    (libc::SIGSYS, 12),
    (libc::SIGSTKFLT, 143),
    (32, 77),
];

/// gdb's number of a Linux signal.
pub fn to_gdb(sig: i32) -> Signal {
    if let Some((_, n)) = DIFFERENT.iter().find(|(linux, _)| *linux == sig) {
        return Signal(*n);
    }
    match sig {
        // Real-time signals: SIG33 is 45, SIG34 to SIG63 follow, SIG64 is 78.
        33..=63 => Signal((sig - 33 + 45) as u8),
        64 => Signal(78),
        n => Signal(n as u8),
    }
}
