//! Replays that leave their recording: each is named, with the expected and the actual request, and nobody
//! waits for ever.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::executor::{Executor, Slot, block_on, yield_now};
use relive_rpc::{
    Content, Divergence, EntryPoint, Halt, Header, Keep, Kind, NameId, OpenError, Origin, Outcome,
    Path, RequestId, Session, Tape, TaskId, call, fork, nondet, select, try_nondet,
};

const LIMIT: Duration = Duration::from_millis(400);

fn replay(bytes: &[u8], limit: Option<Duration>) -> Session {
    Session::replay_tapes(vec![Tape::parse(bytes).unwrap()], "p", limit).unwrap()
}

/// Runs `first` and `second` as two roots that call one exclusive entry point; the order is theirs.
fn two_clients<R: Send + 'static>(
    session: &Session,
    first: impl Future<Output = R> + Send + 'static,
    second: impl Future<Output = R> + Send + 'static,
) -> Option<(R, R)> {
    let executor = Executor::new(Box::new(|_| 0));
    let ends = [Arc::new(Slot::default()), Arc::new(Slot::default())];
    let (one, two) = (ends[0].clone(), ends[1].clone());
    let root = |name| session.root(name).unwrap().unwrap();
    executor.spawn(root("first").scope(async move { one.put(first.await) }));
    executor.spawn(root("second").scope(async move { two.put(second.await) }));
    let ended = executor.run(2, Duration::from_secs(10));
    ended.then(|| block_on(async { (ends[0].take().await, ends[1].take().await) }))
}

async fn send(to: EntryPoint, payload: u64) -> Result<u64, Halt> {
    let content = Content::of(&payload.to_le_bytes());
    let answer = call(Some(content), |header| async move {
        to.serve(header.as_ref(), None, async move { payload })
            .await
    });
    answer.await?
}

/// The first client's request comes first.
fn recorded() -> Vec<u8> {
    let session = Session::record_in_memory("p", Keep::Order).unwrap();
    let entry = session.exclusive("entry").unwrap();
    let (one, two) = (entry.clone(), entry);
    two_clients(&session, send(one, 1), async move {
        (0..1000).fold((), |(), _| ());
        for _ in 0..100 {
            yield_now().await;
        }
        send(two, 2).await
    });
    let bytes = session.finish_in_memory();
    let tape = Tape::parse(&bytes).unwrap();
    assert_eq!(tape.lanes[0].receipts.len(), 2);
    bytes
}

fn diverges(result: Result<u64, Halt>) -> Arc<Divergence> {
    match result {
        Err(Halt::Diverged(divergence)) => divergence,
        other => panic!("it does not diverge: {other:?}"),
    }
}

#[test]
fn a_request_with_other_content() {
    let session = replay(&recorded(), Some(LIMIT));
    let entry = session.exclusive("entry").unwrap();
    let (one, two) = (entry.clone(), entry);
    let (first, second) = two_clients(&session, send(one, 3), send(two, 2)).unwrap();
    let divergence = diverges(first);
    assert_eq!(divergence.kind, Kind::Content);
    assert_eq!(divergence.position, 0);
    assert!(divergence.expected.contains("p/first:0"), "{divergence}");
    assert_eq!(diverges(second), divergence, "one divergence for all");
    assert_eq!(session.outcome(), Outcome::Diverged(divergence));
}

#[test]
fn a_request_that_does_not_come() {
    let session = replay(&recorded(), Some(LIMIT));
    let entry = session.exclusive("entry").unwrap();
    let none = async { Ok(0) };
    let (_, second) = two_clients(&session, none, send(entry, 2)).unwrap();
    let divergence = diverges(second);
    assert_eq!(divergence.kind, Kind::Missing);
    assert!(divergence.expected.contains("p/first:0"), "{divergence}");
    assert!(
        divergence.waits[0].contains("held there: p/second:0"),
        "{divergence}"
    );
}

#[test]
fn a_request_from_another_task() {
    let session = replay(&recorded(), Some(LIMIT));
    let entry = session.exclusive("entry").unwrap();
    let (one, two) = (entry.clone(), entry);
    let (first, _) =
        two_clients(&session, async { fork(send(one, 1)).await }, send(two, 2)).unwrap();
    let divergence = diverges(first);
    assert_eq!(divergence.kind, Kind::Missing);
    let text = divergence.to_string();
    assert!(
        text.contains("expected p/first:0") && text.contains("p/first.0:0"),
        "{text}"
    );
}

