//! Tests of the group's baton.

use super::*;
use crate::failure::FailureClass;

fn group() -> Box<Group> {
    // SAFETY: all fields are atomics, for which zeros are a value.
    unsafe { Box::<Group>::new_zeroed().assume_init() }
}

fn me() -> Keepers {
    [sys::gettid(), 0]
}

#[test]
fn a_turn_names_the_one_before() {
    let g = group();
    assert_eq!(g.take(3, me()), Ok(None));
    g.release(3, me(), 7, |_| 0);
    assert_eq!(g.take(3, me()), Ok(None), "no other process has had it");
    g.release(3, me(), 8, |_| 0);
    let before = Predecessor {
        process: 3,
        turn: Some(8),
    };
    assert_eq!(g.take(0, me()), Ok(Some(before)));
    assert!(g.is_held_by(0) && g.deaths() == 0);
}

#[test]
fn the_one_that_is_chosen_goes_first() {
    let g = group();
    g.take(0, me()).expect("there is room");
    std::thread::scope(|scope| {
        for process in [1, 2] {
            let g = &g;
            scope.spawn(move || {
                let before = g.take(process, me()).expect("there is room");
                let before = before.expect("another one had it");
                assert_eq!(before.process, if process == 2 { 0 } else { 2 });
                g.release(process, me(), 1, |_| 0);
            });
            while g.waiting.load(Ordering::Acquire) < process {
                std::thread::yield_now();
            }
        }
        g.release(0, me(), 0, |ids| {
            assert_eq!(ids, [1, 2]);
            1
        });
    });
}

#[test]
fn a_dead_holder_loses_it() {
    let g = group();
    let dead = std::thread::spawn(sys::gettid).join().expect("no panic");
    g.take(5, [dead, 0]).expect("there is room");
    let died = Predecessor {
        process: 5,
        turn: None,
    };
    assert_eq!(g.take(6, me()), Ok(Some(died)));
    assert_eq!(g.deaths(), 1);
}

#[test]
fn one_that_died_before_it_woke_has_changed_nothing() {
    let g = group();
    g.take(1, me()).expect("there is room");
    let dead = std::thread::spawn(sys::gettid).join().expect("no panic");
    g.enqueue(10, [dead, 0]).expect("there is room");
    g.release(1, me(), 4, |_| 0);
    assert!(g.is_held_by(9));
    let before = Predecessor {
        process: 1,
        turn: Some(4),
    };
    assert_eq!(g.take(2, me()), Ok(Some(before)));
    assert_eq!(g.deaths(), 0);
}

#[test]
fn without_a_place_to_wait_in_nobody_waits() {
    let g = group();
    g.take(1, me()).expect("there is room");
    for waiter in &g.waiters {
        waiter.process.store(9, Ordering::Release);
    }
    let refused = g.take(2, me());
    assert!(
        matches!(&refused, Err(failure) if failure.class() == FailureClass::Unsupported),
        "{refused:?}"
    );
    assert!(g.is_held_by(1) && !g.wanted());
}

#[test]
fn no_member_runs_while_it_is_lent() {
    let g = group();
    g.take(1, me()).expect("there is room");
    g.release(1, me(), 2, |_| 0);
    g.while_quiet(sys::gettid(), || assert!(!g.is_held_by(1)))
        .expect("there is room");
    assert_eq!(g.take(1, me()), Ok(None), "lending is no turn");
}

#[test]
fn a_long_turn_is_to_end_once_somebody_has_waited_for_it() {
    let g = group();
    g.take(0, me()).expect("there is room");
    assert!(!g.is_hurried());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            g.take(1, me()).expect("there is room");
            assert!(!g.is_hurried(), "its own turn has just begun");
            g.release(1, me(), 1, |_| 0);
        });
        while !g.is_hurried() {
            std::thread::yield_now();
        }
        g.release(0, me(), 0, |_| 0);
    });
    g.take(0, me()).expect("there is room");
    assert!(!g.is_hurried());
}
