//! One process without its peers: it is asked and answered by its tape, and each divergence is
//! noticed.

use std::convert::Infallible;
use std::time::Duration;

use relive_rpc::{
    CallError, Halt, Keep, Kind, OpenError, Outcome, Session, Tape, VALUE_MAX, exchange,
};

use crate::executor::block_on;

const LIMIT: Duration = Duration::from_millis(400);

/// A service whose state is a sum; each request adds another service's answer to it.
async fn handle(sum: &mut u64, bytes: Vec<u8>, peer: u8) -> Vec<u8> {
    let asked = exchange(&bytes, |_| async { Ok::<_, Infallible>(vec![peer; 3]) }).await;
    match asked {
        Ok(answer) => *sum = *sum * 10 + u64::from(answer[0]) + u64::from(bytes[0]),
        Err(CallError::Failed(text)) => panic!("{text}"),
        Err(CallError::Halt(_)) => {}
    }
    sum.to_string().into_bytes()
}

/// Requests from outside, one after the other, and the sum behind them.
fn record(keep: Keep, requests: &[Vec<u8>]) -> (u64, Vec<u8>) {
    let session = Session::record_in_memory("service", keep).unwrap();
    let entry = session.exclusive("add").unwrap();
    let mut sum = 0;
    for (peer, bytes) in requests.iter().enumerate() {
        let handler = async |bytes| handle(&mut sum, bytes, peer as u8).await;
        block_on(entry.serve_bytes(None, bytes.clone(), handler)).unwrap();
    }
    (sum, session.finish_in_memory())
}

fn replay(tape: &[u8], change: impl Fn(&mut Vec<u8>)) -> (u64, usize, Outcome) {
    let tape = Tape::parse(tape).unwrap();
    let session = Session::replay_tape_alone(tape, Some(LIMIT)).unwrap();
    let entry = session.exclusive("add").unwrap();
    let mut requests = session.requests().unwrap();
    let (mut sum, mut length) = (0, 0);
    block_on(async {
        while let Some(incoming) = requests.next().await {
            assert_eq!(incoming.entry.as_str(), "add");
            let header = incoming.header;
            let bytes = incoming.bytes().unwrap();
            length += bytes.len();
            let handler = async |mut bytes: Vec<u8>| {
                change(&mut bytes);
                handle(&mut sum, bytes, 200).await
            };
            // Refused after a divergence.
            let _ = entry.serve_bytes(header.as_ref(), bytes, handler).await;
        }
    });
    (sum, length, session.outcome())
}

#[test]
fn it_is_asked_and_answered_by_its_tape() {
    let requests = [vec![1], vec![2, 2], vec![3; 3 * VALUE_MAX]];
    let (sum, tape) = record(Keep::Payloads, &requests);
    let length = 3 + 3 * VALUE_MAX;
    assert_eq!(sum, 135);
    assert_eq!(replay(&tape, |_| ()), (sum, length, Outcome::Over));
}

#[test]
fn what_it_sends_is_compared() {
    let (_, tape) = record(Keep::Payloads, &[vec![1], vec![2]]);
    let (_, _, outcome) = replay(&tape, |bytes| bytes.push(0));
    let Outcome::Diverged(divergence) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(divergence.kind, Kind::Content);
    assert!(
        divergence.expected.contains("service/add#0:0"),
        "{divergence}"
    );
}

#[test]
fn what_it_answers_is_compared() {
    let session = |peer: u64, session: Session| {
        let entry = session.exclusive("add").unwrap();
        let handler = |_| async move { peer.to_le_bytes().to_vec() };
        block_on(entry.serve_bytes(None, Vec::new(), handler))
    };
    let recorded = Session::record_in_memory("service", Keep::Payloads).unwrap();
    session(1, recorded.clone()).unwrap();
    let tape = recorded.finish_in_memory();
    let open = || Session::replay_tapes(vec![Tape::parse(&tape).unwrap()], "service", None);
    assert_eq!(session(1, open().unwrap()).unwrap(), 1u64.to_le_bytes());
    let Err(Halt::Diverged(divergence)) = session(2, open().unwrap()) else {
        panic!("it answers otherwise");
    };
    assert_eq!(divergence.kind, Kind::Content);
    assert!(divergence.expected.contains("an answer"), "{divergence}");
}

#[test]
fn it_needs_payloads() {
    let (_, tape) = record(Keep::Order, &[vec![1]]);
    let opened = Session::replay_tape_alone(Tape::parse(&tape).unwrap(), None);
    assert!(matches!(opened, Err(OpenError::NoPayloads(_))));
}

/// Of a tape that is cut anywhere, the rest is replayed, and then it ends.
#[test]
fn a_cut_tape_ends_where_it_is_cut() {
    let requests: Vec<Vec<u8>> = (0..5).map(|at| vec![at; 40]).collect();
    let folder = tempfile::tempdir().unwrap();
    let session = Session::record(folder.path(), "service", Keep::Payloads).unwrap();
    let entry = session.exclusive("add").unwrap();
    let (mut sum, mut sums) = (0, vec![0]);
    for bytes in &requests {
        let handler = async |bytes| handle(&mut sum, bytes, 7).await;
        block_on(entry.serve_bytes(None, bytes.clone(), handler)).unwrap();
        sums.push(sum);
        // A pass of the writer: a cut tape holds whole passes.
        std::thread::sleep(Duration::from_millis(15));
    }
    session.finish().unwrap();
    let tape = std::fs::read(folder.path().join("service.tape")).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for len in (60..tape.len()).step_by(7) {
        let Ok(cut) = Tape::parse(&tape[..len]) else {
            continue;
        };
        if cut.lanes.iter().all(|lane| lane.receipts.is_empty()) {
            continue;
        }
        let (sum, _, outcome) = replay(&tape[..len], |_| ());
        assert_eq!(outcome, Outcome::Over, "{len}");
        assert!(sums.contains(&sum), "{len}: {sum}");
        seen.insert(sum);
    }
    assert!(seen.len() > 2, "{seen:?}");
}