#[test]
fn a_request_that_comes_again() {
    let bytes = recorded();
    let header = Header {
        id: Tape::parse(&bytes).unwrap().lanes[0].receipts[0].id,
        content: Some(Content::of(&1u64.to_le_bytes())),
        epoch: 0,
        known: None,
    };
    let session = replay(&bytes, Some(LIMIT));
    let entry = session.exclusive("entry").unwrap();
    let twice = async {
        entry.serve(Some(&header), None, async {}).await.unwrap();
        entry.serve(Some(&header), None, async {}).await
    };
    let Err(Halt::Diverged(divergence)) = block_on(twice) else {
        panic!("it comes once only");
    };
    assert_eq!(divergence.kind, Kind::Twice);
    assert_eq!((divergence.position, divergence.last.len()), (1, 1));
    assert!(divergence.expected.contains("p/second:0"), "{divergence}");
}

#[test]
fn the_recorded_order_is_kept_and_then_it_is_over() {
    let session = replay(&recorded(), Some(LIMIT));
    let entry = session.exclusive("entry").unwrap();
    let (one, two, three) = (entry.clone(), entry.clone(), entry);
    let late = async move {
        for _ in 0..1000 {
            yield_now().await;
        }
        send(one, 1).await
    };
    let (first, second) = two_clients(&session, late, async move {
        let answer = send(two, 2).await;
        assert!(
            matches!(send(three, 2).await, Err(Halt::Over)),
            "it was not recorded"
        );
        answer
    })
    .unwrap();
    assert_eq!((first.unwrap(), second.unwrap()), (1, 2));
    assert_eq!(session.outcome(), Outcome::Over);
}

#[test]
fn primitives_are_named_and_typed() {
    let session = Session::record_in_memory("p", Keep::Order).unwrap();
    let root = session.root("main").unwrap().unwrap();
    root.run(|| (nondet("one", || 1u64), nondet("two", || "2".to_owned())));
    let bytes = session.finish_in_memory();
    let replayed = |work: fn() -> Result<u64, Halt>| {
        let session = replay(&bytes, None);
        let root = session.root("main").unwrap().unwrap();
        root.run(work)
    };
    assert_eq!(replayed(|| try_nondet("one", || 5)).unwrap(), 1);
    let other = diverges(replayed(|| try_nondet("three", || 5)));
    assert_eq!(other.kind, Kind::Primitive);
    let typed = diverges(replayed(|| {
        nondet("one", || 0u64);
        try_nondet("two", || [5; 9]).map(|value: [u8; 9]| value[0].into())
    }));
    assert_eq!(typed.kind, Kind::Value);
    let behind = replayed(|| {
        nondet("one", || 0u64);
        nondet("two", String::new);
        try_nondet("three", || 5)
    });
    assert!(matches!(behind, Err(Halt::Over)));
}

#[test]
fn a_branch_that_lost_is_stopped_where_it_was_given_up() {
    async fn main(session: Session, loser_goes_on: bool) -> Result<u64, Halt> {
        let lock = session.lock("lock", 0u64).unwrap();
        let loser = lock.clone();
        select("race", async { 1 }, async {
            let _held = loser.acquire().await;
            yield_now().await;
        })
        .await?;
        let winner = async {
            for _ in 0..if loser_goes_on { 50 } else { 1 } {
                yield_now().await;
            }
        };
        let held = lock.clone();
        let lost = async {
            loop {
                *held.acquire().await.unwrap() += 1;
                yield_now().await;
            }
        };
        select::<_, _>("loop", lost, winner).await.map(drop)?;
        Ok(*lock.acquire().await?)
    }
    let run = |session: &Session, more| {
        let executor = Executor::new(Box::new(|_| 0));
        let end = Arc::new(Slot::default());
        let (put, inner) = (end.clone(), session.clone());
        let root = session.root("main").unwrap().unwrap();
        executor.spawn(root.scope(async move { put.put(main(inner, more).await) }));
        assert!(executor.run_here());
        block_on(end.take()).unwrap()
    };
    let session = Session::record_in_memory("p", Keep::Order).unwrap();
    let recorded = run(&session, true);
    let bytes = session.finish_in_memory();
    // The winner comes much earlier; the other branch still does all that it did.
    assert_eq!(run(&replay(&bytes, None), false), recorded);
    assert!(recorded > 10);
}

#[test]
fn requests_from_outside_are_known_by_their_content() {
    let session = Session::record_in_memory("p", Keep::Order).unwrap();
    let serve = |session: &Session, contents: &[u64]| {
        let entry = session.exclusive("entry").unwrap();
        let executor = Executor::new(Box::new(|_| 0));
        let order: Arc<std::sync::Mutex<Vec<u64>>> = Arc::default();
        for content in contents.iter().copied() {
            let (entry, order) = (entry.clone(), order.clone());
            executor.spawn(async move {
                let handler = async { order.lock().unwrap().push(content) };
                entry
                    .serve(None, Some(Content(content)), handler)
                    .await
                    .unwrap();
            });
        }
        assert!(executor.run_here());
        order.lock().unwrap().clone()
    };
    assert_eq!(serve(&session, &[3, 1, 2, 1]), [3, 1, 2, 1]);
    let bytes = session.finish_in_memory();
    assert_eq!(serve(&replay(&bytes, None), &[1, 2, 1, 3]), [3, 1, 2, 1]);
}

