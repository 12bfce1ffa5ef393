//! The theorem on random programs: a replay under the same mapping of requests to receipts is
//! equivalent to its recording, whatever the delays.

use std::sync::Arc;
use std::time::Duration;

use crate::executor::{Executor, Rng};
use crate::model::{
    Delays, Entry, Op, Program, Seen, alone, divergence, recording, replaying, run, tapes,
};
use proptest::prelude::*;
use relive_rpc::{Keep, Outcome, Session};

/// Far more than any of them takes.
const LIMIT: Duration = Duration::from_secs(20);

fn op(entries: usize, above: usize, exclusive: bool) -> BoxedStrategy<Op> {
    let local = prop_oneof![Just(Op::Nondet), Just(Op::Locked), Just(Op::Send)];
    let local = match exclusive {
        true => prop_oneof![local, Just(Op::Touch), Just(Op::Touch)].boxed(),
        false => local.boxed(),
    };
    if above >= entries {
        return local;
    }
    prop_oneof![
        2 => (above..entries).prop_map(Op::Call),
        3 => (above..entries).prop_map(Op::Spawn),
        2 => Just(Op::Wait),
        1 => Just(Op::Test),
        1 => (above..entries, above..entries).prop_map(|(a, b)| Op::Select(a, b)),
        4 => local,
    ]
    .boxed()
}

fn program() -> impl Strategy<Value = Program> {
    (1usize..4, 1usize..5, 1usize..5).prop_flat_map(|(processes, entries, roots)| {
        let entry = move |at: usize| {
            (0..processes, any::<bool>()).prop_flat_map(move |(process, exclusive)| {
                let script = prop::collection::vec(op(entries, at + 1, exclusive), 0..4);
                script.prop_map(move |script| Entry {
                    process,
                    exclusive,
                    script,
                })
            })
        };
        let entries_of: Vec<_> = (0..entries).map(entry).collect();
        let root = (
            0..processes,
            prop::collection::vec(op(entries, 0, false), 1..6),
        );
        let roots = prop::collection::vec(root, roots);
        (entries_of, roots).prop_map(move |(entries, roots)| Program {
            processes,
            entries,
            roots,
        })
    })
}

fn concurrently(program: &Program, sessions: Vec<Session>, seed: u64) -> (bool, Seen) {
    let rng = Arc::new(Rng::new(seed));
    let choose = rng.clone();
    let executor = Executor::new(Box::new(move |ready| choose.below(ready as u64) as usize));
    let delays = Delays::Random(rng);
    run(program, sessions, executor, delays, |executor| {
        executor.run(3, LIMIT)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_replay_is_equivalent(
        program in program(),
        seed in any::<u64>(),
        keep in prop_oneof![Just(Keep::Order), Just(Keep::Payloads)],
    ) {
        let sessions = recording(&program, keep);
        let (ended, recorded) = concurrently(&program, sessions.clone(), seed);
        prop_assert!(ended, "the recorded run ends");
        let tapes = tapes(&sessions);
        for round in 1..4 {
            let sessions = replaying(&tapes, Some(LIMIT / 4));
            let (ended, replayed) = concurrently(&program, sessions.clone(), seed ^ round);
            prop_assert_eq!(divergence(&sessions), None);
            prop_assert!(ended, "round {} ends", round);
            for session in &sessions {
                prop_assert_eq!(session.outcome(), Outcome::Over);
            }
            prop_assert_eq!(&replayed, &recorded);
        }
    }

    #[test]
    fn a_process_alone_does_what_it_did(program in program(), seed in any::<u64>()) {
        let sessions = recording(&program, Keep::Payloads);
        let (ended, recorded) = concurrently(&program, sessions.clone(), seed);
        prop_assert!(ended, "the recorded run ends");
        let tapes = tapes(&sessions);
        for process in 0..program.processes {
            let sessions = alone(&tapes, process, Some(LIMIT / 4));
            let (ended, replayed) = concurrently(&program, sessions.clone(), seed ^ 1);
            prop_assert_eq!(divergence(&sessions), None);
            prop_assert!(ended, "process {} ends", process);
            prop_assert_eq!(sessions[process].outcome(), Outcome::Over);
            let states = |seen: &Seen| seen.states_of(&program, process);
            prop_assert_eq!(states(&replayed), states(&recorded));
        }
    }
}
