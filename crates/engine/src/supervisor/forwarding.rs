//! Signals that a supervisor gets: those meant for the program are passed on to it, those that the program sends are not, and the end
//! of a child ends the supervisor's sleep. The handlers allocate nothing.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use relive_host::sent_signal::{ENDINGS, SentSignal, Words, for_programs};
use relive_host::signal::{Disposition, action_of, set_disposition};
use relive_host::sys;

use super::descent::is_own;
use crate::received::RECEIVED;
use crate::sharing::stopping::has_signal;
use crate::shm::Shm;
use crate::sigaction::{SIG_DFL, SIG_IGN};

/// The keyboard's signals go to the whole group: the program decides on them.
pub fn ignore_keyboard() {
    for sig in [libc::SIGINT, libc::SIGQUIT] {
        set_disposition(sig, Disposition::Ignore);
    }
}

/// The signals that were sent to the recorder and are meant for the program ([`SentSignal`]), the last one of each number.
/// Process-wide: a signal handler sets them.
static TO_FORWARD: Words = [const { AtomicU64::new(0) }; 65];

extern "C" fn note_forward(sig: i32, info: *const [u8; 128], _: *mut libc::c_void) {
    // SAFETY: the kernel passes a siginfo.
    let signal = SentSignal::now(unsafe { &*info });
    if signal.sender == std::process::id() {
        // By what it has done itself: it ends, as soon as this handler has returned.
        set_disposition(sig, Disposition::Default);
        // SAFETY: sends a signal to this thread.
        unsafe { libc::raise(sig) };
        return;
    }
    // The program has sent it to its group, and got it itself, or to its parent, which the recorder is not.
    if signal.sender != 0 && is_own(signal.sender) {
        return;
    }
    if let Some(word) = TO_FORWARD.get(sig as usize) {
        word.store(signal.pack(), Ordering::Release);
    }
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
pub fn forward_signals() {
    for sig in for_programs() {
        let action = action_of(sig);
        // An own handler of another one is for a signal that the user has asked for.
        if action.handler == SIG_DFL || ENDINGS.contains(&sig) && action.handler != SIG_IGN {
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
    for (noted, word) in noted() {
        if is_its_own(shm, noted) {
            let (ok, fail) = (Ordering::AcqRel, Ordering::Relaxed);
            // Another one may have come since.
            let _ = word.compare_exchange(noted.pack(), 0, ok, fail);
        }
    }
}

/// The signals that have come and wait to be passed on.
fn noted() -> impl Iterator<Item = (SentSignal, &'static AtomicU64)> {
    let words = TO_FORWARD.iter();
    words.filter_map(|word| Some((SentSignal::unpack(word.load(Ordering::Acquire))?, word)))
}

/// Whether the program's first process got it too.
fn is_its_own(shm: &Shm, signal: SentSignal) -> bool {
    let received = RECEIVED.of(shm).last(signal.signal);
    received.is_some_and(|one| one.is(signal))
}

/// From now on the signals of the keyboard end what the supervisor still does, too: see [`asks_to_end`].
pub fn end_by_keyboard() {
    for sig in [libc::SIGINT, libc::SIGQUIT] {
        note(sig);
    }
}

/// Whether a signal has come behind the program's end that would end the supervisor.
pub fn asks_to_end() -> bool {
    let mut endings = ENDINGS.into_iter().chain([libc::SIGINT, libc::SIGQUIT]);
    endings.any(|sig| TO_FORWARD[sig as usize].load(Ordering::Acquire) != 0)
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

/// Sends the signals that the supervisor got to the program's first process, which has not
/// been waited for, unless that has got them too: they were sent to the group of both then. Whether one of them asks to end.
pub fn pass_on(shm: &Shm, root: i32) -> bool {
    let mut asks_to_end = false;
    for (signal, word) in noted() {
        asks_to_end |= ENDINGS.contains(&signal.signal);
        let is_there = is_its_own(shm, signal) || is_pending(root, signal.signal);
        if !is_there && signal.age() < PATIENCE {
            continue;
        }
        let (ok, fail) = (Ordering::AcqRel, Ordering::Relaxed);
        let is_last = word.compare_exchange(signal.pack(), 0, ok, fail).is_ok();
        if is_last && !is_there {
            let args = [root as u64, signal.signal as u64, 0, 0, 0, 0];
            // SAFETY: sends a signal. The process keeps its number until it is waited for.
            unsafe { sys::syscall(libc::SYS_kill as u64, args) };
        }
    }
    asks_to_end
}

/// Whether a process has a signal that it has not taken yet.
fn is_pending(pid: i32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    has_signal(&status, "ShdPnd:", signal)
}
