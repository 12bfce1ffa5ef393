//! The theorem on small programs, exhaustively: every schedule of the recording, and for each mapping
//! of requests to receipts that comes about, every schedule of the replay. The scheduler takes each
//! choice that the library and the program leave to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::executor::Executor;
use crate::model::{
    Delays, Entry, Op, Program, Seen, divergence, recording, replaying, run, tapes,
};
use relive_rpc::{Keep, Session};

/// More schedules than this are not explored: the program is no small one.
const MOST: usize = 200_000;

/// The choices of one run: each with the number of choices that there were.
type Choices = Vec<(usize, usize)>;

fn once(program: &Program, sessions: Vec<Session>, prefix: &Choices) -> (Choices, bool, Seen) {
    let made: Arc<Mutex<Choices>> = Arc::default();
    let (noted, prefix) = (made.clone(), prefix.clone());
    let executor = Executor::new(Box::new(move |ready| {
        let mut noted = noted.lock().unwrap();
        let chosen = prefix.get(noted.len()).map_or(0, |(chosen, of)| {
            assert_eq!(*of, ready, "a run is determined by its choices");
            *chosen
        });
        noted.push((chosen, ready));
        chosen
    }));
    let (ended, seen) = run(
        program,
        sessions,
        executor,
        Delays::None,
        Executor::run_here,
    );
    let made = made.lock().unwrap().clone();
    (made, ended, seen)
}

/// Calls `visit` with the outcome of every schedule; says how many there are.
fn explore(
    program: &Program,
    sessions: impl Fn() -> Vec<Session>,
    mut visit: impl FnMut(&[Session], bool, Seen),
) -> usize {
    let mut prefix = Choices::new();
    for count in 1.. {
        assert!(count < MOST, "too many schedules");
        let opened = sessions();
        let (mut made, ended, seen) = once(program, opened.clone(), &prefix);
        visit(&opened, ended, seen);
        while made.pop_if(|(chosen, of)| *chosen + 1 == *of).is_some() {}
        let Some((chosen, _)) = made.last_mut() else {
            return count;
        };
        *chosen += 1;
        prefix = made;
    }
    unreachable!("every number is tried")
}

/// For each set of tapes that schedules lead to, the states seen when they were recorded.
fn record_all(program: &Program) -> BTreeMap<Vec<Vec<u8>>, BTreeSet<Seen>> {
    let mut mappings: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    explore(
        program,
        || recording(program, Keep::Order),
        |sessions, ended, seen| {
            assert!(ended, "no recording dead-locks");
            mappings.entry(tapes(sessions)).or_default().insert(seen);
        },
    );
    mappings
}

/// The states that replays of these tapes show.
fn replay_all(program: &Program, tapes: &[Vec<u8>]) -> BTreeSet<Seen> {
    let mut outcomes = BTreeSet::new();
    explore(
        program,
        || replaying(tapes, None),
        |sessions, ended, seen| {
            assert_eq!(divergence(sessions), None);
            assert!(ended, "no replay dead-locks");
            outcomes.insert(seen);
        },
    );
    outcomes
}

fn entry(process: usize, exclusive: bool, script: &[Op]) -> Entry {
    let script = script.to_vec();
    Entry {
        process,
        exclusive,
        script,
    }
}

fn program(processes: usize, entries: &[Entry], roots: &[(usize, &[Op])]) -> Program {
    Program {
        processes,
        entries: entries.to_vec(),
        roots: roots
            .iter()
            .map(|(at, script)| (*at, script.to_vec()))
            .collect(),
    }
}

/// Checks the theorem; gives the number of mappings.
fn holds(program: &Program) -> usize {
    let mappings = record_all(program);
    for (tapes, seen) in &mappings {
        assert_eq!(seen.len(), 1, "recordings with one mapping are equivalent");
        assert_eq!(&replay_all(program, tapes), seen, "so are all replays");
    }
    mappings.len()
}

#[test]
fn two_clients_of_an_exclusive_entry_point() {
    let touch = [entry(0, true, &[Op::Touch])];
    let program = program(
        1,
        &touch,
        &[(0, &[Op::Call(0)]), (0, &[Op::Nondet, Op::Call(0)])],
    );
    // The primitive has another value in each recording.
    assert!(holds(&program) >= 2);
}

#[test]
fn spawned_requests_of_one_task() {
    let touch = [entry(0, true, &[Op::Touch])];
    let program = program(1, &touch, &[(0, &[Op::Spawn(0), Op::Call(0), Op::Wait])]);
    assert!(holds(&program) >= 2);
}

#[test]
fn two_processes_and_a_lock() {
    let entries = [entry(0, false, &[Op::Locked]), entry(1, true, &[Op::Touch])];
    let program = program(2, &entries, &[(0, &[Op::Call(0)]), (1, &[Op::Call(0)])]);
    assert!(holds(&program) >= 2);
}

#[test]
fn a_lost_race_of_two_requests() {
    let touch = [entry(0, true, &[Op::Touch])];
    let program = program(1, &touch, &[(0, &[Op::Select(0, 0)])]);
    assert!(holds(&program) >= 2);
}

#[test]
fn an_answer_that_is_tested_for() {
    let entries = [entry(0, true, &[Op::Touch]), entry(0, false, &[])];
    let root = [Op::Spawn(0), Op::Call(1), Op::Test, Op::Wait];
    let program = program(1, &entries, &[(0, &root)]);
    assert!(holds(&program) >= 2);
}

#[test]
fn two_senders_of_a_channel() {
    let send = [entry(0, false, &[Op::Send])];
    let program = program(1, &send, &[(0, &[Op::Call(0)]), (0, &[Op::Send])]);
    assert!(holds(&program) >= 2);
}

/// Assumption 2 dropped: handlers that run side by side share state. One mapping has several outcomes,
/// in recordings and in replays: the update is lost in some.
#[test]
fn shared_state_without_an_order_is_a_counterexample() {
    let touch = [entry(0, false, &[Op::Touch])];
    let program = program(1, &touch, &[(0, &[Op::Call(0)]), (0, &[Op::Call(0)])]);
    let mappings = record_all(&program);
    assert!(mappings.values().any(|seen| seen.len() > 1));
    assert!(
        mappings
            .keys()
            .any(|tapes| replay_all(&program, tapes).len() > 1)
    );
}
