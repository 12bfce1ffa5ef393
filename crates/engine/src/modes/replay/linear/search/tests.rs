use super::super::hints::{InsnPlace, What};
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
        page: 0,
    }
}

fn next(search: &mut Search) -> Option<Hints> {
    search.ahead(1).pop()
}

#[test]
fn no_order_is_tried_twice() {
    let (paths, mut search) = (paths(), Search::default());
    let (mut hints, mut seen) = (Hints::default(), BTreeSet::new());
    loop {
        assert!(seen.insert(hints.clone()), "{hints:?}");
        search.failed(hints, &disagreement(3), 9, &paths);
        match next(&mut search) {
            Some(next) if seen.len() < 200 => hints = next,
            _ => break,
        }
    }
    assert!(seen.len() > 10, "{}", seen.len());
}

#[test]
fn the_search_goes_on_from_the_attempt_that_came_furthest() {
    let (paths, mut search) = (paths(), Search::default());
    search.failed(Hints::default(), &disagreement(3), 9, &paths);
    let first = next(&mut search).expect("neighbours");
    assert_eq!(first.at(0, 0, What::Way(3)), Some(20), "late");
    search.failed(first.clone(), &disagreement(5), 9, &paths);
    let second = next(&mut search).expect("neighbours");
    assert_eq!(second.at(0, 0, What::Way(3)), Some(20));
    assert_eq!(second.at(0, 0, What::Way(5)), Some(40));
    // One that fails sooner is left again.
    search.failed(second, &disagreement(2), 9, &paths);
    let third = next(&mut search).expect("neighbours");
    assert_eq!(third.at(0, 0, What::Way(5)), Some(50), "early");
    assert_eq!(third.at(0, 0, What::Way(2)), None);
}

#[test]
fn a_place_from_which_nothing_goes_on_is_left() {
    let (paths, mut search) = (paths(), Search::default());
    search.failed(Hints::default(), &disagreement(3), 9, &paths);
    let mut hints = next(&mut search).expect("neighbours");
    for _ in 0..CROWD {
        search.failed(hints, &disagreement(5), 9, &paths);
        hints = next(&mut search).expect("neighbours");
    }
    assert_eq!(hints.count(), 1, "from the first one again: {hints:?}");
    assert_eq!(hints.at(0, 0, What::Way(5)), None);
}

