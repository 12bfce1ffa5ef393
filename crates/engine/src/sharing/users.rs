//! The processes of the tree that map each file (or segment) shared, so that processes that see
//! each other's writes are found. Lies in the shared memory; entries of ended processes are taken
//! over.
//!
//! An entry outlives the maps: a process that maps a file whose content has changed meanwhile must
//! come after those that saw the old content, in replay too.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::lock::Lock;
use super::processes::{ProcessSlot, Processes};
use crate::failure::Failure;
use crate::ids;
use crate::section::{Section, Shareable};

const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 16;
/// The process could write the file through its map.
const WRITES: u32 = 1;
/// The file was changed in another way since the process first mapped it.
const CHANGED: u32 = 2;
/// The file was cut since.
const CUT: u32 = 4;
/// A change of the file has been ordered behind the process's uses of it.
const MET: u32 = 8;
/// Processes that had this entry before have read the file, and are forgotten.
const FORGOTTEN: u32 = 16;

/// As many processes are remembered that have read a file and ended.
const READERS: usize = 256;
/// As many entries are looked at.
const PROBES: usize = 4096;

/// An open-addressing table from a file's identity to its users; one entry for each user.
#[repr(C)]
pub struct Users {
    lock: Lock,
    /// Not 0 once there is an entry.
    used: AtomicU32,
    /// Not 0 once a reader has been forgotten for another file's sake.
    full: AtomicU32,
    /// Claims so far.
    clock: AtomicU64,
    entries: [Entry; SLOTS],
}

#[repr(C)]
struct Entry {
    /// 0 = never used.
    file: AtomicU64,
    process: AtomicU32,
    /// [`WRITES`] and the flags below it.
    flags: AtomicU32,
    /// 0 = it does not map the file now; or `ProcessSlot::programs` plus one.
    mapped: AtomicU32,
    /// When it was first and last claimed, by [`Users::clock`]; 0 = never.
    first_claimed: AtomicU64,
    claimed: AtomicU64,
}

impl Entry {
    fn is_of(&self, file: u64) -> bool {
        self.file.load(Ordering::Acquire) == file
    }

    fn process(&self) -> u32 {
        self.process.load(Ordering::Acquire)
    }

    fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::Acquire) & flag != 0
    }

    /// Whether its process maps the file now, or was killed when it did.
    fn is_live(&self, processes: &Processes) -> bool {
        let mapped = self.mapped.load(Ordering::Acquire);
        let slot = processes.get(self.process()).filter(|_| mapped != 0);
        slot.is_some_and(|slot| mapped == mark(slot) && !slot.is_private())
    }
}

/// The value of an entry's `mapped` for a process that maps the file now.
fn mark(slot: &ProcessSlot) -> u32 {
    slot.programs.load(Ordering::Acquire) + 1
}

/// The other users of a file, for a process that is about to change it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// Those that map it now, and former ones behind whose uses no change has been ordered yet.
    pub others: Vec<u32>,
    /// Any of them maps it now.
    pub live: bool,
    /// There were more former ones than can be remembered.
    pub forgotten: bool,
}

/// The processes that map files shared.
pub static USERS: Section<Users> = Section::new();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for Users {}

/// The failure where [`Users::claim`] has no room.
#[must_use]
pub fn no_room() -> Failure {
    Failure::unsupported("more shared files and processes that map them than Relive has room for")
}

impl Users {
    /// Notes that a process maps `file` shared. Returns the others that do or did, as far as
    /// they or the process itself could write, or the file has changed since; `None`: the table is
    /// full.
    pub fn claim(
        &self,
        processes: &Processes,
        file: u64,
        process: u32,
        writes: bool,
    ) -> Option<Vec<u32>> {
        let _guard = self.lock.take(ids::thread());
        let others = self
            .entries_of(file)
            .filter(|e| e.process() != process && (writes || e.has(WRITES | CHANGED)))
            .map(Entry::process)
            .collect();
        let mapped = processes.get(process).map_or(1, mark);
        self.enter(processes, file, process, u32::from(writes), Some(mapped))?;
        Some(others)
    }

    /// A process maps a file no more.
    pub fn release(&self, file: u64, process: u32) {
        let _guard = self.lock.take(ids::thread());
        for entry in self.entries_of(file).filter(|e| e.process() == process) {
            entry.mapped.store(0, Ordering::Release);
        }
    }

    /// Notes that a process is about to change a file, which it need not map: processes that map it
    /// from now on learn of it. Returns the file's other users; `None`: the table is full.
    pub fn change(&self, processes: &Processes, file: u64, process: u32) -> Option<Met> {
        let _guard = self.lock.take(ids::thread());
        let mut met = Met {
            forgotten: self.full.load(Ordering::Acquire) != 0,
            ..Met::default()
        };
        for entry in self.entries_of(file) {
            let flags = entry.flags.fetch_or(CHANGED, Ordering::AcqRel);
            let live = entry.process() != process && entry.is_live(processes);
            met.live |= live;
            met.forgotten |= flags & FORGOTTEN != 0;
            if entry.process() != process && (live || flags & MET == 0) {
                met.others.push(entry.process());
            }
        }
        if met.live {
            for entry in self.entries_of(file) {
                entry.flags.fetch_or(MET, Ordering::AcqRel);
            }
            self.enter(processes, file, process, CHANGED | MET, None)?;
        }
        Some(met)
    }

