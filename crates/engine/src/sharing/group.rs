//! The group's baton: of all processes that share memory, the one that holds it runs.
//!
//! A thread takes its own process's baton first, then this one; so each process waits here
//! with one thread at most, and holds nothing that another holder could want. A process that
//! is killed while it holds the baton loses it: its writes to shared memory since its last
//! event are on no tape, and the next holder must log that memory (`deaths`). A process that waits and
//! sees one turn go on asks its holder to end it (`hurried`), which it does behind its next call.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use relive_host::sys;

use super::dead_thread;
use super::lock::{Lock, LockGuard};
use crate::failure::{Failure, Result};
use crate::section::{Section, Shareable};

const WAITERS: usize = 4096;
/// In `last`: the process died with the baton.
const DIED: u64 = u32::MAX as u64;
/// How long to sleep before the holder is looked at, in milliseconds: a turn that goes on for so long, while others wait, is to end.
const PATIENCE: u32 = 10;

/// The baton, in the shared memory of the tree.
#[repr(C)]
pub struct Group {
    lock: Lock,
    /// Process that has it, plus one; 0 = none, [`LENT`].
    holder: AtomicU32,
    /// Its threads: the one that runs and, for a vfork child, the parent that will go on.
    keepers: [AtomicU32; 2],
    /// The last holder: process plus one, and its turn below; 0 = none yet.
    last: AtomicU64,
    /// How many turns there have been.
    turns: AtomicU32,
    /// The last of them that was to end.
    hurried: AtomicU32,
    /// Holders that have died. A process that sees it move must log the memory that it shares.
    deaths: AtomicU32,
    waiting: AtomicU32,
    /// Waiters above this index have never been used.
    used: AtomicU32,
    tickets: AtomicU64,
    waiters: [GroupWaiter; WAITERS],
}

/// A holder that is no member and touches no shared memory.
const LENT: u32 = u32::MAX;

#[repr(C)]
struct GroupWaiter {
    /// Process plus one; 0 = unused.
    process: AtomicU32,
    keepers: [AtomicU32; 2],
    /// Becomes 1 when the baton has been handed over.
    go: AtomicU32,
    /// It was found stopped by a signal, and has not run since.
    stopped: AtomicU32,
    /// Order of coming.
    ticket: AtomicU64,
}

/// Threads that stand for a holder: itself, and the parent of a vfork child or 0.
pub type Keepers = [u32; 2];

/// The turn of another process that a turn follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// The process that had the baton before.
    pub process: u32,
    /// The turn in which it gave the baton up; `None`: it died with it.
    pub turn: Option<u32>,
}

fn set(words: &[AtomicU32; 2], keepers: Keepers) {
    for (word, tid) in words.iter().zip(keepers) {
        word.store(tid, Ordering::Release);
    }
}

/// The group of processes that share memory (recording).
pub static GROUP: Section<Group> = Section::new();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for Group {}

impl Group {
    /// Takes the baton for a process, waiting for it if need be. `Some` if another process
    /// has had it since this one last did.
    ///
    /// # Errors
    /// There is no place to wait in.
    pub fn take(&self, process: u32, keepers: Keepers) -> Result<Option<Predecessor>> {
        self.acquire(process + 1, keepers)?;
        Ok(self.before(process))
    }

    /// Gives the baton up as [`Group::release`] and takes it again; enqueues before the next
    /// process is woken, which would otherwise see no waiter.
    ///
    /// # Errors
    /// There is no place to wait in. Another one has the baton then.
    pub fn pass(
        &self,
        process: u32,
        keepers: Keepers,
        turn: u32,
        choose: impl FnOnce(&[u32]) -> usize,
    ) -> Result<Option<Predecessor>> {
        let mut waiter = None;
        self.give_up(process, keepers, turn, choose, || {
            waiter = Some(self.enqueue(process + 1, keepers));
        });
        match waiter {
            Some(waiter) => self.wait(waiter?, process + 1, keepers),
            None => self.acquire(process + 1, keepers)?,
        }
        Ok(self.before(process))
    }

    /// The predecessor of the turn of a process that has just taken the baton.
    fn before(&self, process: u32) -> Option<Predecessor> {
        let last = self.last.load(Ordering::Acquire);
        let before = (last >> 32) as u32;
        (before != 0 && before != process + 1).then(|| Predecessor {
            process: before - 1,
            turn: (last & DIED != DIED).then_some(last as u32),
        })
    }

