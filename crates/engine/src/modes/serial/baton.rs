//! The baton: while recording, the one guest thread of a process that holds it runs; a
//! process that shares memory with others runs only while it also has the group's baton
//! (`sharing/group.rs`), which its thread takes after this one and gives up before.
//!
//! Turns are logged by the thread that takes the baton, on the process's schedule tape, so
//! that the tape names the holders in order. Waiting happens outside every lock; a woken
//! thread touches no engine state before it holds the baton.

mod hurry;
mod lodging;
pub mod membership;
#[cfg(test)]
mod tests;
mod turn_waits;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use relive_host::sys;
use relive_sched::{Policy, SharedAccess};

use self::hurry::Hurry;
use crate::failure::Result;
use crate::modes::live::lodger::Lodger;
pub use crate::sharing::group::Predecessor;
use crate::sharing::processes::{ProcessSlot, standing};
use crate::shm::Shm;
use crate::task::Task;

/// The holder of the baton, and its waiters.
pub struct Baton {
    state: Mutex<BatonState>,
    /// How many threads wait; read without the lock to see whether a switch makes sense.
    waiting: AtomicU32,
    shm: Shm,
    /// Index of the process that the address space belongs to.
    process: AtomicU32,
    /// Deaths of the group's holders that this process has answered.
    deaths: AtomicU32,
    /// There is a lodger that has turns.
    lodged: AtomicBool,
    /// Changes of files that this process has heard of.
    heard: AtomicU64,
    /// Which process is next; asked by the group's holder only.
    among: Mutex<Box<dyn Policy>>,
}

struct BatonState {
    holder: Option<u32>,
    last: u32,
    /// How many turns there have been, and the kernel's ids of the process and thread that has the one at hand, once it
    /// has begun.
    turns: u64,
    runs: Option<(u32, u32)>,
    /// It has been called out in this turn.
    called: bool,
    queue: Vec<BatonWaiter>,
    policy: Box<dyn Policy>,
    /// The process that lodges in this memory.
    lodger: Option<Lodger>,
}

struct BatonWaiter {
    thread: u32,
    /// Becomes 1 when the baton has been handed over. Lives on the waiter's stack.
    go: *const AtomicU32,
}

// SAFETY: the pointer is used only while its owner is queued, and the owner stays in `take`
// until it has been taken from the queue.
unsafe impl Send for BatonWaiter {}

/// The result of taking the baton.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// Another thread has held it since this one last did: the turn must be logged.
    pub switched: bool,
    /// The last one was a thread of another process.
    pub before: Option<Predecessor>,
}

impl Taken {
    /// The thread has given the baton up and taken it once more, and done nothing between: one
    /// turn stands for both.
    pub fn and_then(self, later: Self) -> Self {
        Self {
            switched: self.switched || later.switched,
            before: later.before.or(self.before),
        }
    }
}

impl Baton {
    /// A baton held by thread `slot` of the process; `policies` choose among its threads and
    /// among the processes that share memory with it.
    #[must_use]
    pub fn new(policies: [Box<dyn Policy>; 2], shm: Shm, process: u32, slot: u32) -> Self {
        let [policy, among] = policies;
        let state = BatonState {
            holder: Some(slot),
            last: slot,
            turns: 0,
            runs: None,
            called: false,
            queue: Vec::new(),
            policy,
            lodger: None,
        };
        Self {
            state: Mutex::new(state),
            waiting: AtomicU32::new(0),
            shm,
            process: AtomicU32::new(process),
            deaths: AtomicU32::new(0),
            lodged: AtomicBool::new(false),
            heard: AtomicU64::new(0),
            among: Mutex::new(among),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BatonState> {
        self.state.lock().expect("no thread panics: panics abort")
    }

    fn among(&self) -> MutexGuard<'_, Box<dyn Policy>> {
        self.among.lock().expect("no thread panics: panics abort")
    }

    /// Holds all others off while the process forks, so that the child's copy is whole.
    pub fn freeze(&self) -> impl Sized {
        (self.lock(), self.among())
    }

    /// Starts over in a forked child, as process `process` with one thread.
    pub fn start_over(&self, process: u32) {
        let mut s = self.lock();
        s.queue.clear();
        self.forget_lodger(&mut s);
        (s.holder, s.last, s.runs) = (Some(0), 0, None);
        self.waiting.store(0, Ordering::Relaxed);
        self.process.store(process, Ordering::Relaxed);
    }

    /// No thread holds it: the first one that comes takes it.
    pub fn lies_free(&self) {
        self.lock().holder = None;
    }

    /// Another policy chooses from here on.
    pub fn follow(&self, policy: Box<dyn Policy>) {
        self.lock().policy = policy;
    }

    /// Whether others could see the effects of a sleeping call on memory: other threads, or
    /// processes that map the same memory.
    pub fn shared(&self, task: &Task) -> bool {
        !task.machine().registry.single() || self.standing() != standing::PRIVATE
    }

    /// Whether another thread or process waits.
    pub fn wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
            || match self.standing() {
                standing::ASKED => true,
                standing::MEMBER => self.group().wanted(),
                _ => false,
            }
    }

