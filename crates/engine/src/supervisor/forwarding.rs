//! Signals that a supervisor gets: those meant for the program are passed on to it, and the end of
//! a child ends the supervisor's sleep. The handlers only move atomic words.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::shm::Shm;

/// The keyboard's signals go to the whole group: the program decides on them.
pub fn ignore_keyboard() {
    for sig in [libc::SIGINT, libc::SIGQUIT] {
        relive_host::signal::set_disposition(sig, relive_host::signal::Disposition::Ignore);
    }
}

/// A signal that was sent to the recorder and is meant for the program.
/// Process-wide: a signal handler sets it.
static TO_FORWARD: AtomicI32 = AtomicI32::new(0);

extern "C" fn note_forward(sig: i32) {
    TO_FORWARD.store(sig, Ordering::Release);
}

/// The word that the recorder sleeps on. Process-wide: the handler of SIGCHLD uses it.
static WAKE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn note_child(_: i32) {
    // SAFETY: null, or a word in the shared memory, which stays mapped.
    if let Some(word) = unsafe { WAKE.load(Ordering::Acquire).as_ref() } {
        word.fetch_add(1, Ordering::AcqRel);
    }
}

/// The end of a child ends the supervisor's sleep.
pub fn wake_at_child_end(shm: &Shm) {
    WAKE.store(
        std::ptr::from_ref(&shm.header().wake).cast_mut(),
        Ordering::Release,
    );
    // SAFETY: the handler only moves an atomic word.
    unsafe { libc::signal(libc::SIGCHLD, note_child as *const () as libc::sighandler_t) };
}

/// Signals that would end the recorder are passed on to the program, which decides on them.
pub fn forward_endings() {
    for sig in [libc::SIGTERM, libc::SIGHUP] {
        if !relive_host::signal::is_ignored(sig) {
            // SAFETY: the handler only stores to an atomic.
            unsafe { libc::signal(sig, note_forward as *const () as libc::sighandler_t) };
        }
    }
}

/// Somebody has asked the recorder by a signal to keep what there is.
/// Process-wide: a signal handler sets it.
static KEEP: AtomicBool = AtomicBool::new(false);

extern "C" fn note_keep(_: i32) {
    KEEP.store(true, Ordering::Release);
}

/// This signal asks to keep what there is.
pub fn keep_on(signal: i32) {
    // SAFETY: the handler only stores to an atomic.
    unsafe { libc::signal(signal, note_keep as *const () as libc::sighandler_t) };
}

/// Whether one has come.
pub fn asks_to_keep() -> bool {
    KEEP.swap(false, Ordering::AcqRel)
}

/// Sends the last signal that the supervisor got to the program's first process, which has not
/// been waited for. Whether there was one.
pub fn pass_on(root: i32) -> bool {
    let signal = TO_FORWARD.swap(0, Ordering::AcqRel);
    if let (Some(signal), Some(root)) = (Signal::from_named_raw(signal), Pid::from_raw(root)) {
        // It keeps its number until it is waited for.
        let _ = kill_process(root, signal);
        return true;
    }
    false
}
