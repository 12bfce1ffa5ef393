//! The processes of a tree as they see each other, by index in the recording: whether they
//! share memory, and how many turns they have had. Lies in the shared memory.
//!
//! One that maps shared files alone can be *asked* to become a member of the group. While a thread of it is awake, one
//! that is awake answers; else whoever asks answers for it. A thread that falls asleep looks for a question behind what it
//! says, and so does one that wakes up; whoever asks looks for threads that are awake behind its question: one of the two
//! sees the other.

#[cfg(test)]
mod question_model;

use std::sync::atomic::{AtomicU32, Ordering};

use relive_host::sys;

use super::dead_process;
use super::visit::Visit;
use crate::broker::need_supervisor;
use crate::failure::{FailureClass, Result};
use crate::section::{Section, Shareable};

/// Processes with a higher index cannot share memory.
pub const MAX: usize = 65536;

/// Where a process stands.
pub mod standing {
    /// It maps nothing that another process could write, or has ended.
    pub const PRIVATE: u32 = 0;
    /// It maps shared files, and no other process could see them change.
    pub const ALONE: u32 = 1;
    /// As `ALONE`; another process waits for it to become a member.
    pub const ASKED: u32 = 2;
    /// Member of the group: it runs with the group's baton only.
    pub const MEMBER: u32 = 3;
    /// Has become a member, and not had the group's baton yet.
    pub const JOINING: u32 = 4;
}

/// One process.
#[repr(C)]
pub struct ProcessSlot {
    /// See [`standing`].
    pub standing: AtomicU32,
    /// Recording: how many of its threads do not sleep. Where they have turns: whether one runs, while it maps shared files
    /// alone.
    awake: AtomicU32,
    /// Its kernel pid; 0 before it is known.
    pub pid: AtomicU32,
    /// Recording: turns on its schedule tape. Replay: turns of it that are over.
    pub turns: AtomicU32,
    /// Recording: `turns` when it last became private.
    pub left: AtomicU32,
    /// Recording: programs that it has executed; the maps of earlier ones are gone.
    pub programs: AtomicU32,
    /// Recording: one of its threads holds a robust lock, while it does not run.
    pub locked: AtomicU32,
    /// Recording: it has been killed, and does the work that the kernel would do for it.
    pub killed: AtomicU32,
    /// Recording: its stay in its parent's memory.
    pub visit: Visit,
    /// Recording with checkpoints: the number of changes of the group when it first became a member, or was asked to, and
    /// when it did so last; 0: never.
    first_joined: AtomicU32,
    last_joined: AtomicU32,
    /// Replay: it has ended, or its recording has.
    pub ended: AtomicU32,
    /// Linearising: turns that were found before the first one of the recording.
    pub found: AtomicU32,
    /// Moves with `turns` and `ended`.
    moved: AtomicU32,
    /// How many wait for it to move.
    waiting: AtomicU32,
}

/// All processes.
#[repr(C)]
pub struct Processes {
    slots: [ProcessSlot; MAX],
}

/// The processes that may share memory.
pub static PROCESSES: Section<Processes> = Section::new();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for Processes {}

impl Processes {
    /// A process; `None` beyond [`MAX`].
    #[must_use]
    pub fn get(&self, process: u32) -> Option<&ProcessSlot> {
        self.slots.get(process as usize)
    }

    /// The first so many processes, as far as there are any.
    pub fn first(&self, count: u32) -> impl Iterator<Item = &ProcessSlot> {
        self.slots.iter().take(count as usize)
    }
}

/// A process's part in the group, as others see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// It is a member, or about to become one.
    pub member: bool,
    /// Number of changes of the group when it first became one; 0: it never has.
    pub first: u32,
    /// And when it did so last.
    pub last: u32,
}

impl ProcessSlot {
    /// It becomes a member, or has been asked to, with this number of changes of the group.
    pub fn joins(&self, changes: u32) {
        let (ok, fail) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.first_joined.compare_exchange(0, changes, ok, fail);
        self.last_joined.store(changes, Ordering::Release);
    }

    /// Its part in the group.
    #[must_use]
    pub fn membership(&self) -> Membership {
        let standing = self.standing.load(Ordering::Acquire);
        Membership {
            member: matches!(
                standing,
                standing::ASKED | standing::JOINING | standing::MEMBER
            ),
            first: self.first_joined.load(Ordering::Acquire),
            last: self.last_joined.load(Ordering::Acquire),
        }
    }

