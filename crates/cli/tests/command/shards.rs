//! `relive hunt` in parts.

use std::path::Path;
use std::thread;

use crate::sandbox::{Outcome, Sandbox, text};

/// A part of a hunt with 40 runs, whose results are in the sandbox.
fn part(sandbox: &Sandbox, results: &str, shard: &str, script: &str) -> Outcome {
    sandbox.relive(&[
        "hunt",
        "-n",
        "40",
        "--seed",
        "7",
        "--results",
        results,
        "--shard",
        shard,
        "sh",
        "-c",
        script,
    ])
}

fn message(path: &Path) -> serde_json::Value {
    let text = std::fs::read(path).expect("the message is there");
    serde_json::from_slice(&text).expect("it is JSON")
}

#[test]
fn parts_share_the_runs_and_go_on_where_they_were() {
    let sandbox = Sandbox::new();
    let results = sandbox.path("results");
    let script = "echo >>runs";
    for shard in ["1/3", "2/3", "3/3", "3/3"] {
        let runs = if shard == "1/3" { 14 } else { 13 };
        let outcome = part(&sandbox, text(&results), shard, script).ok();
        let shard = shard.replace('/', " of ");
        assert_eq!(
            outcome.stdout,
            format!("no failure in {runs} runs of shard {shard}\n")
        );
    }
    let runs = std::fs::read_to_string(sandbox.path("runs")).expect("runs were made");
    assert_eq!(runs.lines().count(), 40);
    assert_eq!(message(&results.join("shards/3.json"))["done"], 13);
    part(&sandbox, text(&results), "1/2", script).refused("of another hunt");
    part(&sandbox, text(&results), "1/3", "true").refused("of another hunt");
}

#[test]
fn the_first_failure_ends_the_other_parts() {
    let sandbox = Sandbox::new();
    let results = sandbox.path("results");
    let url = format!("file://{}", results.display());
    // One of the parts finds it; the other one has runs that last for long.
    let script = "mkdir one 2>/dev/null && exec sleep 1000; test -e one/go && exit 3; touch one/go";
    let (mine, other) = thread::scope(|scope| {
        let other = scope.spawn(|| part(&sandbox, text(&results), "2/2", script));
        let mine = part(&sandbox, &url, "1/2", script);
        (mine, other.join().expect("it ends"))
    });
    let there = results.join("found.json");
    let found = message(&there);
    let (run, shard) = (found["run"].as_u64(), found["shard"].as_u64());
    let (run, shard) = (run.expect("a number"), shard.expect("a number"));
    assert_eq!((run - 1) % 2 + 1, shard);
    for outcome in [&mine, &other] {
        assert_eq!(outcome.code(), Some(1), "{outcome:#?}");
    }
    let [finder, told] = if shard == 1 {
        [mine, other]
    } else {
        [other, mine]
    };
    let begins = format!("run {run} failed: exit status 3 (");
    assert!(finder.stdout.starts_with(&begins), "{finder:#?}");
    let begins = format!("run {run} failed, in shard {shard} of 2: exit status 3 (");
    assert!(told.stdout.starts_with(&begins), "{told:#?}");
    let file = found["file"].as_str().expect("a name");
    sandbox.relive(&["unpack", text(&results.join(file))]).ok();
    assert_eq!(sandbox.relive(&["replay"]).code(), Some(3));
    // A part that comes later is told at once.
    let late = part(&sandbox, text(&results), "1/2", script);
    let late = (
        late.code(),
        late.stdout.contains(&format!("in shard {shard} of 2")),
    );
    assert_eq!(late, (Some(1), true));
}

#[test]
fn the_same_seed_gives_the_same_runs_in_one_part_or_in_several() {
    let sandbox = Sandbox::new();
    let script = "echo >>all; test $(wc -l <all) = 3 && exit 5; exit 0";
    let whole = sandbox.relive(&["hunt", "-n", "40", "--seed", "7", "sh", "-c", script]);
    assert_eq!(whole.code(), Some(1));
    let line = whole.stdout.lines().next().expect("a sentence").to_owned();
    assert!(
        line.starts_with("run 3 failed: exit status 5 (chaos seed "),
        "{line}"
    );
    std::fs::write(sandbox.path("all"), "\n\n").expect("written");
    let results = sandbox.path("results");
    let third = part(&sandbox, text(&results), "3/5", script);
    assert_eq!(third.stdout.lines().next(), Some(&*line));
}

#[test]
fn a_part_must_be_known() {
    let sandbox = Sandbox::new();
    let results = sandbox.path("results");
    part(&sandbox, text(&results), "/2", "true").refused("JOB_COMPLETION_INDEX");
    part(&sandbox, "s3://bucket/hunt", "1/2", "true").refused("--features cloud");
    let outcome = sandbox.relive(&["hunt", "--shard", "3/2", "--results", "x", "true"]);
    assert_eq!(outcome.code(), Some(2), "{outcome:#?}");
}
