//! The state of sampling in a process: the accesses so far, and the threads that are on their way to wait
//! for the baton. It must never hold a thread up for long.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use super::baton::Baton;
use super::meetings::Meetings;
use crate::call::Call;

/// The state of sampling in a process.
#[derive(Default)]
pub struct Sampler {
    meetings: Mutex<Meetings>,
    /// How many threads waited when the holder's call began.
    waiters: AtomicU32,
    /// Calls that sleep for a time, and have not ended.
    sleepers: AtomicU32,
    /// Microseconds for which sleepers have been waited for.
    waited: AtomicU32,
}

impl Sampler {
    /// The accesses so far.
    pub fn meetings(&self) -> MutexGuard<'_, Meetings> {
        self.meetings
            .lock()
            .expect("no thread panics: panics abort")
    }

    /// A thread begins.
    pub fn begin(&self, thread: u32) {
        self.meetings().begin(thread);
    }

    /// The holder of the baton begins a call.
    pub fn call_begins(&self, baton: &Baton, call: &Call) {
        self.waiters.store(baton.waiting(), Ordering::Relaxed);
        if sleeps_for_a_time(call) {
            self.sleepers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It ends one.
    pub fn call_ends(&self, baton: &Baton, call: &Call, result: i64) {
        if call.nr == libc::SYS_futex as u32 && is_wake(call.args[1]) {
            self.await_woken(baton, u32::try_from(result).unwrap_or(0));
        }
        if sleeps_for_a_time(call) {
            let less = |n: u32| Some(n.saturating_sub(1));
            let _ = self
                .sleepers
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Waits until something is so, as long as threads sleep for a time only: they may bring it about. Whether it has come. All waits
    /// together take half a second at most.
    pub fn await_sleepers(&self, is_so: impl Fn() -> bool) -> bool {
        const MOST: u32 = 500_000;
        const NAP: Duration = Duration::from_micros(50);
        loop {
            if is_so() {
                return true;
            }
            let over = self.waited.load(Ordering::Relaxed) >= MOST;
            if over || self.sleepers.load(Ordering::Relaxed) == 0 {
                return false;
            }
            let start = Instant::now();
            thread::sleep(NAP);
            let micros = start.elapsed().as_micros() as u32;
            self.waited.fetch_add(micros, Ordering::Relaxed);
        }
    }

    /// Lets threads that the holder's call has made or woken come to wait, so that the policy can choose
    /// among them. They may be slow, or never come (a signal was first): then it goes on without them.
    pub fn await_woken(&self, baton: &Baton, woken: u32) {
        const LIMIT: Duration = Duration::from_millis(2);
        let expected = self.waiters.load(Ordering::Relaxed) + woken;
        let start = Instant::now();
        while woken > 0 && baton.samples() && baton.waiting() < expected && start.elapsed() < LIMIT
        {
            thread::yield_now();
        }
    }
}

/// Whether this operation of futex(2) wakes as many threads as it returns.
fn is_wake(operation: u64) -> bool {
    matches!(
        operation as i32 & libc::FUTEX_CMD_MASK,
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET | libc::FUTEX_WAKE_OP
    )
}

/// Whether a call may sleep, and returns when a time has passed.
fn sleeps_for_a_time(call: &Call) -> bool {
    let timeout = |n: usize| call.args[n] as i32 > 0;
    match i64::from(call.nr) {
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => true,
        libc::SYS_poll => timeout(2),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => timeout(3),
        libc::SYS_futex => !is_wake(call.args[1]) && call.args[3] != 0,
        _ => false,
    }
}
