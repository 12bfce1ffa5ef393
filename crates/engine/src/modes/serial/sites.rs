//! The sites of a recorded tree: addresses of instructions by which threads have met, in the shared
//! memory. A set that only grows, of bounded size; a site that finds no room is left out.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::section::{Section, Shareable};

/// Most sites.
const ROOM: usize = 4096;
/// Places that are tried for a site.
const TRIES: usize = 16;

/// The sites of the tree.
pub static SITES: Section<Sites> = Section::new();

/// A set of addresses; 0 is none.
pub struct Sites([AtomicU64; ROOM]);

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for Sites {}

impl Sites {
    fn places(&self, site: u64) -> impl Iterator<Item = &AtomicU64> {
        let first = (site.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize;
        (0..TRIES).map(move |n| &self.0[(first + n) % ROOM])
    }

    /// Adds one, if there is room.
    pub fn add(&self, site: u64) {
        for place in self.places(site) {
            let free = place.compare_exchange(0, site, Ordering::Relaxed, Ordering::Relaxed);
            if free.is_ok() || free == Err(site) {
                return;
            }
        }
    }

    /// Whether it was added.
    #[must_use]
    pub fn contains(&self, site: u64) -> bool {
        self.places(site)
            .map(|place| place.load(Ordering::Relaxed))
            .take_while(|&there| there != 0)
            .any(|there| there == site)
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<u64> {
        let all = self.0.iter().map(|place| place.load(Ordering::Relaxed));
        all.filter(|&site| site != 0).collect()
    }
}
