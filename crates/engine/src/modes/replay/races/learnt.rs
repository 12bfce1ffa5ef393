//! Places that a sketch should order: plain accesses that race, those to words which synchronise too. The
//! detector keeps them here instead of a report. Must never call a place atomic that is not.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use super::shadow::Part;
use crate::guide::races::Race;

/// Most places.
const MOST: usize = 4096;
/// Races that are kept, the last ones.
const LAST: usize = 64;

/// The places that a detector learns.
#[derive(Default)]
pub struct Learnt {
    /// Bytes that threads synchronise by, by word. Unlike those of the shadow they keep their past.
    sync: HashMap<u64, u8>,
    /// Ordered instructions.
    ordered: HashSet<u64>,
    /// Plain ones that race.
    pub places: BTreeSet<u64>,
    /// The last races, one of each pair of places.
    pub last: VecDeque<Race>,
}

impl Learnt {
    /// Threads synchronise by these bytes.
    pub fn synchronises(&mut self, part: Part) {
        *self.sync.entry(part.word).or_default() |= part.mask;
    }

    /// Whether threads synchronise by any of these bytes.
    pub fn is_sync(&self, part: Part) -> bool {
        let there = self.sync.get(&part.word);
        there.is_some_and(|mask| mask & part.mask != 0)
    }

    /// Other memory is there from now on.
    pub fn renew(&mut self, start: u64, end: u64) {
        self.sync.retain(|word, _| !(start..end).contains(word));
    }

    /// An ordered instruction.
    pub fn is_ordered(&mut self, pc: u64) {
        self.ordered.insert(pc);
    }

    /// A race, behind all others.
    pub fn comes_last(&mut self, race: Race) {
        let places = |race: &Race| (race.first.pc, race.second.pc, race.second.thread);
        self.last.retain(|other| places(other) != places(&race));
        self.last.push_back(race);
        if self.last.len() > LAST {
            self.last.pop_front();
        }
    }

    /// An instruction takes part in a race.
    pub fn races(&mut self, pc: u64) {
        if !self.ordered.contains(&pc) && self.places.len() < MOST {
            self.places.insert(pc);
        }
    }
}
