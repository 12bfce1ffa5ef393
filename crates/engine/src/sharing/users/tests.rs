//! Tests of the table of users.

use super::*;
use crate::sharing::processes::standing;

fn tables() -> (Box<Users>, Box<Processes>) {
    // SAFETY: all fields are atomics, for which zeros are a value.
    let (users, processes) = unsafe {
        (
            Box::<Users>::new_zeroed().assume_init(),
            Box::<Processes>::new_zeroed().assume_init(),
        )
    };
    for p in 0..8 {
        let slot = processes.get(p).expect("in range");
        slot.pid.store(std::process::id(), Ordering::Release);
        slot.become_one(standing::ALONE);
    }
    (users, processes)
}

#[test]
fn readers_do_not_meet_and_a_writer_meets_all() {
    let (users, processes) = tables();
    let claim = |p, writes| users.claim(&processes, 77, p, writes).expect("room");
    assert!(claim(1, false).is_empty() && claim(2, false).is_empty());
    assert_eq!(claim(3, true), [1, 2]);
    assert_eq!(claim(4, false), [3]);
    assert!(users.ever_written(77) && !users.ever_written(78));
}

#[test]
fn files_do_not_meet_each_others_users() {
    let (users, processes) = tables();
    let claim = |file, p| users.claim(&processes, file, p, true).expect("room");
    assert!(claim(1, 1).is_empty() && claim(1, 1).is_empty());
    let same_place = (2..).find(|&f| start(f) == start(1)).expect("one of many");
    assert!(claim(same_place, 2).is_empty());
    assert_eq!(claim(1, 3), [1]);
}

#[test]
fn the_ended_are_forgotten_but_their_writes_are_not() {
    let (users, processes) = tables();
    let claim = |file, p, writes| users.claim(&processes, file, p, writes).expect("room");
    claim(5, 1, true);
    processes
        .get(1)
        .expect("in range")
        .become_one(standing::PRIVATE);
    assert_eq!(
        claim(5, 2, false),
        [1],
        "the writes of the ended one come first"
    );
    assert_eq!(claim(5, 3, false), [2], "in its place");
    assert!(users.ever_written(5));
    for file in 0..100_000 {
        claim(6 + file, 1, false);
    }
    assert!(users.ever_written(5));
}

#[test]
fn a_claim_ends_with_the_last_map_and_with_the_program() {
    let (users, processes) = tables();
    let claim = |p| users.claim(&processes, 9, p, false).expect("room");
    let maps = |me| users.maps(&processes, 9, me, u64::MAX);
    let before = users.clock();
    claim(1);
    assert_eq!((maps(2), maps(1)), (Some(1), None));
    let early = |until| users.maps(&processes, 9, 2, until);
    assert_eq!((early(before), early(users.clock())), (None, Some(1)));
    users.release(9, 1);
    assert_eq!(maps(2), None);
    claim(1);
    assert_eq!(maps(2), Some(1));
    let slot = processes.get(1).expect("in range");
    slot.programs.store(1, Ordering::Release);
    assert_eq!(maps(2), None, "the new program maps nothing");
    claim(1);
    assert_eq!(maps(2), Some(1));
}

#[test]
fn a_process_that_changes_a_file_is_met_by_later_mappers() {
    let (users, processes) = tables();
    let claim = |p| users.claim(&processes, 9, p, false).expect("room");
    let change = |p| users.change(&processes, 9, p).expect("room");
    assert!(change(1) == Met::default() && !users.mentions(9));
    claim(2);
    assert!(users.mentions(9) && !users.ever_written(9));
    assert!(change(1).live && change(1).others == [2]);
    assert!(!users.ever_written(9));
    assert_eq!(claim(3), [2, 1]);
}

#[test]
fn readers_of_the_old_content_are_met_by_those_of_the_new() {
    let (users, processes) = tables();
    let claim = |p| users.claim(&processes, 9, p, false).expect("room");
    claim(2);
    users.release(9, 2);
    assert!(claim(3).is_empty());
    users.release(9, 3);
    assert!(!users.change(&processes, 9, 1).expect("room").live);
    assert_eq!(claim(4), [2, 3]);
    let met = users.change(&processes, 9, 1).expect("room");
    assert!(met.live && met.others == [2, 3, 4]);
    let again = users.change(&processes, 9, 1).expect("room");
    assert_eq!(again.others, [4], "the others have been met");
}

#[test]
fn readers_that_have_ended_are_remembered_to_a_number() {
    let (users, processes) = tables();
    let claim = |p| users.claim(&processes, 9, p, false).expect("room");
    let forgotten = || users.change(&processes, 9, 1).expect("room").forgotten;
    for p in 0..READERS as u32 {
        let slot = processes.get(100 + p).expect("in range");
        slot.become_one(standing::ALONE);
        claim(100 + p);
        slot.become_one(standing::PRIVATE);
    }
    assert_eq!(users.entries_of(9).count(), READERS);
    claim(2);
    assert_eq!(users.entries_of(9).count(), READERS);
    assert!(forgotten());
}

#[test]
fn a_claim_that_is_made_again_stays_an_early_one() {
    let (users, processes) = tables();
    let claim = |p| users.claim(&processes, 9, p, false).expect("room");
    claim(1);
    let between = users.settled_clock();
    claim(1);
    claim(2);
    assert!(users.claimed_until(9, between) && users.claimed_after(9, between));
    assert!(!users.claimed_until(9, between - 1) && !users.claimed_until(8, between));
}