    fn change(&self, from: u32, to: u32) -> bool {
        let (ok, fail) = (Ordering::SeqCst, Ordering::SeqCst);
        self.standing.compare_exchange(from, to, ok, fail).is_ok()
    }

    /// The owner, whose threads have turns, is about to map a shared file: it can be asked from here on.
    pub fn can_be_asked(&self) {
        self.have_woken(1);
        self.become_one(standing::ALONE);
    }

    /// The owner's thread begins a turn. `true`: as a member, with the group's baton only.
    pub fn begin(&self) -> bool {
        match self.standing.load(Ordering::Acquire) {
            standing::PRIVATE => return false,
            standing::MEMBER => return true,
            _ => self.awake.store(1, Ordering::SeqCst),
        }
        self.is_to_join() && {
            self.answer();
            true
        }
    }

    /// The owner's thread ends its turn. `true`: it has had it as a member.
    pub fn pause(&self) -> bool {
        match self.standing.load(Ordering::Acquire) {
            standing::PRIVATE => return false,
            standing::MEMBER => return true,
            _ => self.awake.store(0, Ordering::SeqCst),
        }
        self.answer_if_asleep();
        false
    }

    /// So many threads of the owner, which run together, are there, and all of them are awake.
    pub fn have_woken(&self, threads: u32) {
        self.awake.store(threads, Ordering::SeqCst);
    }

    /// Another thread of the owner, whose threads run together, is there or has woken up. `true`: the process has been
    /// asked, and becomes a member before the thread goes on.
    pub fn wakes(&self) -> bool {
        self.awake.fetch_add(1, Ordering::SeqCst);
        self.is_to_join()
    }