    /// How many threads of the process wait.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Length of the holder's next slice in ticks.
    pub fn slice(&self, task: &Task) -> u64 {
        let mut s = self.lock();
        s.runs = Some((task.process.pid, task.tid));
        let alone = s.queue.is_empty();
        s.policy.slice(alone)
    }

    /// The holder has woken others: ticks after which its slice ends, if it ends sooner for that.
    pub fn woke(&self) -> Option<u64> {
        self.lock().policy.woke()
    }

    /// How many instructions to step after a slice's last tick.
    pub fn steps(&self) -> u32 {
        self.lock().policy.steps()
    }

    /// At the end of the holder's slice: whether it goes on in spite of those that wait.
    pub fn keeps(&self, thread: u32) -> bool {
        let mut s = self.lock();
        let ids = s.ids();
        !ids.is_empty() && s.policy.keeps(thread, &ids)
    }

    /// Whether the policy wants to see accesses.
    pub fn samples(&self) -> bool {
        let s = self.lock();
        s.policy.samples(s.queue.is_empty())
    }

    /// The holder's next instruction is looked at: whether another thread of the process goes first.
    /// `None`: the policy does not want to see it.
    pub fn look(&self, thread: u32) -> Option<bool> {
        let mut s = self.lock();
        let ids = s.ids();
        let samples = s.policy.samples(ids.is_empty());
        samples.then(|| s.policy.look(thread, &ids))
    }

    /// Whether another thread of the process goes before this access of the holder's.
    pub fn give_way(&self, thread: u32, access: SharedAccess) -> bool {
        let mut s = self.lock();
        let ids = s.ids();
        s.policy.give_way(thread, access, &ids)
    }

    /// Whether it would, if one that sleeps for a time could go on.
    pub fn awaits_others(&self, thread: u32, access: SharedAccess) -> bool {
        let s = self.lock();
        s.policy.awaits_others(thread, access, &s.ids())
    }

    /// Whether the holder has given way for something that has not come, as all others sleep.
    pub fn gave_up(&self, thread: u32) -> bool {
        self.lock().policy.gave_up(thread)
    }

    /// Whether it gives way for that once more.
    pub fn gives_way_again(&self, thread: u32) -> bool {
        let mut s = self.lock();
        let ids = s.ids();
        s.policy.gives_way_again(thread, &ids)
    }

    /// The holder makes the access.
    pub fn makes(&self, thread: u32, access: SharedAccess) {
        self.lock().policy.makes(thread, access);
    }

    /// Tells the policies that a thread gave way because it spun.
    pub fn spinning(&self, thread: u32) {
        self.lock().policy.spinning(thread);
        self.among().spinning(self.process());
    }

    /// The holder is about to make a call that keeps its turn, or to execute a program, and is not called until it can be.
    pub fn is_not_called(&self) {
        let mut s = self.lock();
        s.runs = None;
        let called = std::mem::take(&mut s.called);
        drop(s);
        if called {
            arrives();
        }
    }

    /// The holder can be called again.
    pub fn can_be_called(&self, task: &Task) {
        self.lock().runs = Some((task.process.pid, task.tid));
    }

