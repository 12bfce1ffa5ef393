use super::*;

fn access(detector: &mut Detector, thread: u32, addr: u64, writes: bool, atomic: bool) {
    detector.run(0, thread);
    let touch = Touch {
        pc: 0x1000 + addr + u64::from(writes),
        addr,
        size: 4,
        writes,
        atomic,
        call: None,
    };
    detector.touch(&touch, TouchPosition::default);
}

fn two_threads() -> Detector {
    let mut detector = Detector::default();
    detector.run(0, 0);
    detector.born(0, 1);
    detector
}

#[test]
fn a_creator_and_its_thread_race_behind_the_creation_only() {
    let mut detector = Detector::default();
    access(&mut detector, 0, 64, true, false);
    detector.born(0, 1);
    access(&mut detector, 1, 64, true, false);
    assert_eq!(detector.races().races.len(), 0);
    access(&mut detector, 0, 64, false, false);
    let races = detector.races().races;
    assert_eq!(races.len(), 1);
    assert_eq!((races[0].first.thread, races[0].second.thread), (1, 0));
}

#[test]
fn a_word_of_atomic_instructions_orders_plain_accesses_too() {
    let mut detector = two_threads();
    access(&mut detector, 0, 128, true, true); // lock
    access(&mut detector, 0, 64, true, false);
    access(&mut detector, 0, 128, true, false); // unlock by a plain store
    access(&mut detector, 1, 128, true, true);
    access(&mut detector, 1, 64, true, false);
    assert_eq!(detector.races().races.len(), 0);
    // Its neighbour is plain data.
    access(&mut detector, 0, 132, true, false);
    access(&mut detector, 1, 132, true, false);
    assert_eq!(detector.races().races.len(), 1);
}

#[test]
fn a_site_makes_its_word_one_to_synchronise_by() {
    let hints = RaceHints {
        words: Vec::new(),
        sites: vec![0x1000 + 128 + 1],
    };
    let mut detector = Detector::new(&hints);
    detector.run(0, 0);
    detector.born(0, 1);
    access(&mut detector, 0, 64, true, false);
    access(&mut detector, 0, 128, true, false);
    access(&mut detector, 1, 128, false, false);
    access(&mut detector, 1, 64, false, false);
    assert_eq!(detector.races().races.len(), 0);
    access(&mut detector, 1, 72, true, false);
    access(&mut detector, 0, 72, true, false);
    assert_eq!(detector.races().races.len(), 1);
}

#[test]
fn new_memory_has_no_past() {
    let mut detector = two_threads();
    access(&mut detector, 0, 64, true, false);
    detector.renew(64, 4096);
    access(&mut detector, 1, 64, true, false);
    assert_eq!(detector.races().races.len(), 0);
}

#[test]
fn plain_accesses_to_the_word_of_a_lock_are_learnt_and_what_it_protects_is_not() {
    let mut detector = Detector::learning();
    detector.run(0, 0);
    detector.born(0, 1);
    let (lock, data) = (128, 64);
    for thread in [0, 1, 0] {
        access(&mut detector, thread, lock, true, true);
        access(&mut detector, thread, data, true, false);
        access(&mut detector, thread, lock, true, false);
    }
    // All accesses to a word come from one place here: that of the lock is an atomic one's too.
    assert_eq!(detector.learnt(), [].into());
    let mut detector = Detector::learning();
    detector.run(0, 0);
    detector.born(0, 1);
    access(&mut detector, 0, lock, false, true);
    access(&mut detector, 0, lock, true, false);
    access(&mut detector, 1, lock, false, true);
    assert_eq!(detector.learnt(), [0x1000 + lock + 1].into());
    assert_eq!(detector.races().races.len(), 0);
}

#[test]
fn both_sides_of_a_race_are_learnt() {
    let mut detector = Detector::learning();
    detector.run(0, 0);
    detector.born(0, 1);
    access(&mut detector, 0, 64, true, false);
    access(&mut detector, 1, 64, false, false);
    assert_eq!(detector.learnt(), [0x1040, 0x1041].into());
}

/// Of one pair of places the last race is kept, and in a search all of the last ones.
#[test]
fn the_races_of_a_loop_are_found_by_their_ticks() {
    let mut detector = Detector::of_pairs();
    detector.run(0, 0);
    detector.born(0, 1);
    for thread in [0, 1] {
        detector.run(0, thread);
        for tick in 0..20 {
            let touch = Touch {
                pc: 0x1000 + u64::from(thread),
                addr: 64 + 8 * tick,
                size: 4,
                writes: thread == 0,
                atomic: false,
                call: None,
            };
            let at = TouchPosition {
                tick,
                ..TouchPosition::default()
            };
            detector.touch(&touch, || at);
        }
    }
    let ticks = |races: Vec<Race>| races.iter().map(|r| r.second.tick).collect::<Vec<_>>();
    assert_eq!(ticks(detector.last_races()), [19]);
    assert_eq!(
        BTreeSet::from_iter(ticks(detector.races_at(1, 7))),
        [6, 7, 8].into()
    );
}
