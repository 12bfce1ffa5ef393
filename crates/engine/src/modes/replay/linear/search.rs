//! The search for the order that a sketch does not say: after each disagreement the neighbouring orders of the
//! thread that left the recording are tried, the most promising first. An attempt is a replay with hints
//! ([`super::hints`]), checked against all of the recording. The search knows no clock and no
//! chance: the same recording is searched in the same way. Must never call anything exact: that is a replay's.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use relive_host::addr::PAGE;

use super::hints::{AccessesInOrder, Decision, Hints};
use super::neighbours::{NewValues, changes};
use super::path::Paths;
use super::turned_races::{preemptions, reversed, seen_later, seen_later_exactly, turned_around};
use crate::guide::races::Race;
use crate::guide::trials::Disagreement;

/// Races before a disagreement that are turned around to a tick.
const RACES: usize = 6;

/// Races that are turned around in place of what was decided.
const INSTEAD: usize = 3;

/// Ticks from an event that a loop may have been left too soon or too late by, as the first guess.
const NEAR: u64 = 16;

/// Attempts that end at one place before it is the turn of others, which agree for less long.
const CROWD: usize = 24;

/// So many changes of an attempt are tried before those of one with a decision more.
const BREADTH: usize = 8;

/// Decisions that an attempt counts more for if its last one is of ticks and has changed nothing that can be seen.
const STALE: usize = 3;

/// Attempts at one place whose races are looked at.
const LOOKS: usize = 8;

/// Thread, ticks, operations, events, and the page that differs.
type WayOut = (u32, u64, u64, u64, u64);

/// A failed attempt.
struct FailedOrder {
    hints: Hints,
    at: Disagreement,
    /// When the thread that left the recording should have come to its next moment: so far the attempt agreed.
    agreed: u64,
    /// Decisions to be tried from here, the most promising first.
    changes: VecDeque<Vec<Decision>>,
    /// How many of them have been tried.
    tried: usize,
    /// Events of all threads before it failed.
    events: u64,
    /// Its races are looked at.
    is_looked_at: bool,
    /// Its last decision is one of ticks, and has changed nothing that can be seen.
    is_stale: bool,
    /// Its changes are neighbours and races that are turned around, in turns.
    has_turned: bool,
    /// The races in which it found accesses in this order, reversed, the last one last.
    races: Vec<AccessesInOrder>,
}

impl FailedOrder {
    /// The less, the more promising are the changes from this one on, of attempts that agreed for equally long.
    fn rank(&self, change: usize) -> usize {
        let stale = if self.is_stale { STALE } else { 0 };
        // Where races come with them, neighbours are no further away than without.
        let breadth = match self.has_turned {
            true => 3 * BREADTH,
            false => BREADTH,
        };
        self.hints.count() + change / breadth + stale
    }
}

/// Two of the first kind and one of the other in turns: where the first one leads nowhere, the other one comes a third as
/// soon as by itself, and not never.
fn in_turns<T>(first: VecDeque<T>, other: VecDeque<T>) -> VecDeque<T> {
    let (mut first, mut other) = (first.into_iter(), other.into_iter());
    let mut all = VecDeque::new();
    loop {
        let before = all.len();
        all.extend(first.by_ref().take(2));
        all.extend(other.next());
        if all.len() == before {
            return all;
        }
    }
}

fn decisions(values: NewValues) -> Vec<Decision> {
    let each = values.into_iter();
    each.map(|(place, value)| Decision::Value(place, value))
        .collect()
}

/// A search.
#[derive(Default)]
pub struct Search {
    /// Tried before all others.
    first: Vec<Hints>,
    failed: Vec<FailedOrder>,
    tried: BTreeSet<Hints>,
}

impl Search {
    /// A search that tries these before what follows from their failures.
    #[must_use]
    pub fn with(first: Vec<Hints>) -> Self {
        Self {
            first,
            ..Self::default()
        }
    }