#[test]
fn operations_outside_of_tasks_are_refused() {
    let session = Session::record_in_memory("p", Keep::Order).unwrap();
    assert!(matches!(try_nondet("one", || 1), Err(Halt::NoTask(_))));
    let lock = session.lock("lock", 0).unwrap();
    assert!(matches!(block_on(lock.acquire()), Err(Halt::NoTask(_))));
    assert!(matches!(session.root("main"), Ok(Some(_))));
    assert!(
        matches!(session.root("main"), Err(OpenError::Taken(..))),
        "a root has its name alone"
    );
}

#[test]
fn what_was_recorded_as_another_thing_is_refused() {
    let bytes = recorded();
    let session = replay(&bytes, None);
    assert!(matches!(
        session.entry_point("entry"),
        Err(OpenError::Kind(..))
    ));
    assert!(matches!(
        session.lock("entry", ()),
        Err(OpenError::Taken(..) | OpenError::Kind(..))
    ));
    let other = Session::replay_tapes(vec![Tape::parse(&bytes).unwrap()], "other", None);
    assert!(matches!(other, Err(OpenError::NoTape(_))));
}

#[test]
fn a_request_to_another_entry_point_of_its_group() {
    let run = |session: &Session, to_second: bool| {
        let group = session.group("group").unwrap();
        let entries = ["one", "two"].map(|name| group.entry_point(name).unwrap());
        let entry = entries[usize::from(to_second)].clone();
        block_on(session.run("main", send(entry, 1))).unwrap()
    };
    let session = Session::record_in_memory("p", Keep::Order).unwrap();
    run(&session, false).unwrap();
    let bytes = session.finish_in_memory();
    let divergence = diverges(run(&replay(&bytes, Some(LIMIT)), true));
    assert_eq!(divergence.kind, Kind::Entry);
    let text = divergence.to_string();
    assert!(
        text.contains("expected p/main:0 to one; actual: p/main:0 to two"),
        "{text}"
    );
}

#[test]
fn a_task_that_ends_otherwise() {
    let bytes = recorded();
    let session = replay(&bytes, None);
    let _entry = session.exclusive("entry").unwrap();
    // It ended by itself, and goes.
    drop(session.root("first").unwrap().unwrap().scope(async {}));
    let Outcome::Diverged(divergence) = session.outcome() else {
        panic!("it does not diverge");
    };
    assert_eq!(divergence.kind, Kind::Cancelled);
    assert_eq!(divergence.actual, "given up");

    let session = Session::record_in_memory("p", Keep::Order).unwrap();
    let root = session.root("main").unwrap().unwrap();
    let mut given_up = Box::pin(root.scope(async {
        nondet("one", || 1u64);
        std::future::pending::<()>().await;
    }));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(given_up.as_mut().poll(&mut cx).is_pending());
    drop(given_up);
    let session = replay(&session.finish_in_memory(), None);
    let root = session.root("main").unwrap().unwrap();
    assert_eq!(block_on(root.scope(async { nondet("one", || 2u64) })), 1);
    let Outcome::Diverged(divergence) = session.outcome() else {
        panic!("it does not diverge");
    };
    assert_eq!(divergence.kind, Kind::Cancelled);
    assert_eq!(divergence.actual, "ends by itself");
}

#[test]
fn made_up_requests_that_wait_are_bounded() {
    let session = replay(&recorded(), None);
    let entry = session.exclusive("entry").unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let made_up = |number| {
        let process = NameId::of("nobody");
        let task = TaskId {
            process,
            origin: Origin::Gate(process, number),
            path: Path::default(),
        };
        let id = RequestId { task, number };
        Header {
            id,
            content: None,
            epoch: u64::MAX,
            known: None,
        }
    };
    let mut waiting = Vec::new();
    let refused = (0..100_000).find_map(|number| {
        let (entry, header) = (entry.clone(), made_up(number));
        let mut request = Box::pin(async move { entry.serve(Some(&header), None, async {}).await });
        match request.as_mut().poll(&mut cx) {
            Poll::Pending => waiting.push(request),
            Poll::Ready(answer) => return Some((number, answer)),
        }
        None
    });
    let (number, Err(Halt::TooMuch(_))) = refused.unwrap() else {
        panic!("nobody is admitted");
    };
    assert_eq!(number, 1 << 16);
    // Requests that go make room, and the requests that are recorded come through.
    drop(waiting);
    let (one, two) = (entry.clone(), entry);
    let answers = two_clients(&session, send(one, 1), send(two, 2)).unwrap();
    assert_eq!((answers.0.unwrap(), answers.1.unwrap()), (1, 2));
    assert_eq!(session.outcome(), Outcome::Over);
}