    /// Gives the baton up in turn `turn` of the process, to a waiting process that `choose`
    /// picks from their indexes in order of coming, or to the next that comes.
    pub fn release(
        &self,
        process: u32,
        keepers: Keepers,
        turn: u32,
        choose: impl FnOnce(&[u32]) -> usize,
    ) {
        self.give_up(process, keepers, turn, choose, || {});
    }

    fn give_up(
        &self,
        process: u32,
        keepers: Keepers,
        turn: u32,
        choose: impl FnOnce(&[u32]) -> usize,
        handed: impl FnOnce(),
    ) {
        let guard = self.lock.take(keepers[0]);
        assert!(
            self.is_held_by(process),
            "only the holder releases the baton of the group"
        );
        self.last.store(
            u64::from(process + 1) << 32 | u64::from(turn),
            Ordering::Release,
        );
        self.hand_over(guard, choose, handed);
    }

    /// Runs `f` while no member runs.
    ///
    /// # Errors
    /// There is no place to wait in.
    pub fn while_quiet<R>(&self, tid: u32, f: impl FnOnce() -> R) -> Result<R> {
        self.acquire(LENT, [tid, 0])?;
        let result = f();
        let guard = self.lock.take(tid);
        if self.holder.load(Ordering::Acquire) == LENT {
            self.hand_over(guard, |_| 0, || {});
        }
        Ok(result)
    }