    /// Such a thread is about to sleep, or has ended: it does nothing more that others could see.
    pub fn falls_asleep(&self) {
        if self.awake.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.answer_if_asleep();
        }
    }

    /// The process becomes a member, if it has been asked and none of its threads is awake: one that wakes up from here on
    /// sees the question.
    fn answer_if_asleep(&self) -> bool {
        let asked = self.standing.load(Ordering::SeqCst) == standing::ASKED;
        let answers = asked && self.awake.load(Ordering::SeqCst) == 0;
        if answers {
            self.answer();
        }
        answers
    }

    /// Whether the owner, which is no member, has been asked.
    #[must_use]
    pub fn is_to_join(&self) -> bool {
        let standing = self.standing.load(Ordering::SeqCst);
        matches!(standing, standing::ASKED | standing::JOINING)
    }

    /// The process becomes a member, if it has been asked.
    pub fn answer(&self) {
        if self.change(standing::ASKED, standing::JOINING) {
            sys::futex_wake(&self.standing, u32::MAX >> 1);
        }
    }

    /// The owner changes its own standing; returns the former one.
    pub fn become_one(&self, to: u32) -> u32 {
        let before = self.standing.swap(to, Ordering::SeqCst);
        if before == standing::ASKED {
            sys::futex_wake(&self.standing, u32::MAX >> 1);
        }
        before
    }

    /// The owner runs by itself from now on; returns its former standing.
    pub fn become_private(&self) -> u32 {
        let turns = self.turns.load(Ordering::Acquire);
        self.left.store(turns, Ordering::Release);
        self.become_one(standing::PRIVATE)
    }

    /// The group's holder makes this process a member, and waits until it is, or is private.
    /// Returns the other predecessor of the holder's turn: this process's last turn by itself, or
    /// its end (`Some(None)`); `None` if it had the group's baton already.
    pub fn ask(&self) -> Option<Option<u32>> {
        let turn = || Some(Some(self.turns.load(Ordering::Acquire)));
        let is_dead = || match self.pid.load(Ordering::Acquire) {
            0 => false,
            pid => dead_process(pid),
        };
        if is_dead() {
            return Some(None);
        }
        loop {
            match self.standing.load(Ordering::Acquire) {
                standing::ALONE => {
                    self.change(standing::ALONE, standing::ASKED);
                }
                standing::ASKED if self.answer_if_asleep() => {}
                standing::ASKED => {
                    sys::futex_wait(&self.standing, standing::ASKED, Some(50));
                    if is_dead() {
                        return Some(None);
                    }
                }
                standing::JOINING => return turn(),
                standing::MEMBER => return None,
                _ => return Some(Some(self.left.load(Ordering::Acquire))),
            }
        }
    }

    /// Whether it maps nothing that others could share.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.standing.load(Ordering::Acquire) == standing::PRIVATE
    }

    /// Whether it is a member of the group.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.standing.load(Ordering::Acquire) == standing::MEMBER
    }

    /// Whether it maps something that others could share, and lives.
    #[must_use]
    pub fn may_share(&self) -> bool {
        let pid = self.pid.load(Ordering::Acquire);
        !self.is_private() && (pid == 0 || !dead_process(pid))
    }

    /// Replay: this many turns are over, or all that there will be.
    pub fn over(&self, turns: u32, ended: bool) {
        self.turns.fetch_max(turns, Ordering::AcqRel);
        if ended {
            self.ended.store(1, Ordering::Release);
        }
        self.moved.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) != 0 {
            sys::futex_wake(&self.moved, u32::MAX >> 1);
        }
    }

    /// Replay: waits until turn `turn` is over, or (`None`) until the process has ended.
    /// `false`: its recording ends before that. A process that is gone before its end is noticed
    /// by the supervisor, which says so and ends all.
    ///
    /// # Errors
    /// Another process of the replay has failed, or its supervisor is gone.
    pub fn await_turn(&self, turn: Option<u32>) -> Result<bool> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let reached = loop {
            let seen = self.moved.load(Ordering::SeqCst);
            // In this order: the last turns are published before the end.
            let ended = self.ended.load(Ordering::Acquire) != 0;
            let over = turn.is_some_and(|t| self.turns.load(Ordering::Acquire) > t);
            if over || ended {
                break over || turn.is_none();
            }
            sys::futex_wait(&self.moved, seen, Some(200));
            if crate::shm::shared().is_some_and(|shm| shm.failure().is_some()) {
                return Err(FailureClass::Elsewhere.into());
            }
            need_supervisor()?;
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Ok(reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> ProcessSlot {
        let word = || AtomicU32::new(0);
        ProcessSlot {
            standing: word(),
            awake: word(),
            pid: AtomicU32::new(std::process::id()),
            turns: word(),
            left: word(),
            programs: word(),
            locked: word(),
            killed: word(),
            visit: Visit::default(),
            first_joined: word(),
            last_joined: word(),
            ended: word(),
            found: word(),
            moved: word(),
            waiting: word(),
        }
    }

    #[test]
    fn one_that_runs_becomes_a_member_when_it_pauses() {
        let s = slot();
        s.can_be_asked();
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| s.ask());
            while s.standing.load(Ordering::Acquire) != standing::ASKED {
                std::thread::yield_now();
            }
            assert!(!s.pause(), "it ran without the group's baton");
            asking.join().expect("the asker goes on");
        });
        assert!(s.begin(), "now it needs the group's baton");
    }

    #[test]
    fn one_that_sleeps_becomes_a_member_at_once() {
        let s = slot();
        s.can_be_asked();
        assert!(!s.pause());
        assert_eq!(s.ask(), Some(Some(0)));
        assert!(s.begin());
    }

    #[test]
    fn the_last_of_several_threads_that_falls_asleep_answers() {
        let s = slot();
        s.have_woken(2);
        s.become_one(standing::ALONE);
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| s.ask());
            while s.standing.load(Ordering::Acquire) != standing::ASKED {
                std::thread::yield_now();
            }
            s.falls_asleep();
            assert!(s.wakes(), "it may not go on as if nobody had asked");
            s.falls_asleep();
            assert!(!asking.is_finished(), "one is awake");
            s.falls_asleep();
            asking.join().expect("the asker goes on");
        });
        assert!(s.wakes());
    }

    #[test]
    fn a_private_one_is_not_asked() {
        let s = slot();
        assert_eq!(s.ask(), Some(Some(0)));
        assert!(!s.begin() && !s.pause() && !s.may_share());
    }

    #[test]
    fn waiting_for_turns_and_for_the_end() {
        let s = slot();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| s.await_turn(Some(1)).expect("nothing fails"));
            let end = scope.spawn(|| s.await_turn(None).expect("nothing fails"));
            let never = scope.spawn(|| s.await_turn(Some(7)).expect("nothing fails"));
            s.over(1, false);
            assert!(!second.is_finished());
            s.over(2, false);
            assert!(second.join().expect("no panic"));
            s.over(2, true);
            assert!(end.join().expect("no panic"));
            assert!(!never.join().expect("no panic"), "it will not come");
        });
    }
}
