//! The signals that ask a search to end, the keyboard's interrupt first: noted, so that an unfinished recording can be removed.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The signals: of the keyboard, of whoever ends a job, of a terminal that goes away.
const ENDINGS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The first of them that has come, or 0. Process-wide: a signal handler sets it, or whoever takes the signal.
static INTERRUPTED: AtomicI32 = AtomicI32::new(0);
/// Whether threads hold them back. Process-wide: all threads of a hunt do.
static HELD: AtomicBool = AtomicBool::new(false);

extern "C" fn note(signal: i32) {
    let (now, no) = (Ordering::Relaxed, Ordering::Relaxed);
    // The first one stays.
    let _ = INTERRUPTED.compare_exchange(0, signal, now, no);
}

/// Notes them from now on. Programs started later get the default again, as exec does it;
/// where one is ignored, as in a background job, it stays ignored.
pub fn watch() {
    for signal in ENDINGS {
        // SAFETY: the handler only stores to an atomic, which signal-safety(7) allows.
        unsafe { handle(signal, note) };
    }
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

/// Holds them back from this thread and those that it makes from here on, until [`came`] takes one. A handler notes it
/// on some thread or other, perhaps only when another one has seen a run end that the signal has ended too. Programs that
/// are started meanwhile need [`reach`].
pub fn hold() {
    mask(libc::SIG_BLOCK);
    HELD.store(true, Ordering::Relaxed);
}

/// This thread takes them as they come again.
pub fn let_go() {
    HELD.store(false, Ordering::Relaxed);
    mask(libc::SIG_UNBLOCK);
}

/// They are to reach the program that is started so.
pub fn reach(command: &mut Command) {
    let unblock = || {
        mask(libc::SIG_UNBLOCK);
        Ok(())
    };
    // SAFETY: between fork and exec it changes the mask alone, which signal-safety(7) allows.
    unsafe { command.pre_exec(unblock) };
}

fn mask(how: i32) {
    let set = endings();
    // SAFETY: the set is one, and the old mask is not asked for.
    unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) };
}

fn endings() -> libc::sigset_t {
    // SAFETY: zeros are a set, which the calls fill.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in ENDINGS {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

/// Whether one has arrived.
pub fn came() -> bool {
    first() != 0
}

/// The first one that has arrived, or 0.
pub fn first() -> i32 {
    if HELD.load(Ordering::Relaxed) {
        const AT_ONCE: libc::timespec = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        /// Held by a thread that takes the signal, until it has noted that: another one that finds none left asks what
        /// is noted. Process-wide: so is the note.
        static TAKING: Mutex<()> = Mutex::new(());
        let _taking = TAKING.lock().expect("no thread panics here");
        let set = endings();
        // SAFETY: set and time are there for the call, and nothing else is asked for.
        let taken = unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &AT_ONCE) };
        if taken > 0 {
            note(taken);
        }
    }
    INTERRUPTED.load(Ordering::Relaxed)
}
