//! Files that are changed by system calls while others may map them: the changes of files that are
//! being made at this moment, and the finished ones that the members of the group have not yet
//! heard of. Lies in the shared memory.
//!
//! The rule that this keeps, of a file and the processes of the tree: *a change that a call makes
//! to a file is in the content that a process finds when it maps the file, or that process is a
//! member of the group and hears of the change before its next turn.* Two orders make it hold.
//!
//! - A process that changes a file announces this first ([`FileChanges::announce`]) and looks then
//!   whether the file is mapped. A process that maps a file claims it first (`users.rs`) and looks
//!   then whether it is being changed ([`FileChanges::await_others`]). One of the two sees the
//!   other: a process that maps waits until the change is over, which depends on no other process.
//! - A process that sees that others map the file withdraws its announcement, becomes a member and
//!   asks them to. It changes the file with the group's baton, and tells ([`FileChanges::tell`])
//!   before it gives that up.
//!
//! Nothing here sleeps with a change announced, or looks at a file.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use relive_host::sys;

use super::dead_thread;
use super::users::USERS;
use crate::ids;
use crate::section::{Section, Shareable};
use crate::shm::Shm;

/// As many calls may change files at once.
const CELLS: usize = 128;
/// As many changes are remembered.
const NEWS: usize = 256;
/// In place of a file's identity while it is not known: stands for every file.
pub const UNKNOWN_FILE: u64 = u64::MAX;
/// In place of a call's result: a file was claimed since the one to change was looked up, and the call was not made.
pub const CLAIMED: i64 = -601;
/// How long to sleep before the awaited thread is looked at, in milliseconds.
const PATIENCE: u32 = 50;

/// The changes, in the shared memory of the tree.
#[repr(C)]
pub struct FileChanges {
    cells: [ChangeInFlight; CELLS],
    /// How many wait for a cell.
    waiting: AtomicU32,
    /// Changes that were told so far.
    told: AtomicU64,
    news: [ChangeMade; NEWS],
}

/// A change that is being made. Each has a cache line: all that write to files come here.
#[repr(C, align(64))]
struct ChangeInFlight {
    /// Thread that makes it; 0 = unused.
    tid: AtomicU32,
    /// Identity of the file, or [`UNKNOWN_FILE`].
    file: AtomicU64,
}

#[repr(C)]
struct ChangeMade {
    file: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
}

/// A part of a file that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRange {
    /// Identity of the file.
    pub file: u64,
    /// First byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
}

/// The changes since a process last listened.
#[derive(Debug, PartialEq, Eq)]
pub enum Since {
    /// These parts.
    Parts(Vec<FileRange>),
    /// More than is remembered.
    Anything,
}

/// A change that is being made; it is over when this is dropped.
pub struct Underway<'a> {
    changes: &'a FileChanges,
    cell: &'a ChangeInFlight,
}

/// A change that a call is about to make of a file that nobody maps.
pub struct Intended {
    pub shm: Shm,
    /// Identity of the file, or [`UNKNOWN_FILE`].
    pub file: u64,
    /// Claims to files that there were when it was looked up.
    pub since: u64,
}

/// Changes of files that others may map (recording).
pub static CHANGES: Section<FileChanges> = Section::new();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for FileChanges {}

