//! The search for the order that a sketch does not say: after each disagreement the neighbouring orders of the
//! thread that left the recording are tried, the most promising first. An attempt is a replay with hints
//! ([`super::hints`]), checked against all of the recording. The search is bounded and knows no clock and no
//! chance: the same recording is searched in the same way. Must never call anything exact: that is a replay's.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::hints::{Hints, Place, What};
use super::path::{Path, Paths, Way};
use crate::guide::races::{Race, RaceAccess};
use crate::guide::trials::Disagreement;

/// Most attempts.
pub const MOST: u32 = 128;

/// Operations before a disagreement that may have come on the wrong side of another one.
const OPERATIONS: usize = 3;
/// Ways before a disagreement that may have gone wrong unseen.
const EARLIER: u64 = 2;
/// Ticks before an operation at which the load may lie that decides whether it is made again.
const RETRIED: u64 = 3;
/// Ways before a disagreement on which a thread may have lost the processor, and how many of them are tried.
const FARTHEST: u64 = 32;
const PAUSES: usize = 6;

/// Races before a disagreement that are turned around.
const RACES: usize = 6;

/// Decisions to be added to those of an attempt.
type NewDecisions = Vec<(Place, u64)>;

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

    /// The decisions to try next, and those to try if none of them agrees for longer: at most so many.
    #[must_use]
    pub fn ahead(&self, count: usize) -> Vec<Hints> {
        let mut all: Vec<&FailedOrder> = self.failed.iter().collect();
        all.sort_by_key(|a| (Reverse(a.agreed), a.hints.count()));
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

    /// The decisions to try next: from the attempt that agreed for longest, with the fewest decisions; `None` if
    /// nothing is left to be tried, or too much has been.
    pub fn next(&mut self) -> Option<Hints> {
        if self.attempts() >= MOST {
            return None;
        }
        loop {
            let left = self.failed.iter_mut().filter(|a| !a.changes.is_empty());
            let best = left.min_by_key(|a| (Reverse(a.agreed), a.hints.count()))?;
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

/// Orders in which a thread goes round a loop as often as in the recording before it sees a value that another one has
/// stored: it saw that at a tick too soon or too late by as many ticks as it is from its event. The most promising
/// comes last.
fn seen_later(at: &Disagreement, race: &Race, threads: &BTreeMap<u32, Path>) -> Vec<NewDecisions> {
    let place = |thread, moments| Place {
        process: at.process,
        thread,
        what: What::Way(moments),
    };
    let missing = at.recorded.wrapping_sub(at.ticks) as i64;
    let seen = race.second.tick.saturating_add_signed(missing);
    let (Some(reads), Some(stores)) = (threads.get(&at.thread), threads.get(&race.first.thread))
    else {
        return Vec::new();
    };
    if missing == 0 {
        return Vec::new();
    }
    let moments = reads.at_tick(seen).min(at.moments);
    let later = (place(at.thread, moments), seen);
    let moments = stores.at_tick(race.first.tick);
    let stored = (place(race.first.thread, moments), race.first.tick + 1);
    vec![vec![later, stored], vec![later]]
}

/// Orders in which a race comes out the other way, the most promising last: the first thread goes no further than
/// to its access, and the other one comes there at once.
fn turned_around(process: u32, race: &Race, threads: &BTreeMap<u32, Path>) -> Vec<NewDecisions> {
    let decision = |access: &RaceAccess, behind: u64| {
        let place = |moments| Place {
            process,
            thread: access.thread,
            what: What::Way(moments),
        };
        let path = threads.get(&access.thread)?;
        let moments = path.at_tick(access.tick);
        let until = path.way(moments).until.0.max(access.tick);
        Some((place(moments), (access.tick + behind).min(until)))
    };
    // A call's accesses happen with its event.
    let late = decision(&race.first, 0).filter(|_| race.first.call.is_none());
    let early = decision(&race.second, 1).filter(|_| race.second.call.is_none());
    let alone = [early, late].into_iter().flatten().map(|one| vec![one]);
    let both = late.zip(early).map(|(late, early)| vec![late, early]);
    alone.chain(both).collect()
}

/// Neighbouring orders of a thread that left the recording on a way.
fn changes(
    hints: &Hints,
    at: &Disagreement,
    way: Way,
    threads: &BTreeMap<u32, Path>,
) -> VecDeque<NewDecisions> {
    let place = |thread, what| Place {
        process: at.process,
        thread,
        what,
    };
    let here = place(at.thread, What::Way(at.moments));
    let (first, last) = (way.from.0, way.until.0);
    let mut all = VecDeque::new();
    // A thread that waited for another one in a loop went round too often, or not often enough.
    let step = hints
        .at(at.process, at.thread, What::Way(at.moments))
        .unwrap_or(last);
    let missing = at.recorded.wrapping_sub(at.ticks) as i64;
    let guess = step.saturating_add_signed(missing).clamp(first, last);
    let looped = vec![(here, guess)];
    let decided = hints.at(at.process, at.thread, What::Way(at.moments)) == Some(step);
    if decided && missing != 0 {
        all.push_back(looped.clone());
    }
    let path = &threads[&at.thread];
    let (late, early) = ((here, first), (here, last));
    // It came to its call before the end of the thread that it follows there, which took longer than it seems.
    if let Some((ended, came)) = path.followed(at.moments)
        && let Some((event, began)) = threads.get(&ended).and_then(Path::last_event)
        && began < came
    {
        all.push_back(vec![(place(ended, What::Event(event)), came + 1)]);
    }
    all.push_back(vec![late]);
    all.push_back(vec![early]);
    // An operation is on the right side of another one, and the loads before it are not.
    let operations = path.operations(at.moments, at.ops + 1, OPERATIONS);
    let waits = |(op, tick): (u64, u64), far: usize| {
        let wait = [
            tick + 1,
            first,
            tick.saturating_sub(1),
            tick.saturating_sub(2),
        ][far];
        vec![(place(at.thread, What::Operation(op)), wait)]
    };
    all.extend(operations.iter().map(|&op| waits(op, 0)));
    if missing != 0 {
        all.push_back(looped);
    }
    // It lost the processor behind a load that it seems to have made afterwards.
    let others = threads.iter().filter(|&(&thread, _)| thread != at.thread);
    let lost = path.lost(
        at.moments,
        FARTHEST,
        PAUSES,
        others.clone().map(|(_, path)| path),
    );
    all.extend(lost.map(|(moments, tick)| vec![(place(at.thread, What::Way(moments)), tick + 1)]));
    // The event of another one happened sooner than at its end.
    for (&thread, other) in others.clone() {
        for moments in other.events_at(way.until.1) {
            all.push_back(vec![late, (place(thread, What::Event(moments)), 1)]);
        }
    }
    // Others went less or more evenly than they are taken to have.
    let mut alone = Vec::new();
    for (&thread, other) in others {
        for (moment, mine, far) in [(way.until.1, late, true), (way.from.1, early, false)] {
            let passed = other.passed(moment);
            let theirs = other.way(passed);
            if theirs.until.0 > theirs.from.0 {
                let tick = if far { theirs.until.0 } else { theirs.from.0 };
                let change = (place(thread, What::Way(passed)), tick);
                all.push_back(vec![mine, change]);
                alone.push(vec![change]);
            }
        }
    }
    all.extend((1..4).flat_map(|far| operations.iter().map(move |&op| waits(op, far))));
    let length = last.saturating_sub(first);
    for less in [1, 2, 4, 8, length / 2, length / 4, length * 3 / 4] {
        all.push_back(vec![(here, last.saturating_sub(less).max(first))]);
    }
    all.extend(alone);
    for back in 1..=EARLIER.min(at.moments) {
        let moments = at.moments - back;
        let way = path.way(moments);
        for tick in [way.from.0, way.until.0] {
            all.push_back(vec![(place(at.thread, What::Way(moments)), tick)]);
        }
    }
    // It has made an operation of a loop once more since, as a load in front of that came too early: which is seen
    // by its ticks at the next event alone.
    let first_here = operations.last().map_or(at.ops + 1, |&(op, _)| op);
    for (op, tick) in path.operations_before(first_here, OPERATIONS) {
        for back in 1..=RETRIED {
            let wait = (
                place(at.thread, What::Operation(op)),
                tick.saturating_sub(back),
            );
            all.push_back(vec![wait]);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

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
