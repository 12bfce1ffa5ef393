//! The keyboard's interrupt during a hunt: noted, so that an unfinished recording can be removed.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether Ctrl-C has come. Process-wide: a signal handler sets it, or whoever takes the signal.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Whether threads hold it back. Process-wide: all threads of a hunt do.
static HELD: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: i32) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Notes SIGINT from now on. Programs started later get the default again, as exec does it;
/// where the signal is ignored, as in a background job, it stays ignored.
pub fn watch() {
    // SAFETY: the handler only stores to an atomic, which signal-safety(7) allows.
    unsafe { handle(libc::SIGINT, note) };
}

/// A handler for a signal, unless that is ignored.
///
/// # Safety
/// The handler does nothing but what signal-safety(7) allows.
pub unsafe fn handle(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: as the caller says.
    unsafe {
        if libc::signal(signal, handler as libc::sighandler_t) == libc::SIG_IGN {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// Holds SIGINT back from this thread and those that it makes from here on, until [`came`] takes it. A handler notes it
/// on some thread or other, perhaps only when another one has seen a run end that the signal has ended too. Programs that
/// are started meanwhile need [`reach`].
pub fn hold() {
    mask(libc::SIG_BLOCK);
    HELD.store(true, Ordering::Relaxed);
}

/// This thread takes it as it comes again.
pub fn let_go() {
    HELD.store(false, Ordering::Relaxed);
    mask(libc::SIG_UNBLOCK);
}

/// The signal is to reach the program that is started so.
pub fn reach(command: &mut Command) {
    let unblock = || {
        mask(libc::SIG_UNBLOCK);
        Ok(())
    };
    // SAFETY: between fork and exec it changes the mask alone, which signal-safety(7) allows.
    unsafe { command.pre_exec(unblock) };
}

fn mask(how: i32) {
    let set = only_sigint();
    // SAFETY: the set is one, and the old mask is not asked for.
    unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) };
}

fn only_sigint() -> libc::sigset_t {
    // SAFETY: zeros are a set, which the two calls fill.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        set
    }
}

/// Whether it has arrived.
pub fn came() -> bool {
    if HELD.load(Ordering::Relaxed) {
        const AT_ONCE: libc::timespec = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        /// Held by a thread that takes the signal, until it has noted that: another one that finds none left asks what
        /// is noted. Process-wide: so is the note.
        static TAKING: Mutex<()> = Mutex::new(());
        let _taking = TAKING.lock().expect("no thread panics here");
        let set = only_sigint();
        // SAFETY: set and time are there for the call, and nothing else is asked for.
        let taken = unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &AT_ONCE) };
        if taken == libc::SIGINT {
            INTERRUPTED.store(true, Ordering::Relaxed);
        }
    }
    INTERRUPTED.load(Ordering::Relaxed)
}