    /// Under the lock: makes the entry of a process for a file, or adds to it. `None`: no room.
    fn enter(
        &self,
        processes: &Processes,
        file: u64,
        process: u32,
        flags: u32,
        mapped: Option<u32>,
    ) -> Option<()> {
        let ended = |e: &&Entry| {
            !processes
                .get(e.process())
                .is_some_and(ProcessSlot::may_share)
        };
        // The mark of a change is never dropped: a process that takes over the entry of an ended
        // one keeps it, and comes after that one.
        let marked = |e: &&Entry| e.has(WRITES | CHANGED);
        let own = self.entries_of(file).find(|e| e.process() == process);
        let follows = || self.entries_of(file).find(|e| marked(e) && ended(e));
        let unused = || self.chain(file).find(|e| e.is_of(0));
        let forgets = || self.entries_of(file).find(ended);
        let other = || self.chain(file).find(|e| !marked(e) && ended(e));
        let entry = match own.or_else(follows) {
            Some(entry) => entry,
            None if self.entries_of(file).count() < READERS => {
                unused().or_else(forgets).or_else(other)?
            }
            None => forgets().or_else(unused).or_else(other)?,
        };
        let lost = entry.is_of(file) && own.is_none() && !marked(&entry);
        if !entry.is_of(file) {
            self.full
                .fetch_or(u32::from(!entry.is_of(0)), Ordering::AcqRel);
            entry.flags.store(0, Ordering::Release);
            entry.first_claimed.store(0, Ordering::Release);
        }
        if own.is_none() {
            entry.mapped.store(0, Ordering::Release);
        }
        entry.process.store(process, Ordering::Release);
        let lost = if lost { FORGOTTEN } else { 0 };
        entry.flags.fetch_or(flags | lost, Ordering::AcqRel);
        if let Some(mapped) = mapped {
            // No change has been ordered behind its uses of this map.
            entry.flags.fetch_and(!MET, Ordering::AcqRel);
            let claims = self.clock.fetch_add(1, Ordering::SeqCst);
            entry.claimed.store(claims + 1, Ordering::Release);
            if entry.first_claimed.load(Ordering::Acquire) == 0 {
                entry.first_claimed.store(claims + 1, Ordering::Release);
            }
            entry.mapped.store(mapped, Ordering::Release);
        }
        self.used.store(1, Ordering::SeqCst);
        entry.file.store(file, Ordering::SeqCst);
        Some(())
    }

    /// Whether any file has ever been mapped shared.
    #[must_use]
    pub fn any(&self) -> bool {
        self.used.load(Ordering::SeqCst) != 0
    }

    /// Whether any process maps the file shared, or has once.
    #[must_use]
    pub fn mentions(&self, file: u64) -> bool {
        self.entries_of(file).next().is_some()
    }

    /// How many claims there have been.
    #[must_use]
    pub fn clock(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    /// The number of claims, all of which are seen from here on.
    #[must_use]
    pub fn settled_clock(&self) -> u64 {
        if !self.any() {
            return 0;
        }
        let _guard = self.lock.take(ids::thread());
        self.clock()
    }

    /// Whether any process has claimed the file later than that time.
    #[must_use]
    pub fn claimed_after(&self, file: u64, time: u64) -> bool {
        let _guard = self.lock.take(ids::thread());
        self.entries_of(file)
            .any(|e| e.claimed.load(Ordering::Acquire) > time)
    }

    /// Whether any process has claimed the file up to that time.
    #[must_use]
    pub fn claimed_until(&self, file: u64, time: u64) -> bool {
        let _guard = self.lock.take(ids::thread());
        let first = |e: &Entry| e.first_claimed.load(Ordering::Acquire);
        self.entries_of(file)
            .any(|e| (1..=time).contains(&first(e)))
    }

    /// Another process that maps the file shared now, and has claimed it up to that time.
    #[must_use]
    pub fn maps(&self, processes: &Processes, file: u64, process: u32, until: u64) -> Option<u32> {
        let early = |e: &Entry| e.claimed.load(Ordering::Acquire) <= until;
        let mut others = self.entries_of(file).filter(|e| e.process() != process);
        others
            .find(|e| early(e) && e.is_live(processes))
            .map(Entry::process)
    }

    /// Whether any process has ever been able to write the file through a map: its times do
    /// not tell whether it has changed.
    #[must_use]
    pub fn ever_written(&self, file: u64) -> bool {
        self.entries_of(file).any(|e| e.has(WRITES))
    }

    /// A file has become smaller.
    pub fn cut(&self, file: u64) {
        let _guard = self.lock.take(ids::thread());
        for entry in self.entries_of(file) {
            entry.flags.fetch_or(CUT, Ordering::AcqRel);
        }
    }

    /// Whether a file that is or was mapped has ever become smaller.
    #[must_use]
    pub fn ever_cut(&self, file: u64) -> bool {
        self.entries_of(file).any(|e| e.has(CUT))
    }

    fn entries_of(&self, file: u64) -> impl Iterator<Item = &Entry> {
        let chain = self.chain(file).take_while(|e| !e.is_of(0));
        chain.filter(move |e| e.is_of(file))
    }

    /// The entries that may be of a file, in order; the first unused one ends them.
    fn chain(&self, file: u64) -> impl Iterator<Item = &Entry> {
        let start = start(file);
        (0..PROBES).map(move |i| &self.entries[(start + i) % SLOTS])
    }
}

/// Where the entries of a file begin: files that were made one after the other lie apart, so that
/// chains stay short.
fn start(file: u64) -> usize {
    (file.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOT_BITS)) as usize
}
