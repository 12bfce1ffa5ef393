//! Signals that a supervisor gets: those meant for the program are passed on to it, and the end of
//! a child ends the supervisor's sleep. The handlers only move atomic words.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use relive_host::ending_signal::{ENDINGS, EndingSignal};
use rustix::process::{Pid, Signal, kill_process};

use crate::received::RECEIVED;
use crate::sharing::stopping::has_signal;
use crate::shm::Shm;

/// The keyboard's signals go to the whole group: the program decides on them.
pub fn ignore_keyboard() {
    for sig in [libc::SIGINT, libc::SIGQUIT] {
        relive_host::signal::set_disposition(sig, relive_host::signal::Disposition::Ignore);
    }
}

/// A signal that was sent to the recorder and is meant for the program ([`EndingSignal`]).
/// Process-wide: a signal handler sets it.
static TO_FORWARD: AtomicU64 = AtomicU64::new(0);

extern "C" fn note_forward(_: i32, info: *const [u8; 128], _: *mut libc::c_void) {
    // SAFETY: the kernel passes a siginfo.
    let signal = EndingSignal::now(unsafe { &*info });
    TO_FORWARD.store(signal.pack(), Ordering::Release);
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
    for sig in ENDINGS {
        if !relive_host::signal::is_ignored(sig) {
            note(sig);
        }
    }
}

/// From now on [`TO_FORWARD`] says that this signal has come.
fn note(sig: i32) {
    // SAFETY: plain numbers, for which all zeros are a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = note_forward as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler only stores to an atomic.
    unsafe { libc::sigaction(sig, &raw const action, std::ptr::null_mut()) };
}

/// The program's first process has ended: what it got too was its own.
pub fn program_has_ended(shm: &Shm) {
    let noted = TO_FORWARD.load(Ordering::Acquire);
    let received = RECEIVED.of(shm).last();
    let is_its_own = |signal| received.is_some_and(|one| one.is(signal));
    if EndingSignal::unpack(noted).is_some_and(is_its_own) {
        let (ok, fail) = (Ordering::AcqRel, Ordering::Relaxed);
        // Another one may have come since.
        let _ = TO_FORWARD.compare_exchange(noted, 0, ok, fail);
    }
}

/// From now on the signals of the keyboard end what the supervisor still does, too: see [`asks_to_end`].
pub fn end_by_keyboard() {
    for sig in [libc::SIGINT, libc::SIGQUIT] {
        note(sig);
    }
}

/// Whether a signal has come behind the program's end that would end the supervisor.
pub fn asks_to_end() -> bool {
    TO_FORWARD.load(Ordering::Acquire) != 0
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

/// How long the program's first process has to show that it got a signal itself, in milliseconds.
const PATIENCE: u64 = 50;

/// Sends the last signal that the supervisor got to the program's first process, which has not
/// been waited for, unless that has got it too: it was sent to the group of both then. Whether there was one.
pub fn pass_on(shm: &Shm, root: i32) -> bool {
    let noted = TO_FORWARD.load(Ordering::Acquire);
    let (Some(signal), Some(pid)) = (EndingSignal::unpack(noted), Pid::from_raw(root)) else {
        return false;
    };
    let received = RECEIVED.of(shm).last();
    let is_there = received.is_some_and(|one| one.is(signal)) || is_pending(root, signal.signal);
    if !is_there && signal.age() < PATIENCE {
        return true;
    }
    let (ok, fail) = (Ordering::AcqRel, Ordering::Relaxed);
    let is_last = TO_FORWARD.compare_exchange(noted, 0, ok, fail).is_ok();
    if let (true, false, Some(named)) = (is_last, is_there, Signal::from_named_raw(signal.signal)) {
        // It keeps its number until it is waited for.
        let _ = kill_process(pid, named);
    }
    true
}

/// Whether a process has a signal that it has not taken yet.
fn is_pending(pid: i32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    has_signal(&status, "ShdPnd:", signal)
}
