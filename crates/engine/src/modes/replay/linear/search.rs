//! The search for the order that a sketch does not say: after each disagreement the neighbouring orders of the
//! thread that left the recording are tried, the most promising first. An attempt is a replay with hints
//! ([`super::hints`]), checked against all of the recording. The search is bounded and knows no clock and no
//! chance: the same recording is searched in the same way. Must never call anything exact: that is a replay's.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::hints::Hints;
use super::neighbours::{NewDecisions, changes, seen_later, turned_around};
use super::path::Paths;
use crate::guide::races::Race;
use crate::guide::trials::Disagreement;

/// Most attempts.
pub const MOST: u32 = 128;

/// Races before a disagreement that are turned around.
const RACES: usize = 6;

/// Attempts that end at one place before it is the turn of others, which agree for less long.
const CROWD: usize = 24;

/// A failed attempt.
struct FailedOrder {
    hints: Hints,
    at: Disagreement,
    /// When the thread that left the recording should have come to its next moment: so far the attempt agreed.
    agreed: u64,
    /// Decisions that have not been tried from here, the most promising first.
    changes: VecDeque<NewDecisions>,
}

/// A search.
#[derive(Default)]
pub struct Search {
    failed: Vec<FailedOrder>,
    tried: BTreeSet<Hints>,
}

