//! Processes that are killed at any moment: their tapes replay up to there, every time the same.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::executor::{Executor, Rng};
use crate::model::{Delays, Entry, Op, Program, Seen, divergence, run};
use relive_rpc::tape::End;
use relive_rpc::{Keep, Outcome, Session, Tape, read_all};

/// The folder that the child records into.
const FOLDER: &str = "RELIVE_RPC_TEST_FOLDER";

/// How many processes the child plays.
const PROCESSES: &str = "RELIVE_RPC_TEST_PROCESSES";

/// Steps of each root: more than it comes to do.
const LENGTH: usize = 100_000;

fn program(processes: usize, length: usize) -> Program {
    let entry = |process: usize, exclusive, script: &[Op]| Entry {
        process: process % processes,
        exclusive,
        script: script.to_vec(),
    };
    let script = [
        Op::Spawn(0),
        Op::Nondet,
        Op::Call(1),
        Op::Select(0, 2),
        Op::Wait,
        Op::Locked,
        Op::Spawn(2),
        Op::Test,
        Op::Send,
        Op::Wait,
    ];
    let root: Vec<Op> = script.iter().copied().cycle().take(length).collect();
    Program {
        processes,
        entries: vec![
            entry(
                0,
                false,
                &[Op::Nondet, Op::Call(1), Op::Locked, Op::Call(2)],
            ),
            entry(1, true, &[Op::Touch, Op::Nondet, Op::Spawn(2)]),
            entry(2, true, &[Op::Touch, Op::Send]),
        ],
        roots: (0..3).map(|at| (at % processes, root.clone())).collect(),
    }
}

fn concurrently(sessions: Vec<Session>, length: usize, seed: u64) -> (bool, Seen) {
    let rng = Arc::new(Rng::new(seed));
    let choose = rng.clone();
    let executor = Executor::new(Box::new(move |ready| choose.below(ready as u64) as usize));
    run(
        &program(sessions.len(), length),
        sessions,
        executor,
        Delays::Random(rng),
        |executor| executor.run(3, Duration::from_secs(60)),
    )
}

/// Not a test by itself: the work of the child until it is killed.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let processes = std::env::var(PROCESSES).unwrap().parse().unwrap();
    let open =
        |at| Session::record(Path::new(&folder), &format!("process{at}"), Keep::Order).unwrap();
    concurrently((0..processes).map(open).collect(), LENGTH, 0);
}

fn replay(
    folder: &Path,
    processes: usize,
    length: usize,
    limit: Duration,
    seed: u64,
) -> (Vec<Outcome>, Seen) {
    let open = |at| Session::replay(folder, &format!("process{at}"), Some(limit)).unwrap();
    let sessions: Vec<_> = (0..processes).map(open).collect();
    let (ended, seen) = concurrently(sessions.clone(), length, seed);
    assert_eq!(divergence(&sessions), None);
    assert!(ended, "nobody waits for ever");
    (sessions.iter().map(settled).collect(), seen)
}

/// How a session ends. One whose tasks have all ended with the answers of others finds by its time
/// limit that no more comes.
fn settled(session: &Session) -> Outcome {
    loop {
        match session.outcome() {
            Outcome::Replaying(_) => std::thread::sleep(Duration::from_millis(10)),
            outcome => return outcome,
        }
    }
}

/// How many receipts tapes have.
fn receipts(tapes: &[Tape]) -> u64 {
    let lanes = tapes.iter().flat_map(|tape| &tape.lanes);
    lanes.map(|lane| lane.receipts.len() as u64).sum()
}

/// Records in a child that is killed when its tapes have so many receipts, or soon afterwards.
fn killed(folder: &Path, processes: usize, least: u64) -> Vec<Tape> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child"])
        .env(FOLDER, folder)
        .env(PROCESSES, processes.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let far = |tapes: Vec<Tape>| {
        tapes.len() == processes
            && tapes.iter().all(|tape| !tape.lanes.is_empty())
            && receipts(&tapes) >= least
    };
    while !read_all(folder).is_ok_and(far) {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let tapes = read_all(folder).unwrap();
    assert!(tapes.iter().all(|tape| tape.end != End::Closed));
    assert!(receipts(&tapes) >= least, "a tape grows only");
    tapes
}

/// All lanes of a tape are of one moment: nothing waits for a record that another lane lacks.
#[test]
fn a_killed_process_replays_up_to_there() {
    let rng = Rng::new(std::process::id().into());
    for run in 0..100 {
        let folder = tempfile::tempdir().unwrap();
        killed(folder.path(), 1, rng.below(200));
        let limit = Duration::from_secs(30);
        let (outcomes, first) = replay(folder.path(), 1, LENGTH, limit, run);
        assert_eq!(outcomes, [Outcome::Over]);
        assert_eq!(
            replay(folder.path(), 1, LENGTH, limit, !run),
            (outcomes, first)
        );
    }
}

/// Tapes of several processes are cut at different moments: the rest of each has the records it depends on, and
/// all replay to its end, none by the time limit.
#[test]
fn killed_processes_replay_up_to_the_first_cut() {
    let rng = Rng::new(std::process::id().into());
    for run in 0..15 {
        let folder = tempfile::tempdir().unwrap();
        killed(folder.path(), 3, rng.below(400));
        let limit = Duration::from_secs(30);
        let (outcomes, first) = replay(folder.path(), 3, LENGTH, limit, run);
        assert_eq!(outcomes, [Outcome::Over, Outcome::Over, Outcome::Over]);
        assert_eq!(replay(folder.path(), 3, LENGTH, limit, !run).1, first);
    }
}

#[test]
fn a_finished_recording_replays_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let open = |at| Session::record(folder.path(), &format!("process{at}"), Keep::Order).unwrap();
    let sessions: Vec<_> = (0..3).map(open).collect();
    let (ended, recorded) = concurrently(sessions.clone(), 40, 1);
    assert!(ended);
    sessions
        .iter()
        .for_each(|session| session.finish().unwrap());
    assert!(
        read_all(folder.path())
            .unwrap()
            .iter()
            .all(|tape| tape.end == End::Closed)
    );
    let (outcomes, seen) = replay(folder.path(), 3, 40, Duration::from_secs(30), 2);
    assert_eq!(outcomes, [Outcome::Over, Outcome::Over, Outcome::Over]);
    assert_eq!(seen, recorded);
    assert!(
        Session::record(folder.path(), "process0", Keep::Order).is_err(),
        "no tape is overwritten"
    );
}

#[test]
fn an_entry_point_keeps_its_session() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::record(folder.path(), "process0", Keep::Order).unwrap();
    let entry = session.entry_point("entry").unwrap();
    drop(session);
    crate::executor::block_on(entry.serve(None, None, async {})).unwrap();
    drop(entry);
    let tape = read_all(folder.path()).unwrap().remove(0);
    assert_eq!(tape.end, End::Closed);
    assert_eq!(tape.lanes[0].receipts.len(), 1);
}
