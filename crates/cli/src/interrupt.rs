//! The keyboard's interrupt during a hunt: noted, so that an unfinished recording can be removed.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether Ctrl-C has come. Process-wide: a signal handler sets it.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: i32) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Notes SIGINT from now on. Programs started later get the default again, as exec does it;
/// where the signal is ignored, as in a background job, it stays ignored.
pub fn watch() {
    let handler = note as extern "C" fn(i32);
    // SAFETY: the handler only stores to an atomic, which signal-safety(7) allows.
    unsafe {
        if libc::signal(libc::SIGINT, handler as libc::sighandler_t) == libc::SIG_IGN {
            libc::signal(libc::SIGINT, libc::SIG_IGN);
        }
    }
}

/// Whether it has arrived.
pub fn came() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
