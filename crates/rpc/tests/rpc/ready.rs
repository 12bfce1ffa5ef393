//! Each ready primitive: recorded in one process, replayed in another one at another time, with another
//! environment and other files, where it gives the same.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::executor::{Executor, Slot, block_on, yield_now};
use relive_rpc::{
    Either, Halt, Session, UniqueId, config, elapsed, file, fork, nondet, now, random,
    random_below, select, test, timeout, try_nondet, unique_id, var, vars,
};

/// The folder of the recording, and of the file that is read.
const FOLDER: &str = "RELIVE_RPC_TEST_READY";

/// How the world is.
const WORLD: &str = "RELIVE_RPC_TEST_WORLD";

fn folder() -> Option<std::path::PathBuf> {
    std::env::var_os(FOLDER).map(Into::into)
}

/// All that the program finds, as lines.
async fn finds(session: Session, executor: Executor) -> Result<Vec<String>, Halt> {
    let folder = folder().expect("the child has one");
    let begin = Instant::now();
    let mut found = Vec::new();
    found.push(format!("now {:?}", now()));
    found.push(format!("random {} {}", random(), random_below(1 << 40)));
    let id: UniqueId = unique_id();
    found.push(format!("id {id}"));
    found.push(format!(
        "var {:?} {:?}",
        var(WORLD),
        var("NO SUCH VARIABLE")
    ));
    found.push(format!("vars {:?}", vars("RELIVE_RPC_TEST_W")));
    let text = file(folder.join("file")).map(|bytes| String::from_utf8(bytes).unwrap());
    found.push(format!("file {text:?}"));
    let none = file(folder.join("appears later")).map_err(|error| error.kind());
    found.push(format!("no file {none:?}"));
    let limits = config("limits", || {
        let text =
            std::fs::read_to_string(folder.join("file")).map_err(|error| error.to_string())?;
        Err::<u64, _>(format!("{text} is no limit"))
    });
    found.push(format!("config {limits:?}"));
    let own: (u64, Option<String>) = nondet("own", || (other_bits(), std::env::var(WORLD).ok()));
    found.push(format!("own {own:?}"));
    found.push(format!("tried {}", try_nondet("tried", other_bits)?));

    // Which of three is first depends on the world, and so does whether one is in time.
    let world = std::env::var(WORLD).unwrap_or_default();
    let after = |turns: usize| async move {
        for _ in 0..turns {
            yield_now().await;
        }
        turns
    };
    let [a, b, c] = match world.as_str() {
        "one" => [9, 3, 9],
        _ => [1, 30, 1],
    };
    let first = relive_rpc::select!("three":
        _ = after(a) => "a",
        _ = after(b) => "b",
        _ = after(c) => "c",
    )?;
    found.push(format!("select! {first}"));
    let two = match select("two", after(a), after(b)).await? {
        Either::First(_) => "first",
        Either::Second(_) => "second",
    };
    found.push(format!("select {two}"));
    let sleep = async {
        after(5).await;
    };
    let in_time = timeout("time", sleep, after(b)).await?;
    found.push(format!("timeout {}", in_time.is_some()));

    // Two senders, and a result that is asked for before and after it is there.
    let (sender, mut receiver) = session.channel::<u64>("channel").unwrap();
    let done = Arc::new(Slot::default());
    for (at, turns) in [a, b].into_iter().enumerate() {
        let (sender, done) = (sender.clone(), done.clone());
        executor.spawn(fork(async move {
            after(turns).await;
            if sender.send(at as u64).await.is_ok() && at == 1 {
                done.put(());
            }
        }));
    }
    drop(sender);
    let mut order = Vec::new();
    let mut tests = Vec::new();
    let mut spawned = pin!(done.take());
    while order.len() < 2 {
        if tests.last() != Some(&true) {
            tests.push(test("done", spawned.as_mut()).await?.is_some());
        }
        order.extend(receiver.receive().await);
    }
    found.push(format!("channel {order:?}, done {tests:?}"));
    found.push(format!("elapsed {:?}", elapsed(begin)));
    Ok(found)
}

/// Others in each process.
fn other_bits() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Not a test by itself: prints its findings.
#[test]
fn ready_child() {
    let Some(folder) = folder() else {
        return;
    };
    let tape = folder.join("tapes");
    let session = match tape.exists() {
        true => Session::replay(&tape, "p", Some(Duration::from_secs(20))),
        false => Session::record(&tape, "p", relive_rpc::Keep::Order),
    };
    let session = session.unwrap();
    let setup = session.run_sync("setup", || var(WORLD)).unwrap();
    let executor = Executor::new(Box::new(|_| 0));
    let end = Arc::new(Slot::default());
    let (put, inner) = (end.clone(), finds(session.clone(), executor.clone()));
    let root = session.root("main").unwrap().unwrap();
    executor.spawn(root.scope(async move { put.put(inner.await) }));
    assert!(executor.run(1, Duration::from_secs(20)));
    let found = block_on(end.take()).unwrap();
    for line in found {
        println!("found {line}");
    }
    println!("found setup {setup:?}");
    session.finish().unwrap();
}

fn child(folder: &Path, world: &str) -> Vec<String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ready::ready_child", "--nocapture"])
        .env(FOLDER, folder)
        .env(WORLD, world)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines = text.lines().filter_map(|line| line.split_once("found "));
    lines.map(|(_, found)| found.to_owned()).collect()
}

#[test]
fn each_gives_what_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "first text").unwrap();
    let recorded = child(folder.path(), "one");
    for expected in [
        "var Some(\"one\") None",
        "vars {\"ORLD\": \"one\"}",
        "file Ok(\"first text\")",
        "no file Err(NotFound)",
        "config Err(ConfigError(\"first text is no limit\"))",
        "select! b",
        "select second",
        "timeout true",
        "channel [1, 0], done [false, true]",
        "setup Some(\"one\")",
    ] {
        assert!(
            recorded.iter().any(|line| line == expected),
            "{expected}: {recorded:?}"
        );
    }
    std::fs::write(&file, "another text").unwrap();
    std::fs::write(folder.path().join("appears later"), "text").unwrap();
    for world in ["one", "another"] {
        assert_eq!(child(folder.path(), world), recorded);
    }
    // A recording of that other world is another one.
    std::fs::remove_dir_all(folder.path().join("tapes")).unwrap();
    let other = child(folder.path(), "another");
    let same: Vec<_> = other
        .iter()
        .filter(|line| recorded.contains(line))
        .collect();
    assert!(same.is_empty(), "{same:?}");
}