#[test]
fn what_comes_next_is_known_ahead() {
    let (paths, mut search) = (paths(), Search::default());
    search.failed(Hints::default(), &disagreement(3), 9, &paths);
    let ahead = search.ahead(5);
    assert_eq!(ahead.len(), 5);
    for hints in ahead {
        let next = next(&mut search);
        assert_eq!(next.as_ref(), Some(&hints));
        search.failed(hints, &disagreement(2), 9, &paths);
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
fn the_last_race_is_turned_around_first_in_turns_with_neighbours() {
    let race = |first, second| Race {
        first: access(0, first, true),
        second: access(1, second, true),
        count: 1,
    };
    let (paths, mut search) = (paths(), Search::default());
    search.failed(Hints::default(), &disagreement(3), 9, &paths);
    search.raced(&[race(12, 13), race(24, 25)], &paths);
    let ahead = search.ahead(7);
    let second = |hints: &Hints| hints.orders(0).map(|order| order.second).next();
    let ticks: Vec<_> = ahead.iter().map(|h| second(h).map(|at| at.tick)).collect();
    let its_instructions = [Some(24), Some(12), None];
    assert_eq!(ticks[..3], its_instructions);
    assert_eq!(ahead[2].at(0, 0, What::Way(3)), Some(20), "a neighbour");
    let mut later = ahead[3..].iter();
    let to_a_tick = later.find(|hints| hints.at(0, 0, What::Way(3)) == Some(24));
    let to_a_tick = to_a_tick.expect("turned around to a tick");
    assert_eq!(to_a_tick.at(0, 1, What::Way(3)), Some(26));
}

#[test]
fn where_memory_differs_at_the_end_the_races_about_it_are_turned_around_first() {
    let race = |first, second, addr| Race {
        first: RaceAccess {
            addr,
            ..access(0, first, true)
        },
        second: RaceAccess {
            addr,
            ..access(1, second, true)
        },
        count: 1,
    };
    let (paths, mut search) = (paths(), Search::default());
    let at = Disagreement {
        page: 0x3000,
        ..disagreement(3)
    };
    search.failed(Hints::default(), &at, 9, &paths);
    search.raced(&[race(12, 13, 0x3040), race(24, 25, 0x4040)], &paths);
    let first = next(&mut search).expect("a race");
    let second = first.orders(0).map(|order| order.second.tick).next();
    assert_eq!(second, Some(12), "the earlier one");
}

#[test]
fn a_loop_that_goes_on_takes_later_accesses_along() {
    let race = Race {
        first: access(1, 24, true),
        second: access(0, 25, false),
        count: 1,
    };
    let at = disagreement(3);
    let change = seen_later_exactly(&at, &race).expect("three ticks too soon");
    let mut hints = Hints::default();
    let place = |thread, tick| InsnPlace {
        thread,
        tick,
        pc: 1,
    };
    let later = AccessesInOrder {
        process: 0,
        first: place(0, 26),
        second: place(1, 27),
    };
    hints.decide(Decision::Order(later));
    change
        .into_iter()
        .for_each(|decision| hints.decide(decision));
    let found: Vec<_> = hints.orders(0).map(|o| (o.first, o.second)).collect();
    let expected = [(place(0, 27), place(1, 24)), (place(0, 29), place(1, 27))];
    assert_eq!(found, expected);
    let at = Disagreement {
        recorded: at.ticks,
        ..at
    };
    assert_eq!(seen_later_exactly(&at, &race), None, "at its tick");
}

#[test]
fn an_attempt_that_ended_in_the_same_way_comes_later() {
    let (paths, mut search) = (paths(), Search::default());
    search.failed(Hints::default(), &disagreement(3), 9, &paths);
    let ahead = search.ahead(2);
    let mut other = disagreement(3);
    other.ops = 1;
    assert!(!search.failed(ahead[0].clone(), &disagreement(3), 9, &paths));
    assert!(
        search.failed(ahead[1].clone(), &other, 9, &paths),
        "another way"
    );
    assert!(!search.failed(ahead[0].clone(), &other, 9, &paths));
    assert!(search.failed(ahead[0].clone(), &other, 10, &paths), "later");
    search.failed.truncate(3);
    let ranks: Vec<_> = search.failed.iter().map(|order| order.rank(0)).collect();
    assert_eq!(ranks, [0, 1 + STALE, 1]);
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
    search.failed(Hints::default(), &disagreement(3), 9, &paths);
    search.raced(&[race], &paths);
    let all = search.ahead(7);
    // Every third one is a neighbour.
    let is_turned = |(n, hints)| (n % 3 != 2).then_some(hints);
    let ahead: Vec<_> = all.iter().enumerate().filter_map(is_turned).collect();
    let first = |hints: &Hints| hints.orders(0).map(|order| order.first.tick).next();
    assert_eq!(first(ahead[0]), Some(27), "behind the tick before");
    assert_eq!(first(ahead[1]), Some(25), "turned around");
    assert_eq!(ahead[2].at(0, 0, What::Way(3)), Some(28));
    assert_eq!(ahead[2].at(0, 1, What::Way(3)), None);
    assert_eq!(ahead[3].at(0, 1, What::Way(3)), Some(25));
}

#[test]
fn a_thread_that_is_told_wrong_is_not_searched() {
    let mut search = Search::default();
    let mut at = disagreement(3);
    at.process = 7;
    search.failed(Hints::default(), &at, 9, &paths());
    assert_eq!(next(&mut search), None);
}

#[test]
fn an_order_that_let_a_thread_leave_a_loop_too_late_gives_way_to_an_earlier_one() {
    let race = |first, second| Race {
        first: access(1, first, true),
        second: access(0, second, false),
        count: 1,
    };
    let turned = |race| {
        let mut hints = Hints::default();
        hints.decide(Decision::Order(reversed(0, race).expect("instructions")));
        hints
    };
    let (paths, mut search) = (paths(), Search::default());
    search.failed(Hints::default(), &disagreement(3), 9, &paths);
    let late = Disagreement {
        ticks: 34,
        ..disagreement(3)
    };
    let (wrong, right) = (race(16, 26), race(12, 22));
    search.failed(turned(&wrong), &late, 9, &paths);
    search.raced(&[wrong, right], &paths);
    let ahead = search.ahead(30);
    assert!(ahead.contains(&turned(&right)), "{ahead:?}");
}

#[test]
fn orders_to_begin_with_come_before_what_follows_from_their_failures() {
    let paths = paths();
    let first = [9, 0].map(|near| Hints::default().with_long_turns(0, near));
    let mut search = Search::with(first.to_vec());
    assert_eq!(search.ahead(3), first);
    assert_eq!(next(&mut search), Some(first[0].clone()));
    search.failed(first[0].clone(), &disagreement(5), 9, &paths);
    assert_eq!(next(&mut search), Some(first[1].clone()));
    search.failed(first[1].clone(), &disagreement(3), 9, &paths);
    // It agreed for longer.
    let third = next(&mut search).expect("neighbours");
    assert_ne!(third.long_turns(0), Some(0), "{third:?}");
}
