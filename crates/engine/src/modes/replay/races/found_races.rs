//! The races that a detector has found: the first one of each pair of places, with a count. Must never hold more than
//! its bound, whatever a program does.

use std::collections::HashMap;

use crate::guide::races::Race;

/// Pairs of places that are kept.
const MOST: usize = 2000;

/// The places of a pair: instruction, and whether it writes.
pub type KnownPlaces = [(u64, bool); 2];

/// See the module's page.
#[derive(Default)]
pub struct FoundRaces {
    /// Where the race of a pair is.
    known: HashMap<KnownPlaces, usize>,
    races: Vec<Race>,
    more: bool,
}

impl FoundRaces {
    /// Counts a race of a pair that is known, in either order, or for which there is no room. Whether it is one.
    pub fn counts(&mut self, places: KnownPlaces) -> bool {
        let turned = [places[1], places[0]];
        if let Some(race) = self.known.get(&places).or_else(|| self.known.get(&turned)) {
            self.races[*race].count += 1;
            return true;
        }
        self.more |= self.races.len() == MOST;
        self.races.len() == MOST
    }

    /// Adds the first race of a pair that [`FoundRaces::counts`] has not counted.
    pub fn add(&mut self, places: KnownPlaces, race: Race) {
        self.known.insert(places, self.races.len());
        self.races.push(race);
    }

    /// One of each pair.
    pub fn races(&self) -> &[Race] {
        &self.races
    }

    /// Whether there were pairs without room.
    pub fn has_more(&self) -> bool {
        self.more
    }
}