impl Search {
    /// How many attempts there have been.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.failed.len() as u32
    }

    /// The decisions of the attempt that agreed for longest.
    #[must_use]
    pub fn furthest(&self) -> Hints {
        let furthest = self.failed.iter().max_by_key(|attempt| attempt.agreed);
        furthest.map_or_else(Hints::default, |attempt| attempt.hints.clone())
    }

    /// An attempt with these hints has failed. Whether it agreed for longer than all before.
    pub fn failed(&mut self, hints: Hints, at: &Disagreement, paths: &Paths) -> bool {
        let none = BTreeMap::new();
        let threads = paths.get(&at.process).unwrap_or(&none);
        let way = threads.get(&at.thread).map(|path| path.way(at.moments));
        self.tried.insert(hints.clone());
        let agreed = way.map_or(0, |way| way.until.1);
        let is_furthest = self.failed.iter().all(|other| other.agreed < agreed);
        self.failed.push(FailedOrder {
            at: *at,
            agreed,
            changes: way.map_or_else(VecDeque::new, |way| changes(&hints, at, way, threads)),
            hints,
        });
        is_furthest
    }

    /// Races of the last attempt: to turn each around comes before all else, the last race first.
    pub fn raced(&mut self, races: &[Race], paths: &Paths) {
        let Some(last) = self.failed.last_mut() else {
            return;
        };
        let at = last.at;
        let Some(threads) = paths.get(&at.process) else {
            return;
        };
        for race in races.iter().rev().take(RACES).rev() {
            for change in turned_around(at.process, race, threads) {
                last.changes.push_front(change);
            }
        }
        let reads = |race: &&Race| race.second.thread == at.thread && !race.second.writes;
        if let Some(race) = races.iter().rfind(reads) {
            for change in seen_later(&at, race, threads) {
                last.changes.push_front(change);
            }
        }
    }

    /// How often attempts have ended where each one did, in crowds. A wrong decision may agree for longer than those
    /// before it, and lead to a place from which nothing goes on.
    fn crowds(&self) -> BTreeMap<u64, usize> {
        let mut crowds = BTreeMap::new();
        for attempt in &self.failed {
            *crowds.entry(attempt.agreed).or_default() += 1;
        }
        crowds.values_mut().for_each(|count| *count /= CROWD);
        crowds
    }

    /// The decisions to try next, and those to try if none of them agrees for longer: at most so many.
    #[must_use]
    pub fn ahead(&self, count: usize) -> Vec<Hints> {
        let crowds = self.crowds();
        let mut all: Vec<&FailedOrder> = self.failed.iter().collect();
        all.sort_by_key(|a| (crowds[&a.agreed], Reverse(a.agreed), a.hints.count()));
        let mut next: Vec<Hints> = Vec::new();
        for (order, change) in all
            .iter()
            .flat_map(|a| a.changes.iter().map(move |c| (a, c)))
        {
            let mut hints = order.hints.clone();
            for (place, value) in change {
                hints.decide(*place, *value);
            }
            if !self.tried.contains(&hints) && !next.contains(&hints) {
                next.push(hints);
                if next.len() == count {
                    break;
                }
            }
        }
        next
    }

    /// The decisions to try next: from the attempt that agreed for longest, with the fewest decisions, unless many
    /// have ended where it did; `None` if
    /// nothing is left to be tried, or too much has been.
    pub fn next(&mut self) -> Option<Hints> {
        if self.attempts() >= MOST {
            return None;
        }
        let crowds = self.crowds();
        loop {
            let left = self.failed.iter_mut().filter(|a| !a.changes.is_empty());
            let best =
                left.min_by_key(|a| (crowds[&a.agreed], Reverse(a.agreed), a.hints.count()))?;
            let mut hints = best.hints.clone();
            for (place, value) in best.changes.pop_front()? {
                hints.decide(place, value);
            }
            if !self.tried.contains(&hints) {
                return Some(hints);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::hints::What;
    use super::super::path::Path;
    use super::*;
    use crate::guide::races::RaceAccess;

    /// Two threads, each with a moment every 100 cycles and 10 ticks; the second one 50 cycles later.
    fn paths() -> Paths {
        let path = |late| Path::with((0..9).map(|i| (10 * i, 100 * i + late, 100 * i + late)));
        let threads = [(0, path(0)), (1, path(50))];
        Paths::from([(0, threads.into_iter().collect())])
    }

    fn disagreement(moments: u64) -> Disagreement {
        Disagreement {
            process: 0,
            thread: 0,
            moments,
            ops: 0,
            ticks: 10 * moments - 3,
            recorded: 10 * moments,
            events: moments,
        }
    }

    #[test]
    fn no_order_is_tried_twice_and_not_too_many() {
        let (paths, mut search) = (paths(), Search::default());
        let (mut hints, mut seen) = (Hints::default(), BTreeSet::new());
        loop {
            assert!(seen.insert(hints.clone()), "{hints:?}");
            search.failed(hints, &disagreement(3), &paths);
            match search.next() {
                Some(next) => hints = next,
                None => break,
            }
        }
        assert!(
            seen.len() > 10 && seen.len() <= MOST as usize,
            "{}",
            seen.len()
        );
    }

    #[test]
    fn the_search_goes_on_from_the_attempt_that_came_furthest() {
        let (paths, mut search) = (paths(), Search::default());
        search.failed(Hints::default(), &disagreement(3), &paths);
        let first = search.next().expect("neighbours");
        assert_eq!(first.at(0, 0, What::Way(3)), Some(20), "late");
        search.failed(first.clone(), &disagreement(5), &paths);
        let second = search.next().expect("neighbours");
        assert_eq!(second.at(0, 0, What::Way(3)), Some(20));
        assert_eq!(second.at(0, 0, What::Way(5)), Some(40));
        // One that fails sooner is left again.
        search.failed(second, &disagreement(2), &paths);
        let third = search.next().expect("neighbours");
        assert_eq!(third.at(0, 0, What::Way(5)), Some(50), "early");
        assert_eq!(third.at(0, 0, What::Way(2)), None);
    }

    #[test]
    fn a_place_from_which_nothing_goes_on_is_left() {
        let (paths, mut search) = (paths(), Search::default());
        search.failed(Hints::default(), &disagreement(3), &paths);
        let mut hints = search.next().expect("neighbours");
        for _ in 0..CROWD {
            search.failed(hints, &disagreement(5), &paths);
            hints = search.next().expect("neighbours");
        }
        assert_eq!(hints.count(), 1, "from the first one again: {hints:?}");
        assert_eq!(hints.at(0, 0, What::Way(5)), None);
    }

    #[test]
    fn what_comes_next_is_known_ahead() {
        let (paths, mut search) = (paths(), Search::default());
        search.failed(Hints::default(), &disagreement(3), &paths);
        let ahead = search.ahead(5);
        assert_eq!(ahead.len(), 5);
        for hints in ahead {
            let next = search.next();
            assert_eq!(next.as_ref(), Some(&hints));
            search.failed(hints, &disagreement(2), &paths);
        }
    }

    fn access(thread: u32, tick: u64, writes: bool) -> RaceAccess {
        RaceAccess {
            thread,
            event: 0,
            tick,
            pc: 1,
            addr: 64,
            size: 4,
            writes,
            call: None,
        }
    }

    #[test]
    fn the_last_race_is_turned_around_first() {
        let race = |first, second| Race {
            first: access(0, first, true),
            second: access(1, second, true),
            count: 1,
        };
        let (paths, mut search) = (paths(), Search::default());
        search.failed(Hints::default(), &disagreement(3), &paths);
        search.raced(&[race(12, 13), race(24, 25)], &paths);
        let first = &search.ahead(1)[0];
        assert_eq!(first.at(0, 0, What::Way(3)), Some(24));
        assert_eq!(first.at(0, 1, What::Way(3)), Some(26));
    }

    #[test]
    fn a_loop_goes_on_for_as_long_as_in_the_recording() {
        let race = Race {
            first: access(1, 24, true),
            second: access(0, 25, false),
            count: 1,
        };
        let (paths, mut search) = (paths(), Search::default());
        // Three ticks too soon.
        search.failed(Hints::default(), &disagreement(3), &paths);
        search.raced(&[race], &paths);
        let ahead = search.ahead(2);
        assert_eq!(ahead[0].at(0, 0, What::Way(3)), Some(28));
        assert_eq!(ahead[0].at(0, 1, What::Way(3)), None);
        assert_eq!(ahead[1].at(0, 1, What::Way(3)), Some(25));
    }

    #[test]
    fn a_thread_that_is_told_wrong_is_not_searched() {
        let mut search = Search::default();
        let mut at = disagreement(3);
        at.process = 7;
        search.failed(Hints::default(), &at, &paths());
        assert_eq!(search.next(), None);
    }
}