impl FileChanges {
    /// Thread `tid` is about to change a file. Whether others map it must be looked up afterwards.
    pub fn announce(&self, file: u64, tid: u32) -> Underway<'_> {
        let first = tid as usize;
        let cell = loop {
            let mut cells = (0..CELLS).map(|i| &self.cells[(first + i) % CELLS]);
            match cells.find(|cell| cell.take(tid)) {
                Some(cell) => break cell,
                None => std::thread::yield_now(),
            }
        };
        let underway = Underway {
            changes: self,
            cell,
        };
        underway.of(file);
        underway
    }

    /// Waits until all changes of the file are over that may not have seen the caller's claim to
    /// it.
    pub fn await_others(&self, file: u64) {
        fence(Ordering::SeqCst);
        for cell in &self.cells {
            if !cell.meets(file) {
                continue;
            }
            self.waiting.fetch_add(1, Ordering::SeqCst);
            loop {
                let tid = cell.tid.load(Ordering::SeqCst);
                if tid == 0 || !cell.meets(file) || dead_thread(tid) {
                    break;
                }
                sys::futex_wait(&cell.tid, tid, Some(PATIENCE));
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Tells the members of a change. Only the holder of the group's baton does.
    pub fn tell(&self, part: FileRange) {
        let told = self.told.load(Ordering::Acquire);
        let news = &self.news[told as usize % NEWS];
        news.file.store(part.file, Ordering::Release);
        news.start.store(part.start, Ordering::Release);
        news.end.store(part.end, Ordering::Release);
        self.told.store(told + 1, Ordering::Release);
    }

    /// How many changes have been told.
    #[must_use]
    pub fn told(&self) -> u64 {
        self.told.load(Ordering::Acquire)
    }

    /// The changes told after the first `heard`, for the holder of the group's baton.
    #[must_use]
    pub fn since(&self, heard: u64) -> Since {
        let told = self.told();
        if told - heard > NEWS as u64 {
            return Since::Anything;
        }
        let news = (heard..told).map(|i| &self.news[i as usize % NEWS]);
        Since::Parts(news.map(ChangeMade::part).collect())
    }
}

impl Intended {
    /// Makes the call by `enter`, announced; [`CLAIMED`]: the file may be mapped by now.
    pub fn make(&self, enter: impl FnOnce() -> i64) -> i64 {
        let users = USERS.of(&self.shm);
        let _underway = CHANGES.of(&self.shm).announce(self.file, ids::thread());
        let is_claimed = match self.file {
            UNKNOWN_FILE => users.clock() > self.since,
            file => users.claimed_after(file, self.since),
        };
        match is_claimed {
            true => CLAIMED,
            false => enter(),
        }
    }
}

impl ChangeMade {
    fn part(&self) -> FileRange {
        FileRange {
            file: self.file.load(Ordering::Acquire),
            start: self.start.load(Ordering::Acquire),
            end: self.end.load(Ordering::Acquire),
        }
    }
}

impl Underway<'_> {
    /// It is a change of this file. Whether others map it must be looked up afterwards.
    pub fn of(&self, file: u64) {
        self.cell.file.store(file, Ordering::SeqCst);
        // Against the one in `await_others`.
        fence(Ordering::SeqCst);
    }
}

impl ChangeInFlight {
    /// Whether the change may be one of this file.
    fn meets(&self, file: u64) -> bool {
        [file, UNKNOWN_FILE].contains(&self.file.load(Ordering::SeqCst))
    }

    /// Takes it if it is unused, or was that of a thread which is gone.
    fn take(&self, tid: u32) -> bool {
        let swap = |from| {
            let (ok, fail) = (Ordering::SeqCst, Ordering::SeqCst);
            self.tid.compare_exchange(from, tid, ok, fail).is_ok()
        };
        match self.tid.load(Ordering::SeqCst) {
            0 => swap(0),
            // A thread changes one file at a time.
            owner => (owner == tid || dead_thread(owner)) && swap(owner),
        }
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.cell.file.store(0, Ordering::SeqCst);
        self.cell.tid.store(0, Ordering::SeqCst);
        if self.changes.waiting.load(Ordering::SeqCst) != 0 {
            sys::futex_wake(&self.cell.tid, u32::MAX >> 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn changes() -> Box<FileChanges> {
        // SAFETY: all fields are atomics, for which zeros are a value.
        unsafe { Box::<FileChanges>::new_zeroed().assume_init() }
    }

    #[test]
    fn a_process_that_maps_a_file_waits_for_its_change() {
        let changes = changes();
        let over = AtomicBool::new(false);
        let underway = changes.announce(7, sys::gettid());
        changes.await_others(8);
        underway.of(UNKNOWN_FILE);
        std::thread::scope(|scope| {
            let maps = scope.spawn(|| {
                changes.await_others(7);
                assert!(over.load(Ordering::Acquire), "the change is over");
            });
            while changes.waiting.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            over.store(true, Ordering::Release);
            drop(underway);
            maps.join().expect("no panic");
        });
        changes.await_others(7);
    }

    #[test]
    fn the_dead_change_nothing() {
        let changes = changes();
        let dead = std::thread::spawn(sys::gettid).join().expect("no panic");
        std::mem::forget(changes.announce(7, dead));
        changes.await_others(7);
        let cell = std::ptr::from_ref(changes.announce(8, dead).cell);
        assert_eq!(cell, &raw const changes.cells[dead as usize % CELLS]);
    }

    /// Every order in which a changer (announces, looks, changes, is done) and a mapper
    /// (claims, looks, waits, copies) can take their steps: the copy has the change, or the changer
    /// has seen the claim.
    #[test]
    fn one_of_two_sees_the_other() {
        fn go(step: (u8, u8), state: [bool; 5], orders: &mut u32) {
            let [announced, saw_claim, changed, claimed, must_wait] = state;
            if step == (4, 4) {
                *orders += 1;
                return;
            }
            match step.0 {
                0 => go(
                    (1, step.1),
                    [true, saw_claim, changed, claimed, must_wait],
                    orders,
                ),
                1 => go(
                    (2, step.1),
                    [!claimed, claimed, changed, claimed, must_wait],
                    orders,
                ),
                // A changer that has seen a claim asks first; that is another story.
                2 => go(
                    (3, step.1),
                    [announced, saw_claim, true, claimed, must_wait],
                    orders,
                ),
                3 => go(
                    (4, step.1),
                    [false, saw_claim, changed, claimed, must_wait],
                    orders,
                ),
                _ => {}
            }
            match step.1 {
                0 => go(
                    (step.0, 1),
                    [announced, saw_claim, changed, true, must_wait],
                    orders,
                ),
                1 => go(
                    (step.0, 2),
                    [announced, saw_claim, changed, claimed, announced],
                    orders,
                ),
                2 if must_wait && announced => {}
                2 => go((step.0, 3), state, orders),
                3 => {
                    // It copies: a change that comes later must know of the claim.
                    let later = !changed;
                    let unknown = step.0 >= 2 && !saw_claim;
                    assert!(
                        !(later && unknown),
                        "a change that the mapper never hears of"
                    );
                    go((step.0, 4), state, orders);
                }
                _ => {}
            }
        }
        let mut orders = 0;
        go((0, 0), [false; 5], &mut orders);
        assert!(orders > 10);
    }

    #[test]
    fn changes_are_heard_in_order() {
        let changes = changes();
        let part = |start| FileRange {
            file: 5,
            start,
            end: start + 1,
        };
        assert_eq!(changes.since(0), Since::Parts(vec![]));
        (0..3).for_each(|i| changes.tell(part(i)));
        assert_eq!(changes.since(1), Since::Parts(vec![part(1), part(2)]));
        (0..NEWS as u64).for_each(|i| changes.tell(part(i)));
        assert_eq!(changes.since(2), Since::Anything);
        assert_eq!(
            changes.since(changes.told() - 1),
            Since::Parts(vec![part(255)])
        );
    }
}
