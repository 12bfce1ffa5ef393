//! The baton: while recording, the one guest thread of a process that holds it runs.
//!
//! Turns are logged by the thread that takes the baton, on the process's schedule tape, so
//! that the tape names the holders in order. Waiting happens outside every lock; a woken
//! thread touches no engine state before it holds the baton.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use relive_host::sys;
use relive_sched::Policy;

/// Who has the baton and who waits for it.
pub struct Baton {
    state: Mutex<State>,
    /// How many threads wait; read without the lock to see whether a switch makes sense.
    waiting: AtomicU32,
    threads: AtomicU32,
}

struct State {
    holder: Option<u32>,
    last: u32,
    queue: Vec<Waiter>,
    policy: Box<dyn Policy>,
}

struct Waiter {
    thread: u32,
    /// Becomes 1 when the baton has been handed over. Lives on the waiter's stack.
    go: *const AtomicU32,
}

// SAFETY: the pointer is used only while its owner is queued, and the owner stays in `take`
// until it has been taken from the queue.
unsafe impl Send for Waiter {}

impl Baton {
    /// A baton held by thread 0.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>) -> Self {
        let state = State {
            holder: Some(0),
            last: 0,
            queue: Vec::new(),
            policy,
        };
        Self {
            state: Mutex::new(state),
            waiting: AtomicU32::new(0),
            threads: AtomicU32::new(1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics: panics abort")
    }

    /// Holds everybody off while the process forks, so that the child's copy is whole.
    pub fn freeze(&self) -> impl Sized {
        self.lock()
    }

    /// Starts over with `thread` as the only one (after fork and exec).
    pub fn reset(&self, thread: u32) {
        let mut s = self.lock();
        s.queue.clear();
        s.holder = Some(thread);
        s.last = thread;
        self.waiting.store(0, Ordering::Relaxed);
        self.threads.store(1, Ordering::Relaxed);
    }

    /// Notes that a thread has been made or has ended.
    pub fn count(&self, more: i32) {
        self.threads.fetch_add(more as u32, Ordering::AcqRel);
    }

    /// Whether more than one thread exists.
    pub fn shared(&self) -> bool {
        self.threads.load(Ordering::Acquire) > 1
    }

    /// Whether somebody waits.
    pub fn wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Whether a thread has the baton.
    pub fn holds(&self, thread: u32) -> bool {
        self.lock().holder == Some(thread)
    }

    /// Length of the next slice in ticks.
    pub fn slice(&self) -> u64 {
        self.lock().policy.slice()
    }

    /// How many instructions to step after a slice's last tick.
    pub fn steps(&self) -> u32 {
        self.lock().policy.steps()
    }

    /// Tells the policy that a thread gave way because it spun.
    pub fn spinning(&self, thread: u32) {
        self.lock().policy.spinning(thread);
    }

    /// Gives the baton up: to a waiting thread that the policy chooses, or to whoever comes.
    pub fn release(&self, thread: u32) {
        let mut s = self.lock();
        assert_eq!(s.holder, Some(thread), "only the holder releases the baton");
        s.last = thread;
        s.holder = None;
        if !s.queue.is_empty() {
            let ids: Vec<u32> = s.queue.iter().map(|w| w.thread).collect();
            let pick = s.policy.choose(&ids);
            let next = s.queue.remove(pick);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            s.holder = Some(next.thread);
            // SAFETY: the waiter is in `take` until `go` is 1.
            let go = unsafe { &*next.go };
            go.store(1, Ordering::Release);
            drop(s);
            sys::futex_wake(go, 1);
        }
    }

    /// Takes the baton, waiting for it if need be. Returns whether another thread has held
    /// it since this one last did.
    pub fn take(&self, thread: u32) -> bool {
        let go = AtomicU32::new(0);
        let mut s = self.lock();
        if s.holder.is_none() {
            s.holder = Some(thread);
        } else {
            s.queue.push(Waiter {
                thread,
                go: &raw const go,
            });
            self.waiting.fetch_add(1, Ordering::Relaxed);
            drop(s);
            while go.load(Ordering::Acquire) == 0 {
                sys::futex_wait(&go, 0, None);
            }
            s = self.lock();
        }
        let switched = s.last != thread;
        s.last = thread;
        switched
    }

    /// Hands the baton to a waiting thread and waits for it to come back.
    pub fn pass(&self, thread: u32) {
        self.release(thread);
        self.take(thread);
    }
}
