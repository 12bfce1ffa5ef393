//! The orders in which the races of a failed attempt come out otherwise: by ticks, or by two instructions. A function
//! of its arguments. Must never know which orders were tried.

use std::collections::{BTreeMap, BTreeSet};

use super::hints::{AccessesInOrder, Decision, InsnPlace, Place, What};
use super::neighbours::NewValues;
use super::path::Path;
use crate::guide::races::{Race, RaceAccess};
use crate::guide::trials::Disagreement;

/// Accesses of each of two threads in between which the other one may come.
const PREEMPTED: usize = 8;

/// Orders in which a thread goes round a loop as often as in the recording before it sees a value that another one has
/// stored: it saw that at a tick too soon or too late by as many ticks as it is from its event. The most promising
/// comes last.
pub fn seen_later(at: &Disagreement, race: &Race, threads: &BTreeMap<u32, Path>) -> Vec<NewValues> {
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

/// The same, decided for the two accesses: the store waits until the thread has come to the tick before, and later accesses
/// of the thread that are decided come as much later.
pub fn seen_later_exactly(at: &Disagreement, race: &Race) -> Option<Vec<Decision>> {
    let by = at.recorded.wrapping_sub(at.ticks) as i64;
    let order = reversed(at.process, race).filter(|_| by != 0)?;
    let tick = race.second.tick;
    let first = InsnPlace {
        tick: tick.saturating_add_signed(by).checked_sub(1)?,
        ..order.first
    };
    let shift = Decision::Shift {
        process: at.process,
        thread: at.thread,
        tick,
        by,
    };
    Some(vec![
        shift,
        Decision::Order(AccessesInOrder { first, ..order }),
    ])
}

/// The accesses of a race in the other order; `None`: one of them is a system call's.
pub fn reversed(process: u32, race: &Race) -> Option<AccessesInOrder> {
    let place = |access: &RaceAccess| {
        let RaceAccess {
            thread, tick, pc, ..
        } = *access;
        let is_insn = access.call.is_none();
        is_insn.then_some(InsnPlace { thread, tick, pc })
    };
    Some(AccessesInOrder {
        process,
        first: place(&race.second)?,
        second: place(&race.first)?,
    })
}

/// Orders in which a race comes out the other way, to a tick, the most promising last: the first thread goes no further
/// than to its access, and the other one comes there at once.
pub fn turned_around(process: u32, race: &Race, threads: &BTreeMap<u32, Path>) -> Vec<NewValues> {
    let decision = |access: &RaceAccess, behind: u64| {
        let place = |moments| Place {
            process,
            thread: access.thread,
            what: What::Way(moments),
        };
        let path = threads.get(&access.thread)?;
        let moments = path.at_tick(access.tick);
        let way = path.way(moments);
        // Within one tick only a decision behind it is early.
        let until = match way.until.0 > way.from.0 {
            true => way.until.0.max(access.tick),
            false => access.tick + 1,
        };
        Some((place(moments), (access.tick + behind).min(until)))
    };
    // A call's accesses happen with its event.
    let late = decision(&race.first, 0).filter(|_| race.first.call.is_none());
    let early = decision(&race.second, 1).filter(|_| race.second.call.is_none());
    let alone = [early, late].into_iter().flatten().map(|one| vec![one]);
    let both = late.zip(early).map(|(late, early)| vec![late, early]);
    alone.chain(both).collect()
}

/// Where two threads that race make their accesses, by tick and instruction: the thread that was first, and the other one.
type PlacesOfTwo = [BTreeSet<(u64, u64)>; 2];

/// Orders in which one of two threads that race goes on between two accesses of the other one, from its first to its last, the
/// most promising last. Each takes one preemption (after Musuvathi and Qadeer, "Iterative context bounding for systematic
/// testing of multithreaded programs", 2007): most bugs take no more.
pub fn preemptions(process: u32, races: &[Race]) -> Vec<AccessesInOrder> {
    let mut accesses: BTreeMap<(u32, u32), PlacesOfTwo> = BTreeMap::new();
    let mut pairs = Vec::new();
    for order in races.iter().filter_map(|race| reversed(process, race)) {
        let (later, sooner) = (order.first, order.second);
        let pair = (sooner.thread, later.thread);
        pairs.retain(|other| *other != pair);
        pairs.push(pair);
        let [of_sooner, of_later] = accesses.entry(pair).or_default();
        of_sooner.insert((sooner.tick, sooner.pc));
        of_later.insert((later.tick, later.pc));
    }
    let place = |thread, &(tick, pc): &(u64, u64)| InsnPlace { thread, tick, pc };
    let mut orders = Vec::new();
    for (sooner, later) in pairs {
        let [of_sooner, of_later] = &accesses[&(sooner, later)];
        let (Some(begin), Some(end)) = (of_sooner.first(), of_later.last()) else {
            continue;
        };
        let order = |first: &_, second: &_| AccessesInOrder {
            process,
            first: place(later, first),
            second: place(sooner, second),
        };
        // The later one begins, and comes to its last access behind all of the sooner one.
        let begun = of_later.iter().rev().skip(1).take(PREEMPTED);
        orders.extend(begun.map(|first| order(first, begin)));
        // All of the later one comes between two accesses of the sooner one.
        let between = of_sooner.iter().skip(1).rev().take(PREEMPTED);
        orders.extend(between.map(|second| order(end, second)));
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn race(first: (u32, u64), second: (u32, u64)) -> Race {
        let access = |(thread, pc)| RaceAccess {
            thread,
            event: 0,
            tick: 5,
            pc,
            addr: 64,
            size: 4,
            writes: true,
            call: None,
        };
        Race {
            first: access(first),
            second: access(second),
            count: 1,
        }
    }

    /// The instructions that come first and second.
    fn insns(orders: &[AccessesInOrder]) -> Vec<(u64, u64)> {
        orders.iter().map(|o| (o.first.pc, o.second.pc)).collect()
    }

    #[test]
    fn one_thread_comes_between_two_accesses_of_the_other() {
        // Thread 1 has made 10, 11 and 12, and thread 2 then 20 and 21.
        let races = [
            race((1, 10), (2, 20)),
            race((1, 11), (2, 20)),
            race((1, 12), (2, 21)),
        ];
        let orders = preemptions(0, &races);
        assert_eq!(insns(&orders), [(20, 10), (21, 12), (21, 11)]);
        assert!(
            orders
                .iter()
                .all(|o| (o.first.thread, o.second.thread) == (2, 1))
        );
    }

    #[test]
    fn two_accesses_have_nothing_between_them() {
        assert_eq!(preemptions(0, &[race((1, 10), (2, 20))]), []);
        let mut call = race((1, 10), (2, 20));
        call.first.call = Some(1);
        assert_eq!(preemptions(0, &[call, race((1, 11), (2, 21))]), []);
    }
}