    /// The decisions of the attempt that agreed for longest, and where it left the recording.
    #[must_use]
    pub fn furthest(&self) -> Option<(&Hints, &Disagreement)> {
        let furthest = self.failed.iter().max_by_key(|attempt| attempt.agreed)?;
        Some((&furthest.hints, &furthest.at))
    }

    /// An attempt with these hints has failed, behind so many events of all threads. Whether its races are to be looked at:
    /// it agreed for longer than all before, or left the recording in another way than those that agreed for as long, or
    /// when other threads had come further.
    pub fn failed(&mut self, hints: Hints, at: &Disagreement, events: u64, paths: &Paths) -> bool {
        let none = BTreeMap::new();
        let threads = paths.get(&at.process).unwrap_or(&none);
        let way = threads.get(&at.thread).map(|path| path.way(at.moments));
        self.tried.insert(hints.clone());
        let agreed = way.map_or(0, |way| way.until.1);
        let ways = self.ways_out(agreed);
        let is_news = !ways.contains(&way_out(at));
        let further = self.failed.iter().any(|other| other.agreed > agreed);
        let there = self.failed.iter().filter(|other| other.agreed == agreed);
        let looks = there.clone().filter(|other| other.is_looked_at).count();
        let is_later = there.map(|other| other.events).max() < Some(events);
        let is_looked_at = (is_news || is_later) && !further && looks < LOOKS;
        // Two orders may have to be turned around before anything can be seen of it.
        let races = match is_news {
            true => None,
            false => self.inherited(&hints),
        };
        let is_stale = !is_news && races.is_none();
        let races = races.unwrap_or_default();
        let neighbours = way.map_or_else(VecDeque::new, |way| {
            let changes = changes(&hints, at, way, threads);
            changes.into_iter().map(decisions).collect()
        });
        let turned = races.iter().rev();
        let turned = turned.map(|race| vec![Decision::Order(*race)]).collect();
        self.failed.push(FailedOrder {
            at: *at,
            agreed,
            changes: in_turns(turned, neighbours),
            hints,
            tried: 0,
            events,
            is_looked_at,
            is_stale,
            has_turned: !races.is_empty(),
            races,
        });
        is_looked_at
    }

    /// The races of the attempt that these decisions go on from, if all that comes to it is orders of its races.
    fn inherited(&self, hints: &Hints) -> Option<Vec<AccessesInOrder>> {
        let with_races = self.failed.iter().rev().filter(|o| !o.races.is_empty());
        let from = with_races
            .filter(|other| hints.differences(&other.hints).next().is_none())
            .find(|other| {
                let mut more = other.hints.other_orders(hints);
                more.all(|order| other.races.contains(order))
            })?;
        let is_left = |race: &&AccessesInOrder| hints.orders(race.process).all(|o| o != *race);
        Some(from.races.iter().filter(is_left).copied().collect())
    }

    /// How attempts that agreed for so long have left the recording.
    fn ways_out(&self, agreed: u64) -> BTreeSet<WayOut> {
        let there = self.failed.iter().filter(|other| other.agreed == agreed);
        there.map(|other| way_out(&other.at)).collect()
    }

