//! The debug mode: state that is shared without an order of ours is found, and other state is not.

use std::sync::Arc;

use relive_rpc::{EntryPoint, Halt, Keep, Session, State, fork};

use crate::executor::{Executor, block_on, yield_now};

async fn add(entry: EntryPoint, state: State<u64>) -> Result<(), Halt> {
    let handler = async {
        let before = state.read(|value| *value);
        yield_now().await;
        state.change(|value| *value = before + 1);
    };
    entry.serve(None, None, handler).await
}

/// Findings of a few requests to the first, then to the second entry point.
fn findings(
    open: impl Fn(&Session) -> (EntryPoint, EntryPoint),
    also: impl FnOnce(&Session, &State<u64>),
) -> Vec<String> {
    let session = Session::record_in_memory("p", Keep::Order).unwrap();
    session.check();
    let state = session.state("total", 0u64).unwrap();
    // As a program begins: outside of every task, and in its main one.
    state.change(|value| *value = 1);
    let main = session.root("main").unwrap().unwrap();
    main.run(|| state.change(|value| *value = 2));
    let (first, second) = open(&session);
    let executor = Executor::new(Box::new(|_| 0));
    for entry in [&first, &first, &second, &second] {
        let (entry, state) = (entry.clone(), state.clone());
        executor.spawn(async { add(entry, state).await.unwrap() });
    }
    assert!(executor.run_here());
    also(&session, &state);
    let texts = session.findings().into_iter();
    texts.map(|finding| finding.to_string()).collect()
}

#[test]
fn handlers_that_run_side_by_side_are_found() {
    let side_by_side = |session: &Session| {
        let entry = session.entry_point("entry").unwrap();
        (entry.clone(), entry)
    };
    let found = findings(side_by_side, |_, _| ());
    assert_eq!(found.len(), 1, "each state once");
    let text = &found[0];
    for part in [
        "total is reached by p/entry#",
        "holding nothing",
        "orders them",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn two_exclusive_entry_points_are_found_and_a_group_is_not() {
    let two = |session: &Session| {
        let open = |name| session.exclusive(name).unwrap();
        (open("one"), open("two"))
    };
    let found = findings(two, |_, _| ());
    assert!(
        found[0].contains("holding one") && found[0].contains("holding two"),
        "{found:?}"
    );
    let group = |session: &Session| {
        let group = session.group("both").unwrap();
        let open = |name| group.entry_point(name).unwrap();
        (open("one"), open("two"))
    };
    assert!(findings(group, |_, _| ()).is_empty());
}

#[test]
fn a_lock_orders_and_what_is_done_without_it_does_not() {
    let group = |session: &Session| {
        let entry = session.exclusive("entry").unwrap();
        (entry.clone(), entry)
    };
    let worker = |session: &Session, state: &State<u64>| {
        let worker = session.root("worker").unwrap().unwrap();
        worker.run(|| state.change(|value| *value += 1));
    };
    let found = findings(group, worker);
    assert!(found[0].contains("p/worker holding nothing"), "{found:?}");

    let session = Session::record_in_memory("p", Keep::Order).unwrap();
    session.check();
    let lock = session.lock("lock", ()).unwrap();
    let state = session.state("total", 0u64).unwrap();
    let work = async |name| {
        let root = session.root(name).unwrap().unwrap();
        let locked = async {
            let _held = lock.acquire().await.unwrap();
            state.change(|value| *value += 1);
        };
        root.scope(locked).await;
    };
    block_on(async {
        work("one").await;
        work("two").await;
        work("three").await;
    });
    assert!(session.findings().is_empty(), "{:?}", session.findings());
}

#[test]
fn what_a_handler_starts_and_waits_for_is_its_own() {
    let session = Session::record_in_memory("p", Keep::Order).unwrap();
    session.check();
    let entry = session.exclusive("entry").unwrap();
    let state = Arc::new(session.state("total", 0u64).unwrap());
    for _ in 0..3 {
        let handler = async { fork(async { state.change(|value| *value += 1) }).await };
        block_on(entry.serve(None, None, handler)).unwrap();
    }
    assert!(session.findings().is_empty(), "{:?}", session.findings());
    // One that is still there after its handler is not.
    let mut late = None;
    let handler = async { late = Some(fork(async { state.change(|value| *value += 1) })) };
    block_on(entry.serve(None, None, handler)).unwrap();
    block_on(late.unwrap());
    assert_eq!(session.findings().len(), 1);
}