    /// Gives the baton up: to a waiting thread that the policy chooses, or to the next that comes.
    pub fn release(&self, task: &Task) {
        if self.slot().is_some_and(ProcessSlot::pause) {
            self.release_group(task);
        }
        let mut s = self.lock();
        let called = s.called;
        match s.hand_over(task.slot, &self.waiting) {
            Some(next) => {
                drop(s);
                wake(next);
            }
            None => {
                s.holder = None;
                drop(s);
            }
        }
        if called {
            arrives();
        }
    }

    /// Takes the baton, waiting for it if need be.
    ///
    /// # Errors
    /// There is no place to wait in for the group's.
    pub fn take(&self, task: &Task) -> Result<Taken> {
        let go = AtomicU32::new(0);
        let mut s = self.lock();
        if s.holder.is_none() {
            s.holder = Some(task.slot);
        } else {
            s.enqueue(task.slot, &go, &self.waiting);
            let hurry = Hurry::since(s.turns);
            drop(s);
            self.wait(&go, task, hurry)?;
            s = self.lock();
        }
        self.begin_turn(task, s)
    }

    /// Hands the baton to a waiting thread and waits for it to come back. Enqueues before the next
    /// thread is woken: that one would otherwise see no waiter, and if it spins keep the baton.
    ///
    /// # Errors
    /// As [`Baton::take`].
    pub fn pass(&self, task: &Task) -> Result<Taken> {
        let member = self.slot().is_some_and(ProcessSlot::pause);
        let mut s = self.lock();
        if member && s.queue.is_empty() {
            drop(s);
            let before = self.pass_group(task)?;
            return Ok(Taken {
                switched: before.is_some(),
                before,
            });
        }
        if member {
            drop(s);
            self.release_group(task);
            s = self.lock();
        }
        if let Some(next) = s.hand_over(task.slot, &self.waiting) {
            let go = AtomicU32::new(0);
            s.enqueue(task.slot, &go, &self.waiting);
            drop(s);
            wake(next);
            self.wait(&go, task, Hurry::default())?;
            s = self.lock();
        }
        self.begin_turn(task, s)
    }

    /// The thread has its process's baton, and takes the group's if need be.
    fn begin_turn(&self, task: &Task, mut s: MutexGuard<'_, BatonState>) -> Result<Taken> {
        let switched = s.last != task.slot;
        s.last = task.slot;
        s.turns += 1;
        s.called = false;
        s.runs = Some((task.process.pid, task.tid));
        drop(s);
        let before = match self.slot().is_some_and(ProcessSlot::begin) {
            true => self.take_group(task)?,
            false => None,
        };
        Ok(Taken {
            switched: switched || before.is_some(),
            before,
        })
    }
}

impl BatonState {
    /// The threads that wait.
    fn ids(&self) -> Vec<u32> {
        self.queue.iter().map(|w| w.thread).collect()
    }

    /// Makes a waiting thread the holder, if there is one, in place of `thread`; returns the word
    /// to wake it by.
    fn hand_over(&mut self, thread: u32, waiting: &AtomicU32) -> Option<*const AtomicU32> {
        assert_eq!(
            self.holder,
            Some(thread),
            "only the holder releases the baton"
        );
        self.last = thread;
        // It may sleep in a call from here on.
        self.runs = None;
        self.forget_dead(waiting);
        if self.queue.is_empty() {
            return None;
        }
        let ids = self.ids();
        let next = self.queue.remove(self.policy.choose(&ids));
        waiting.fetch_sub(1, Ordering::Relaxed);
        self.holder = Some(next.thread);
        Some(next.go)
    }

    fn enqueue(&mut self, thread: u32, go: &AtomicU32, waiting: &AtomicU32) {
        self.queue.push(BatonWaiter {
            thread,
            go: std::ptr::from_ref(go),
        });
        waiting.fetch_add(1, Ordering::Relaxed);
    }
}

/// A call to this thread that is underway arrives before the return: signals that have been sent are delivered at the end of any system
/// call. It would cut the call short in which the thread is about to sleep, or kill the program that it is about to execute.
fn arrives() {
    let _ = sys::gettid();
}

/// Wakes the thread that has just been made the holder.
fn wake(go: *const AtomicU32) {
    // SAFETY: its owner stays in `wait` until the word is 1.
    let go = unsafe { &*go };
    go.store(1, Ordering::Release);
    sys::futex_wake(go, 1);
}
