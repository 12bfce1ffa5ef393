//! The sites of a recording ([`relive_dbt::Sites`]) in the memory that its processes share, and those that a replay
//! learns for later recordings. Lives in shared memory that processes of a replay may have damaged: sites are numbers,
//! and a wrong one orders nothing or too much.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use relive_dbt::{NeighbourRule, Sites};
use relive_trace::{Manifest, Recorder};

use crate::failure::{Failure, Result};
use crate::section::{Section, Shareable};
use crate::shm::Shm;

/// Most sites of a recording, and most that a replay learns.
pub const MOST: usize = 4096;

/// The sites of a tree of processes.
#[repr(C)]
pub struct OrderedSites {
    given: AtomicU32,
    /// Not 0: signals that find an action are operations, as since version 1.7 of the format.
    signals: AtomicU32,
    /// The manifest's rule by which plain accesses near atomic instructions are operations. Not 0: marks of locks whose thread
    /// has ended are, too.
    near: AtomicU32,
    /// Not 0: memory is ordered by its lines, and no instruction is an operation.
    lines: AtomicU32,
    /// Not 0: threads ran at the same time.
    together: AtomicU32,
    learnt: AtomicU32,
    keys: [AtomicU64; MOST],
    /// Not 0: an instruction at the site of the same index was translated.
    met: [AtomicU32; MOST],
    new: [AtomicU64; MOST],
}

/// The sites of the tree.
pub static SITES: Section<OrderedSites> = Section::new();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for OrderedSites {}

impl OrderedSites {
    /// These are to be ordered. Those that find no room are left out.
    fn give(&self, keys: &[u64]) {
        let mut keys = keys.to_vec();
        keys.truncate(MOST);
        keys.sort_unstable();
        for (place, key) in self.keys.iter().zip(&keys) {
            place.store(*key, Ordering::Relaxed);
        }
        self.given.store(keys.len() as u32, Ordering::Release);
    }

    /// All that are to be ordered.
    pub fn given(&self) -> Vec<u64> {
        let count = (self.given.load(Ordering::Acquire) as usize).min(MOST);
        let keys = self.keys[..count].iter();
        keys.map(|key| key.load(Ordering::Relaxed)).collect()
    }

    /// An instruction at a site is translated.
    fn meets(&self, key: u64) {
        let count = (self.given.load(Ordering::Acquire) as usize).min(MOST);
        let at = self.keys[..count].partition_point(|k| k.load(Ordering::Relaxed) < key);
        let there = self.keys[..count].get(at);
        if there.is_some_and(|k| k.load(Ordering::Relaxed) == key) {
            self.met[at].store(1, Ordering::Relaxed);
        }
    }

    /// Those at which an instruction has been translated.
    pub fn met(&self) -> Vec<u64> {
        let is_met = |i: usize| self.met[i].load(Ordering::Relaxed) != 0;
        let given = self.given().into_iter().enumerate();
        given
            .filter(|(i, _)| is_met(*i))
            .map(|(_, key)| key)
            .collect()
    }

    /// A replay has learnt one.
    pub fn learns(&self, key: u64) {
        if self.learnt().contains(&key) {
            return;
        }
        let at = self.learnt.fetch_add(1, Ordering::Relaxed) as usize;
        if let Some(place) = self.new.get(at) {
            place.store(key, Ordering::Relaxed);
        }
    }

    /// All that have been learnt.
    pub fn learnt(&self) -> BTreeSet<u64> {
        let count = (self.learnt.load(Ordering::Relaxed) as usize).min(MOST);
        let new = self.new[..count].iter();
        new.map(|key| key.load(Ordering::Relaxed)).collect()
    }
}

/// Supervisors: the operations of the recording are these; before a process runs.
pub fn give(shm: &Shm, manifest: &Manifest) {
    let sites = SITES.of(shm);
    let signals = u32::from(manifest.orders_signals());
    sites.signals.store(signals, Ordering::Relaxed);
    sites
        .near
        .store(manifest.neighbour_rule(), Ordering::Relaxed);
    let lines = u32::from(manifest.recorder == Recorder::Coherence);
    sites.lines.store(lines, Ordering::Relaxed);
    sites.give(&manifest.sites);
}

/// Supervisors of replays: how the threads ran in the recording in this folder, whether the turns of its threads have been
/// found or not; before a process runs.
///
/// # Errors
/// It is no recording.
pub fn tell_turns(shm: &Shm, recording: &Path) -> Result<()> {
    let manifest = Manifest::read(recording).map_err(Failure::setup)?;
    let together = u32::from(!manifest.recorder.is_serial());
    SITES.of(shm).together.store(together, Ordering::Relaxed);
    Ok(())
}

/// Whether signals that find an action are operations.
pub fn has_signals(shm: Option<&Shm>) -> bool {
    shm.is_some_and(|shm| SITES.of(shm).signals.load(Ordering::Relaxed) != 0)
}

/// Whether threads took turns where they were recorded, so that translations of the recorder do for a replay.
pub fn took_turns(shm: Option<&Shm>) -> bool {
    shm.is_none_or(|shm| SITES.of(shm).together.load(Ordering::Relaxed) == 0)
}

/// Whether instructions are operations: not where memory is ordered by its lines.
pub fn has_instructions(shm: Option<&Shm>) -> bool {
    shm.is_none_or(|shm| SITES.of(shm).lines.load(Ordering::Relaxed) == 0)
}

/// The plain accesses near atomic instructions that are operations.
pub fn neighbours(shm: Option<&Shm>) -> NeighbourRule {
    match shm.map_or(0, |shm| SITES.of(shm).near.load(Ordering::Relaxed)) {
        0 => NeighbourRule::None,
        1 => NeighbourRule::ByRegister,
        _ => NeighbourRule::Closely,
    }
}

/// Whether marks of locks whose thread has ended are operations.
pub fn has_marks(shm: Option<&Shm>) -> bool {
    neighbours(shm) != NeighbourRule::None
}

/// The sites that a host orders.
pub fn of(shm: Option<&Shm>) -> Sites {
    shm.map_or_else(Sites::default, |shm| Sites::of(SITES.of(shm).given()))
}

/// A site is translated.
pub fn meets(shm: Option<&Shm>, site: u64) {
    if let Some(shm) = shm {
        SITES.of(shm).meets(site);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites() -> Box<OrderedSites> {
        // SAFETY: zeros are a value.
        unsafe { Box::new_zeroed().assume_init() }
    }

    #[test]
    fn only_sites_that_are_met_were_ordered() {
        let sites = sites();
        sites.give(&[9, 3, 7]);
        assert_eq!(sites.given(), [3, 7, 9]);
        for met in [2, 7, 8, 10] {
            sites.meets(met);
        }
        assert_eq!(sites.met(), [7]);
    }

    #[test]
    fn too_many_are_left_out() {
        let sites = sites();
        sites.give(&(0..2 * MOST as u64).collect::<Vec<_>>());
        assert_eq!(sites.given().len(), MOST);
        (0..2 * MOST as u64).for_each(|site| sites.learns(site));
        assert_eq!(sites.learnt().len(), MOST);
    }

    #[test]
    fn a_site_is_learnt_once() {
        let sites = sites();
        [5, 5, 6].into_iter().for_each(|site| sites.learns(site));
        assert_eq!(sites.learnt(), [5, 6].into());
    }
}