    /// Until the guard is dropped no thread hands the baton over, takes it, or is about to.
    pub fn hold(&self, tid: u32) -> LockGuard<'_> {
        self.lock.take(tid)
    }

    /// Whether the process holds it.
    #[must_use]
    pub fn is_held_by(&self, process: u32) -> bool {
        self.holder.load(Ordering::Acquire) == process + 1
    }

    /// The holder goes on in other threads (vfork).
    pub fn keep(&self, process: u32, keepers: Keepers) {
        assert!(
            self.is_held_by(process),
            "only the holder names its threads"
        );
        set(&self.keepers, keepers);
    }

    /// Drops the waiters of this process: the waiting thread was killed, and another one takes
    /// its place.
    pub fn forget(&self, process: u32, tid: u32) {
        let _guard = self.lock.take(tid);
        for waiter in self.waiters() {
            if waiter.process.load(Ordering::Acquire) == process + 1 {
                if waiter.go.load(Ordering::Acquire) == 0 {
                    self.dequeue(waiter);
                }
                waiter.process.store(0, Ordering::Release);
            }
        }
    }

    /// Whether the turn of the holder, which asks, has gone on for long while others wait.
    #[must_use]
    pub fn is_hurried(&self) -> bool {
        self.wanted() && self.hurried.load(Ordering::Relaxed) == self.turns.load(Ordering::Relaxed)
    }

    /// Whether a process waits.
    #[must_use]
    pub fn wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// How many holders have died so far.
    #[must_use]
    pub fn deaths(&self) -> u32 {
        self.deaths.load(Ordering::Acquire)
    }

    fn acquire(&self, holder: u32, keepers: Keepers) -> Result<()> {
        let guard = self.lock.take(keepers[0]);
        if self.holder.load(Ordering::Acquire) == 0 {
            self.own(holder, keepers);
            return Ok(());
        }
        let waiter = self.enqueue(holder, keepers)?;
        drop(guard);
        self.wait(waiter, holder, keepers);
        Ok(())
    }

    /// Waits in line.
    fn wait(&self, waiter: &GroupWaiter, holder: u32, keepers: Keepers) {
        let mut seen = self.turns.load(Ordering::Acquire);
        while waiter.go.load(Ordering::Acquire) == 0 {
            sys::futex_wait(&waiter.go, 0, Some(PATIENCE));
            if waiter.go.load(Ordering::Acquire) != 0 {
                break;
            }
            let guard = self.lock.take(keepers[0]);
            waiter.stopped.store(0, Ordering::Release);
            if waiter.go.load(Ordering::Acquire) == 0 && self.free_now() {
                self.dequeue(waiter);
                self.own(holder, keepers);
                drop(guard);
                break;
            }
            let turn = self.turns.load(Ordering::Acquire);
            if std::mem::replace(&mut seen, turn) == turn {
                self.hurried.store(turn, Ordering::Release);
            }
        }
        waiter.process.store(0, Ordering::Release);
    }

    fn own(&self, holder: u32, keepers: Keepers) {
        self.turns.fetch_add(1, Ordering::AcqRel);
        set(&self.keepers, keepers);
        self.holder.store(holder, Ordering::Release);
    }

    /// Under the lock: whether the baton has no holder; a dead holder loses it here.
    fn free_now(&self) -> bool {
        let holder = self.holder.load(Ordering::Acquire);
        if holder == 0 {
            return true;
        }
        let lives = |tid: &AtomicU32| match tid.load(Ordering::Acquire) {
            0 => false,
            tid => !dead_thread(tid),
        };
        let asleep = self.waiters().find(|w| {
            w.process.load(Ordering::Acquire) == holder && w.go.load(Ordering::Acquire) != 0
        });
        if self.keepers.iter().any(lives) {
            let stopped = |tid: &AtomicU32| super::stopped_thread(tid.load(Ordering::Acquire));
            return match asleep {
                // Stopped by a signal before it could wake up: it waits on.
                Some(waiter) if stopped(&self.keepers[0]) => {
                    let ticket = self.tickets.fetch_add(1, Ordering::AcqRel);
                    waiter.ticket.store(ticket, Ordering::Release);
                    waiter.stopped.store(1, Ordering::Release);
                    waiter.go.store(0, Ordering::Release);
                    self.waiting.fetch_add(1, Ordering::AcqRel);
                    self.holder.store(0, Ordering::Release);
                    true
                }
                _ => false,
            };
        }
        // A holder that was killed before it woke up has done nothing with the baton.
        if let Some(waiter) = asleep {
            waiter.process.store(0, Ordering::Release);
        } else if holder != LENT {
            self.last
                .store(u64::from(holder) << 32 | DIED, Ordering::Release);
            self.deaths.fetch_add(1, Ordering::AcqRel);
        }
        self.holder.store(0, Ordering::Release);
        true
    }

    /// Under the lock: a place to wait in.
    fn enqueue(&self, holder: u32, keepers: Keepers) -> Result<&GroupWaiter> {
        let free = |w: &&GroupWaiter| w.process.load(Ordering::Acquire) == 0;
        let Some(at) = self.waiters.iter().position(|w| free(&w)) else {
            return Err(Failure::unsupported(format!(
                "more than {WAITERS} processes that share memory"
            )));
        };
        let waiter = &self.waiters[at];
        set(&waiter.keepers, keepers);
        waiter.go.store(0, Ordering::Release);
        waiter.stopped.store(0, Ordering::Release);
        let ticket = self.tickets.fetch_add(1, Ordering::AcqRel);
        waiter.ticket.store(ticket, Ordering::Release);
        waiter.process.store(holder, Ordering::Release);
        self.used.fetch_max(at as u32 + 1, Ordering::AcqRel);
        self.waiting.fetch_add(1, Ordering::AcqRel);
        Ok(waiter)
    }

    /// The waiter waits no more. It stays unusable until it has noticed.
    fn dequeue(&self, waiter: &GroupWaiter) {
        waiter.go.store(1, Ordering::Release);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
    }

    fn waiters(&self) -> impl Iterator<Item = &GroupWaiter> {
        let used = self.used.load(Ordering::Acquire) as usize;
        self.waiters[..used].iter()
    }

    /// Hands the baton to a waiter; `handed` is done before that one is woken, if there is one.
    fn hand_over(
        &self,
        guard: LockGuard<'_>,
        choose: impl FnOnce(&[u32]) -> usize,
        handed: impl FnOnce(),
    ) {
        self.holder.store(0, Ordering::Release);
        if self.waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut queue: Vec<&GroupWaiter> = self
            .waiters()
            .filter(|w| {
                w.process.load(Ordering::Acquire) != 0
                    && w.go.load(Ordering::Acquire) == 0
                    && w.stopped.load(Ordering::Acquire) == 0
            })
            .collect();
        if queue.is_empty() {
            return;
        }
        queue.sort_by_key(|w| w.ticket.load(Ordering::Acquire));
        let ids: Vec<u32> = queue
            .iter()
            .map(|w| w.process.load(Ordering::Acquire).wrapping_sub(1))
            .collect();
        let next = queue[choose(&ids)];
        let keepers = [0, 1].map(|i| next.keepers[i].load(Ordering::Acquire));
        self.own(next.process.load(Ordering::Acquire), keepers);
        self.dequeue(next);
        handed();
        drop(guard);
        sys::futex_wake(&next.go, 1);
    }
}
