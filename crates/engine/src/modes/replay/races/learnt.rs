//! Places that a sketch should order: plain accesses that race, those to words which synchronise too. The
//! detector keeps them here instead of a report. Must never call a place atomic that is not.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use super::clock::VectorClock;
use super::shadow::Part;
use super::shadow_cell::Made;
use crate::guide::races::Race;

/// Most places.
const MOST: usize = 4096;
/// Races that are kept, the last ones.
const LAST: usize = 64;

/// Races that are kept of which there may be many of one pair of places, as of a loop: the last ones.
const ALL: usize = 1 << 12;
/// Most of them that are told of one moment.
const AT_ONCE: usize = 8;

/// Accesses to a word that are kept, the last ones, where each pair of them matters.
const PER_WORD: usize = 16;
/// Most words with such accesses.
const WORDS: usize = 1 << 16;

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
    /// The last races, where each pair of accesses matters.
    all: VecDeque<Race>,
    /// The last accesses by word, where each pair matters: of two reads in a row a write may come between them.
    recent: Option<HashMap<u64, VecDeque<Made>>>,
}

impl Learnt {
    /// One for which each pair of accesses matters.
    pub fn of_pairs() -> Self {
        Self {
            recent: Some(HashMap::new()),
            ..Self::default()
        }
    }

    /// Whether each pair of accesses matters.
    pub fn wants_pairs(&self) -> bool {
        self.recent.is_some()
    }

    /// A thread with this clock makes an access to a word. Those before that it races with, the last one last.
    pub fn pairs(&mut self, word: u64, new: Made, now: &VectorClock) -> Vec<Made> {
        let Some(recent) = &mut self.recent else {
            return Vec::new();
        };
        if recent.len() == WORDS && !recent.contains_key(&word) {
            return Vec::new();
        }
        let there = recent.entry(word).or_default();
        let races = |old: &&Made| {
            old.thread != new.thread
                && old.time > now.of(old.thread.into())
                && old.mask & new.mask != 0
                && old.writes | new.writes != 0
        };
        let racing = there.iter().filter(races).copied().collect();
        let is_like =
            |old: &Made| (old.thread, old.place, old.writes) == (new.thread, new.place, new.writes);
        there.retain(|old| !is_like(old));
        there.push_back(new);
        if there.len() > PER_WORD {
            there.pop_front();
        }
        racing
    }

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
        if let Some(recent) = &mut self.recent {
            recent.retain(|word, _| !(start..end).contains(word));
        }
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
        if self.wants_pairs() {
            self.all.push_back(race);
            if self.all.len() > ALL {
                self.all.pop_front();
            }
        }
    }

    /// The races in which a thread took part at a tick, and in those beside it: a loop that should have ended there has gone on.
    pub fn at(&self, thread: u32, tick: u64) -> Vec<Race> {
        let is_near = |race: &&Race| {
            let both = [&race.first, &race.second];
            let mut own = both.iter().filter(|access| access.thread == thread);
            own.any(|access| access.tick.abs_diff(tick) <= 1)
        };
        let near: Vec<Race> = self.all.iter().filter(is_near).copied().collect();
        near[near.len().saturating_sub(AT_ONCE)..].to_vec()
    }

    /// An instruction takes part in a race.
    pub fn races(&mut self, pc: u64) {
        if !self.ordered.contains(&pc) && self.places.len() < MOST {
            self.places.insert(pc);
        }
    }
}