    /// Races of the last attempt: to turn each around is tried in turns with what the attempt itself suggests, the last race
    /// first, and before that what takes one preemption; a thread that is a few ticks from its event first goes round a
    /// loop again.
    pub fn raced(&mut self, races: &[Race], paths: &Paths) {
        let Some(last) = self.failed.last_mut() else {
            return;
        };
        let at = last.at;
        // Where memory differs at the end, the races about that memory are the most promising.
        let is_there = |race: &Race| at.page != 0 && race.second.addr & !(PAGE - 1) == at.page;
        let (there, mut all): (Vec<_>, Vec<_>) = races.iter().partition(|race| is_there(race));
        let mut orders = orders_of(at.process, &all);
        orders.extend(orders_of(at.process, &there));
        all.extend(there);
        let races = all;
        let Some(threads) = paths.get(&at.process) else {
            return;
        };
        let mut turned: VecDeque<Vec<Decision>> = VecDeque::new();
        for race in races.iter().rev().take(RACES).rev() {
            for change in turned_around(at.process, race, threads) {
                turned.push_front(decisions(change));
            }
        }
        let reads = |race: &&Race| race.second.thread == at.thread && !race.second.writes;
        if let Some(race) = races.iter().rfind(reads) {
            for change in seen_later(&at, race, threads) {
                turned.push_front(decisions(change));
            }
        }
        last.races = orders;
        let orders = last.races.iter().map(|order| vec![Decision::Order(*order)]);
        let later = races.iter().filter(reads);
        let later = later.filter_map(|race| seen_later_exactly(&at, race));
        let near = at.recorded.abs_diff(at.ticks) <= NEAR;
        let (promising, others): (Vec<_>, Vec<_>) = match near {
            true => (later.collect(), orders.collect()),
            false => (orders.collect(), later.collect()),
        };
        for change in others.into_iter().chain(promising) {
            turned.push_front(change);
        }
        if at.recorded < at.ticks {
            for change in instead(&last.hints, &at, &races) {
                turned.push_front(change);
            }
        }
        last.has_turned = true;
        last.changes = in_turns(turned, std::mem::take(&mut last.changes));
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

    /// The decisions to try next, and those to try if none of them agrees for longer: at most so many. From the attempt that
    /// agreed for longest, with the fewest decisions, unless many have ended where it did.
    #[must_use]
    pub fn ahead(&mut self, count: usize) -> Vec<Hints> {
        let crowds = self.crowds();
        let first = self
            .first
            .iter()
            .filter(|hints| !self.tried.contains(hints));
        let mut next: Vec<Hints> = first.take(count).cloned().collect();
        let mut taken: Vec<usize> = self.failed.iter().map(|order| order.tried).collect();
        while next.len() < count {
            let left = self.failed.iter().zip(&taken).enumerate();
            let left = left.filter(|(_, (order, taken))| **taken < order.changes.len());
            let best = left.min_by_key(|(_, (order, taken))| {
                let agreed = Reverse(order.agreed);
                (crowds[&order.agreed], agreed, order.rank(**taken))
            });
            let Some((place, (order, &change))) = best else {
                break;
            };
            let mut hints = order.hints.clone();
            let change_to = &order.changes[change];
            change_to
                .iter()
                .for_each(|decision| hints.decide(*decision));
            taken[place] += 1;
            let is_known = self.tried.contains(&hints);
            if is_known && self.failed[place].tried == change {
                self.failed[place].tried += 1;
            }
            if !is_known && !next.contains(&hints) {
                next.push(hints);
            }
        }
        next
    }
}

/// Each of these races turned around, and what takes one preemption, the most promising last.
fn orders_of(process: u32, races: &[Race]) -> Vec<AccessesInOrder> {
    let reversed = races.iter().filter_map(|race| reversed(process, race));
    reversed.chain(preemptions(process, races)).collect()
}

/// The last races turned around in place of the orders that an attempt has decided for the thread that came to its event too late: where the
/// thread should have left a loop sooner, the order that let it leave it there is the wrong one. The most promising last.
fn instead(hints: &Hints, at: &Disagreement, races: &[Race]) -> Vec<Vec<Decision>> {
    let of_thread = |order: &&AccessesInOrder| {
        [order.first, order.second]
            .iter()
            .any(|place| place.thread == at.thread)
    };
    let decided = hints.orders(at.process).filter(of_thread);
    // The other way round an order is none.
    let none: Vec<Decision> = decided
        .map(|order| Decision::Order(order.reversed()))
        .collect();
    if none.is_empty() {
        return Vec::new();
    }
    let latest = &races[races.len().saturating_sub(INSTEAD)..];
    let orders = latest.iter().filter_map(|race| reversed(at.process, race));
    let turned = |order| [&none[..], &[Decision::Order(order)]].concat();
    orders.map(turned).collect()
}

/// How an attempt has left the recording.
fn way_out(at: &Disagreement) -> WayOut {
    (at.thread, at.ticks, at.ops, at.events, at.page)
}

#[cfg(test)]
mod tests;
