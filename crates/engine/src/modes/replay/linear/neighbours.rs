//! The neighbouring orders of a failed attempt: the decisions that a search may add to it after a disagreement. A function of its arguments. Must never know which orders were tried.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use super::hints::{Hints, Place, What};
use super::path::{Path, Way};
use crate::guide::trials::Disagreement;

/// Operations before a disagreement that may have come on the wrong side of another one.
const OPERATIONS: usize = 3;
/// Ticks before an operation at which the load may lie that decides whether it is made again.
const RETRIED: u64 = 3;
/// Ways before a disagreement that may have gone wrong unseen.
const EARLIER: u64 = 2;
/// Ways before a disagreement on which a thread may have lost the processor, and how many of them are tried.
const FARTHEST: u64 = 32;
const PAUSES: usize = 6;
/// Threads that were on a way of theirs all of the time.
const BESIDE: usize = 4;
/// Threads that ended before a disagreement which may have ended later.
const ENDED: usize = 3;

/// Most ticks before what comes next at which long turns end.
const NEAR: u64 = 1 << 12;

/// Values to be added to the decisions of an attempt.
pub type NewValues = Vec<(Place, u64)>;

/// Neighbouring orders of a thread that left the recording on a way.
pub fn changes(
    hints: &Hints,
    at: &Disagreement,
    way: Way,
    threads: &BTreeMap<u32, Path>,
) -> VecDeque<NewValues> {
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
    if let Some(near) = hints.long_turns(at.process) {
        all.extend(long_turns(near, at, &threads[&at.thread]));
    }
    if decided && missing != 0 {
        all.push_back(looped.clone());
    }
    let path = &threads[&at.thread];
    // On a way within one tick it is late without a decision.
    let is_still = first == last;
    let late = (!is_still).then_some((here, first));
    let early = (here, if is_still { last + 1 } else { last });
    let later = |thread, event: Vec<u64>, moment| {
        let event = event.into_iter().map(What::Event);
        let decision = event.map(|what| (place(thread, what), moment + 1));
        decision.collect::<NewValues>()
    };
    // It came to its call before the end of the thread that it follows there, which took longer than it seems.
    if let Some((ended, came)) = path.followed(at.moments)
        && let Some((event, began)) = threads.get(&ended).and_then(Path::last_event)
        && began < came
    {
        all.push_back(later(ended, event, came));
    }
    all.extend(late.map(|late| vec![late]));
    all.push_back(vec![early]);
    // Others, which were on a longer way, stored when it set out on its own.
    let others = threads.iter().filter(|&(&thread, _)| thread != at.thread);
    // Where another one was at a moment: the moments behind it, and its way.
    let at_moment = |thread: u32, moment| {
        let passed = threads[&thread].passed(moment);
        (thread, passed, threads[&thread].way(passed))
    };
    let mut beside: Vec<_> = others
        .clone()
        .map(|(&thread, _)| at_moment(thread, way.from.1))
        .filter(|(.., theirs)| theirs.from.1 < way.from.1 && way.from.1 < theirs.until.1)
        .collect();
    beside.sort_by_key(|(.., theirs)| theirs.until.1);
    for (thread, passed, _) in beside.into_iter().take(BESIDE) {
        all.push_back(vec![(place(thread, What::Moment(passed)), way.from.1)]);
    }
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
    let lost = path.lost(
        at.moments,
        FARTHEST,
        PAUSES,
        others.clone().map(|(_, path)| path),
    );
    all.extend(lost.map(|(moments, tick)| vec![(place(at.thread, What::Way(moments)), tick + 1)]));
    // Another one lost the processor there, in front of a store that it seems to have made afterwards.
    for (&thread, _) in others.clone() {
        let (_, passed, theirs) = at_moment(thread, way.until.1);
        if theirs.from.0 == theirs.until.0 && theirs.from.1 < theirs.until.1 {
            all.push_back(vec![(place(thread, What::Way(passed)), theirs.from.0 + 1)]);
        }
    }
    // Others that seem to have ended had not quite, as their ids tell that are looked at without a call.
    let mut ended: Vec<_> = others
        .clone()
        .filter_map(|(&thread, other)| Some((thread, other.last_event()?)))
        .filter(|(_, (_, began))| *began < way.until.1)
        .collect();
    ended.sort_by_key(|(_, (_, began))| Reverse(*began));
    for (thread, (event, _)) in ended.into_iter().take(ENDED) {
        all.push_back(later(thread, event, way.until.1));
    }
    // The event of another one happened sooner than at its end.
    for (&thread, other) in others.clone() {
        for moments in other.events_at(way.until.1) {
            let sooner = (place(thread, What::Event(moments)), 1);
            all.push_back(late.into_iter().chain([sooner]).collect());
        }
    }
    // Others went less or more evenly than they are taken to have.
    let mut alone = Vec::new();
    for (&thread, _) in others {
        for (moment, mine, far) in [(way.until.1, late, true), (way.from.1, Some(early), false)] {
            let (_, passed, theirs) = at_moment(thread, moment);
            if theirs.until.0 > theirs.from.0 {
                let tick = if far { theirs.until.0 } else { theirs.from.0 };
                let change = (place(thread, What::Way(passed)), tick);
                all.push_back(mine.into_iter().chain([change]).collect());
                alone.push(vec![change]);
            }
        }
    }
    all.extend((1..4).flat_map(|far| operations.iter().map(move |&op| waits(op, far))));
    let length = last.saturating_sub(first);
    let parts = [1, 2, 4, 8, length / 2, length / 4, length * 3 / 4];
    for less in parts.into_iter().filter(|_| !is_still) {
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

/// How many ticks before what comes next long turns should have ended, which ended `near` ticks before that. A thread that reads in a loop what another one stores mostly comes to its event soon: it ran
/// too far ahead, and then read it a round too late, or ended its turn too soon.
pub fn later_end(near: u64, at: &Disagreement) -> Option<u64> {
    let too_late = at.ticks.wrapping_sub(at.recorded) as i64;
    let end = near.checked_add_signed(too_late);
    end.filter(|&end| too_late != 0 && end <= NEAR)
}

/// Other long turns, of all ways and of the one on which the thread left the recording.
fn long_turns(near: u64, at: &Disagreement, path: &Path) -> impl Iterator<Item = NewValues> {
    let place = |thread, what| Place {
        process: at.process,
        thread,
        what,
    };
    let end = later_end(near, at);
    let all = end.map(|end| (place(0, What::Turns), end));
    // It read too soon what another one stored: it had come as far as it may before that.
    let (way, end) = match at.ticks < at.recorded {
        true => (path.at_tick(at.ticks), Some(near)),
        false => (at.moments, end),
    };
    let far = end.and_then(|end| at.recorded.checked_sub(end));
    let far = far.map(|tick| (place(at.thread, What::Way(way)), tick));
    all.into_iter().chain(far).map(|change| vec![change])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is tried for thread 0, which left the recording behind its first moment.
    fn tried(threads: [&[(u64, u64)]; 2]) -> Vec<NewValues> {
        let threads: BTreeMap<u32, Path> = (0..)
            .zip(threads)
            .map(|(i, moments)| {
                (
                    i,
                    Path::with(moments.iter().map(|&(tick, at)| (tick, at, at))),
                )
            })
            .collect();
        let at = Disagreement {
            process: 0,
            thread: 0,
            moments: 1,
            ops: 0,
            ticks: 10,
            recorded: 10,
            events: 1,
            page: 0,
        };
        changes(&Hints::default(), &at, threads[&0].way(1), &threads).into()
    }

    fn decision(thread: u32, moments: u64, tick: u64) -> (Place, u64) {
        let place = Place {
            process: 0,
            thread,
            what: What::Way(moments),
        };
        (place, tick)
    }

    #[test]
    fn a_thread_within_one_tick_is_late_by_itself() {
        let changes = tried([&[(10, 100), (10, 200)], &[(3, 50)]]);
        assert_eq!(changes[0], [decision(0, 1, 11)], "early");
        assert!(!changes.contains(&vec![decision(0, 1, 10)]));
    }

    #[test]
    fn one_on_a_longer_way_may_have_stored_within_it() {
        let changes = tried([&[(5, 100), (10, 200)], &[(3, 50), (4, 900)]]);
        let mut stored = decision(1, 1, 100);
        stored.0.what = What::Moment(1);
        assert_eq!(changes[2], [stored], "behind late and early");
    }

    #[test]
    fn another_one_may_have_stored_before_it_lost_the_processor() {
        let lost = vec![decision(1, 1, 4)];
        assert!(tried([&[(5, 100), (10, 200)], &[(3, 50), (3, 900)]]).contains(&lost));
        // It had gone on before.
        assert!(!tried([&[(5, 100), (10, 200)], &[(3, 50), (3, 150)]]).contains(&lost));
    }

    #[test]
    fn long_turns_end_as_much_sooner_as_a_thread_came_too_late() {
        let at = |ticks, recorded| Disagreement {
            process: 0,
            thread: 1,
            moments: 2,
            ops: 0,
            ticks,
            recorded,
            events: 1,
            page: 0,
        };
        assert_eq!(later_end(0, &at(154, 100)), Some(54));
        assert_eq!(later_end(54, &at(90, 100)), Some(44), "too soon");
        let none = [(0, 90), (5, 94), (5, 100), (0, 100 + NEAR + 1)];
        for (near, ticks) in none {
            assert_eq!(later_end(near, &at(ticks, 100)), None, "{near} {ticks}");
        }
        let path = Path::with([(40, 10, 10), (80, 20, 20), (100, 30, 30)].into_iter());
        let tried = |near, ticks| long_turns(near, &at(ticks, 100), &path).collect::<Vec<_>>();
        let turns = |near| {
            let (process, thread, what) = (0, 0, What::Turns);
            let place = Place {
                process,
                thread,
                what,
            };
            vec![(place, near)]
        };
        assert_eq!(tried(0, 154), [turns(54), vec![decision(1, 2, 46)]]);
        // Another one stored too soon: on the way on which the thread saw that it goes on first.
        assert_eq!(tried(54, 70), [turns(24), vec![decision(1, 1, 46)]]);
        assert_eq!(tried(0, 70), [vec![decision(1, 1, 100)]]);
    }
}
