//! Which processes of the tree map which files (and segments) shared, so that those who see
//! each other's writes are found. Lies in the shared memory; what processes that have ended
//! had is taken over.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use relive_host::sys;

use super::lock::Lock;
use super::processes::{Processes, Slot};

const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 16;
const WRITES: u32 = 1;

/// An open-addressing table from a file's identity to its users; one entry for each user.
#[repr(C)]
pub struct Users {
    lock: Lock,
    /// Not 0 once there is an entry.
    used: AtomicU32,
    entries: [Entry; SLOTS],
}

#[repr(C)]
struct Entry {
    /// 0 = never used.
    file: AtomicU64,
    process: AtomicU32,
    /// [`WRITES`], or 0.
    flags: AtomicU32,
}

impl Users {
    /// Notes that a process maps `file` shared. Returns the others that do or did, as far as
    /// they or the process itself could write; `None`: the table is full.
    pub fn claim(
        &self,
        processes: &Processes,
        file: u64,
        process: u32,
        writes: bool,
    ) -> Option<Vec<u32>> {
        let _guard = self.lock.take(sys::gettid());
        let shares = |p: u32| processes.get(p).is_some_and(Slot::may_share);
        let (mut own, mut free, mut others) = (None, None, Vec::new());
        for e in self.chain(file) {
            let (f, p) = (
                e.file.load(Ordering::Acquire),
                e.process.load(Ordering::Acquire),
            );
            let wrote = e.flags.load(Ordering::Acquire) & WRITES != 0;
            match (f == file, f == 0) {
                (_, true) => {
                    free = free.or(Some(e));
                    break;
                }
                (true, _) if p == process => own = Some(e),
                (same, _) => {
                    if same && (writes || wrote) {
                        others.push(p);
                    }
                    // That a file was once written this way is never forgotten.
                    if free.is_none() && (same || !wrote) && !shares(p) {
                        free = Some(e);
                    }
                }
            }
        }
        let entry = own.or(free)?;
        let before = match entry.file.load(Ordering::Acquire) == file {
            true => entry.flags.load(Ordering::Acquire),
            false => 0,
        };
        entry
            .flags
            .store(before | u32::from(writes), Ordering::Release);
        entry.process.store(process, Ordering::Release);
        self.used.store(1, Ordering::Relaxed);
        entry.file.store(file, Ordering::Release);
        Some(others)
    }

    /// Whether any file has ever been mapped shared.
    #[must_use]
    pub fn any(&self) -> bool {
        self.used.load(Ordering::Relaxed) != 0
    }

    /// Another process that maps the file shared.
    #[must_use]
    pub fn maps(&self, processes: &Processes, file: u64, process: u32) -> Option<u32> {
        self.chain(file)
            .take_while(|e| e.file.load(Ordering::Acquire) != 0)
            .filter(|e| e.file.load(Ordering::Acquire) == file)
            .map(|e| e.process.load(Ordering::Acquire))
            .find(|&p| p != process && processes.get(p).is_some_and(Slot::may_share))
    }

    /// Whether any process has ever been able to write the file through a map: its times do
    /// not tell whether it has changed.
    #[must_use]
    pub fn ever_written(&self, file: u64) -> bool {
        self.chain(file)
            .map_while(|e| match e.file.load(Ordering::Acquire) {
                0 => None,
                f => Some(f == file && e.flags.load(Ordering::Acquire) & WRITES != 0),
            })
            .any(|hit| hit)
    }

    /// The entries that may be of a file, in order; the first unused one ends them.
    fn chain(&self, file: u64) -> impl Iterator<Item = &Entry> {
        let start = start(file);
        (0..SLOTS).map(move |i| &self.entries[(start + i) % SLOTS])
    }
}

/// Where the entries of a file begin: files that were made one after the other lie apart, so that
/// chains stay short.
fn start(file: u64) -> usize {
    (file.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOT_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::processes::standing;

    fn tables() -> (Box<Users>, Box<Processes>) {
        // SAFETY: all fields are atomics, for which zeros are a value.
        let (users, processes) = unsafe {
            (
                Box::<Users>::new_zeroed().assume_init(),
                Box::<Processes>::new_zeroed().assume_init(),
            )
        };
        for p in 0..8 {
            let slot = processes.get(p).expect("in range");
            slot.pid.store(std::process::id(), Ordering::Release);
            slot.become_one(standing::RUNNING);
        }
        (users, processes)
    }

    #[test]
    fn readers_do_not_meet_and_a_writer_meets_all() {
        let (users, processes) = tables();
        let claim = |p, writes| users.claim(&processes, 77, p, writes).expect("room");
        assert!(claim(1, false).is_empty() && claim(2, false).is_empty());
        assert_eq!(claim(3, true), [1, 2]);
        assert_eq!(claim(4, false), [3]);
        assert!(users.ever_written(77) && !users.ever_written(78));
    }

    #[test]
    fn a_file_of_its_own_is_nobody_elses() {
        let (users, processes) = tables();
        let claim = |file, p| users.claim(&processes, file, p, true).expect("room");
        assert!(claim(1, 1).is_empty() && claim(1, 1).is_empty());
        let same_place = (2..).find(|&f| start(f) == start(1)).expect("one of many");
        assert!(claim(same_place, 2).is_empty());
        assert_eq!(claim(1, 3), [1]);
    }

    #[test]
    fn the_ended_are_forgotten_but_what_they_wrote_is_not() {
        let (users, processes) = tables();
        let claim = |file, p, writes| users.claim(&processes, file, p, writes).expect("room");
        claim(5, 1, true);
        processes
            .get(1)
            .expect("in range")
            .become_one(standing::PRIVATE);
        assert_eq!(claim(5, 2, false), [1], "what it wrote comes first");
        assert_eq!(claim(5, 3, false), [2], "in its place");
        assert!(users.ever_written(5));
        for file in 0..100_000 {
            claim(6 + file, 1, false);
        }
        assert!(users.ever_written(5));
    }
}
