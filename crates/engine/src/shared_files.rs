//! Which processes of the tree map which files shared: a file that one process can change
//! through a map while another one sees it is memory shared between processes, which no tape
//! describes. Lives in the shared memory; entries of processes that have ended are taken over.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::shm::alive;

const SLOTS: usize = 4096;
/// Several processes read.
const MANY: u32 = u32::MAX;

/// An open-addressing table from file identity to its users.
#[repr(C)]
pub struct SharedFiles {
    slots: [Slot; SLOTS],
}

#[repr(C)]
struct Slot {
    file: AtomicU64,
    /// Pid of a process that can write through a map, 0 = none.
    writer: AtomicU32,
    /// Pid of a process that reads, 0 = none, or [`MANY`].
    reader: AtomicU32,
}

impl SharedFiles {
    /// Notes that `pid` maps `file` shared. `false`: another process that still exists maps
    /// it too, and one of the two can write (or the table is full).
    pub fn claim(&self, file: u64, pid: u32, writes: bool) -> bool {
        let Some(slot) = self.slot(file, true) else {
            return false;
        };
        let other = |word: &AtomicU32| {
            let p = word.load(Ordering::Acquire);
            p != 0 && p != pid && (p == MANY || alive(p))
        };
        if other(&slot.writer) || (writes && other(&slot.reader)) {
            return false;
        }
        if writes {
            slot.writer.store(pid, Ordering::Release);
        } else {
            let several = other(&slot.reader);
            slot.reader
                .store(if several { MANY } else { pid }, Ordering::Release);
        }
        true
    }

    /// Whether any process has ever been able to write the file through a map: its times do
    /// not tell whether it has changed.
    #[must_use]
    pub fn ever_written(&self, file: u64) -> bool {
        self.slot(file, false)
            .is_some_and(|s| s.writer.load(Ordering::Acquire) != 0)
    }

    fn slot(&self, file: u64, make: bool) -> Option<&Slot> {
        for i in 0..SLOTS {
            let slot = &self.slots[(file as usize).wrapping_add(i) % SLOTS];
            match slot.file.load(Ordering::Acquire) {
                f if f == file => return Some(slot),
                0 if !make => return None,
                0 => match slot
                    .file
                    .compare_exchange(0, file, Ordering::AcqRel, Ordering::Acquire)
                {
                    Ok(_) => return Some(slot),
                    Err(f) if f == file => return Some(slot),
                    Err(_) => {}
                },
                _ => {}
            }
        }
        None
    }
}
