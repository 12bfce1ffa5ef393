//! The flips of a recording, in the shared memory: which orders of an earlier one are to be turned around, in
//! one process of the tree. They decide where switches happen, as any policy does, and must never decide
//! anything else.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use relive_sched::Flip;

use crate::section::{Section, Shareable};

/// Most flips of a recording; others are left out.
pub const MOST: usize = 32;

/// The flips of the tree.
pub static FLIPS: Section<Flips> = Section::new();

/// The flips of one process.
#[repr(C)]
pub struct Flips {
    count: AtomicU32,
    process: AtomicU32,
    /// Thread, site, word, arrival and the other site.
    all: [[AtomicU64; 5]; MOST],
}

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for Flips {}

impl Flips {
    /// Supervisors: these are to be turned around in a process, before that process runs.
    pub fn give(&self, process: u32, flips: &[Flip]) {
        let count = flips.len().min(MOST);
        for (place, flip) in self.all.iter().zip(flips) {
            let words = [
                flip.thread.into(),
                flip.site,
                flip.word,
                flip.arrival.into(),
                flip.until,
            ];
            for (slot, word) in place.iter().zip(words) {
                slot.store(word, Ordering::Relaxed);
            }
        }
        self.process.store(process, Ordering::Relaxed);
        self.count.store(count as u32, Ordering::Release);
    }

    /// Those of a process.
    pub fn of_process(&self, process: u32) -> Vec<Flip> {
        let count = (self.count.load(Ordering::Acquire) as usize).min(MOST);
        if self.process.load(Ordering::Relaxed) != process {
            return Vec::new();
        }
        let flip = |place: &[AtomicU64; 5]| {
            let [thread, site, word, arrival, until] =
                std::array::from_fn(|i| place[i].load(Ordering::Relaxed));
            Flip {
                thread: thread as u32,
                site,
                word,
                arrival: arrival as u32,
                until,
            }
        };
        self.all[..count].iter().map(flip).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_finds_its_own() {
        // SAFETY: zeros are a value.
        let flips: Box<Flips> = unsafe { Box::new_zeroed().assume_init() };
        assert_eq!(flips.of_process(0), []);
        let flip = |thread| Flip {
            thread,
            site: u64::MAX,
            word: 7,
            arrival: u32::MAX,
            until: 0,
        };
        flips.give(3, &[flip(1), flip(2)]);
        assert_eq!(flips.of_process(3), [flip(1), flip(2)]);
        assert_eq!(flips.of_process(0), []);
        let many: Vec<Flip> = (0..2 * MOST as u32).map(flip).collect();
        flips.give(0, &many);
        assert_eq!(flips.of_process(0), many[..MOST]);
    }
}
