//! The judgement of a race by the program's symbols: accesses of an atomic type synchronise, and the system's
//! libraries have data of their own. Must never judge by the names of a program's own functions.

use std::collections::{BTreeMap, BTreeSet};

use relive_engine::Failure;
use relive_engine::timeline::{Race, RaceAccess, RaceHints, Races, Timeline};
use relive_gdb::At;
use relive_symbols::Named;

use super::library::{self, Owner};
use super::places::{Modules, frames_at, spot};
use crate::names::ReplayedGuest;
use crate::traces;

/// The knowledge about a program's places.
#[derive(Default)]
pub struct Judge {
    pub modules: Modules,
    /// By instruction.
    places: BTreeMap<u64, RacePlace>,
    /// Objects that were asked for: an instruction that accesses one, and whether it is atomic.
    objects: BTreeMap<(u64, u64), bool>,
}

/// An instruction that races.
struct RacePlace {
    /// It belongs to an operation of an atomic type.
    atomic: bool,
    owner: Owner,
}

impl Judge {
    /// Adds to `hints` the words and instructions that threads synchronise by, as these races show; whether
    /// there is a new one.
    ///
    /// # Errors
    /// Divergence.
    pub fn learn(
        &mut self,
        timeline: &mut Timeline,
        seen: &Races,
        hints: &mut RaceHints,
    ) -> Result<bool, Failure> {
        let words: BTreeSet<(u64, u64)> = hints.words.iter().copied().collect();
        let sites: BTreeSet<u64> = hints.sites.iter().copied().collect();
        let (mut all_words, mut all_sites) = (words.clone(), sites.clone());
        all_words.extend(seen.late.iter().copied());
        let mut races: Vec<&Race> = seen.races.iter().collect();
        races.sort_by_key(|race| (race.second.event, race.second.tick));
        for race in races {
            for access in [&race.first, &race.second] {
                if self.place(timeline, access)?.atomic {
                    all_sites.insert(access.pc);
                }
            }
            if self.is_of_library(race) || all_sites.contains(&race.second.pc) {
                continue;
            }
            if self.is_atomic(timeline, &race.second)? {
                all_words.insert((race.second.addr, race.second.size));
                all_sites.insert(race.first.pc);
                all_sites.insert(race.second.pc);
            }
        }
        let new = all_words != words || all_sites != sites;
        hints.words = all_words.into_iter().collect();
        hints.sites = all_sites.into_iter().collect();
        Ok(new)
    }

    /// Whether a race is one of a library with itself, about which a program can do nothing.
    pub fn is_of_library(&self, race: &Race) -> bool {
        let owner = |access: &RaceAccess| {
            let place = self.places.get(&access.pc);
            place.map_or(Owner::Program, |place| place.owner)
        };
        library::is_own(
            (owner(&race.first), race.first.writes),
            (owner(&race.second), race.second.writes),
        )
    }

    fn place(
        &mut self,
        timeline: &mut Timeline,
        access: &RaceAccess,
    ) -> Result<&RacePlace, Failure> {
        if !self.places.contains_key(&access.pc) {
            let named = self.name(timeline, access)?;
            let place = RacePlace {
                atomic: access.call.is_none() && library::is_atomic_operation(&named),
                owner: library::owner(&named),
            };
            self.places.insert(access.pc, place);
        }
        Ok(&self.places[&access.pc])
    }

    /// The name of an instruction.
    fn name(&mut self, timeline: &mut Timeline, access: &RaceAccess) -> Result<Named, Failure> {
        if let Some(named) = self.modules.name(access.pc) {
            return Ok(named);
        }
        traces::go(timeline, At::Spot(spot(timeline, access)))?;
        Ok(self.modules.at(timeline, access.pc).name(access.pc))
    }

    /// Whether an access is of an object with an atomic type, if that is known.
    fn is_atomic(&mut self, timeline: &mut Timeline, access: &RaceAccess) -> Result<bool, Failure> {
        let key = (access.pc, access.addr);
        if let Some(known) = self.objects.get(&key) {
            return Ok(*known);
        }
        traces::go(timeline, At::Spot(spot(timeline, access)))?;
        let space = self.modules.at(timeline, access.pc);
        let (_, view) = frames_at(timeline, space, access.thread)?;
        let view = view.unwrap_or_default();
        let holder = space.holder(&mut ReplayedGuest(timeline.guest()), access.addr, &view);
        let atomic = holder.is_some_and(|holder| holder.atomic);
        self.objects.insert(key, atomic);
        Ok(atomic)
    }
}
