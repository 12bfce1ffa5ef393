//! `--stats`: counters of all processes of a tree.

use serde_json::Value;

use crate::sandbox::{Outcome, Sandbox};

/// A shell with a fork, an exec and a child that is killed.
const SCRIPT: &str = "/bin/true; (kill -KILL $(exec sh -c 'echo $PPID')); /bin/true; exit 0";

/// The object that `--stats=json` prints as the only line.
fn stats(outcome: Outcome) -> Value {
    let outcome = outcome.ok();
    let object = outcome.stderr.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(object.unwrap_or_else(|| panic!("{outcome:#?}"))).unwrap()
}

fn number(stats: &Value, section: &str, name: &str) -> u64 {
    let found = stats[section][name].as_u64();
    found.unwrap_or_else(|| panic!("no {section}/{name} in {stats:#}"))
}

#[test]
fn a_replay_counts_the_events_of_its_recording() {
    let sandbox = Sandbox::new();
    let recorded = stats(sandbox.relive(&["record", "--stats=json", "sh", "-c", SCRIPT]));
    assert!(number(&recorded, "translation", "fragments") > 100);
    assert!(number(&recorded, "translation", "bytes of code") > 1000);
    assert!(number(&recorded, "translation", "links") > 100);
    assert!(number(&recorded, "translation", "nanoseconds") > 0);
    assert!(number(&recorded, "indirect_misses", "returns") > 0);
    assert!(number(&recorded, "exits", "system call") > 50);
    // The first program, two that it starts, and the one inside of the killed subshell.
    assert!(number(&recorded, "system_calls", "execve") >= 3);
    assert_eq!(number(&recorded, "translation", "processes not counted"), 0);
    let (raw, stored) = (
        number(&recorded, "trace", "bytes before compression"),
        number(&recorded, "trace", "bytes after compression"),
    );
    assert!(raw > stored && stored > 0, "{recorded:#}");
    let all: u64 = recorded["events"]
        .as_object()
        .unwrap()
        .values()
        .map(|n| n.as_u64().unwrap())
        .sum();
    assert_eq!(all, number(&recorded, "trace", "events"));

    let replayed = stats(sandbox.relive(&["replay", "--stats=json"]));
    assert_eq!(replayed["events"], recorded["events"]);
    // A call that never returns is counted where it is made.
    let calls = |stats: &Value| {
        let mut calls = stats["system_calls"].as_object().unwrap().clone();
        calls.remove("kill");
        calls
    };
    assert_eq!(calls(&replayed), calls(&recorded));
    assert!(replayed.get("trace").is_none());

    let verified = stats(sandbox.relive(&["verify", "--stats=json"]));
    let twice = |section: &str, name: &str| {
        assert_eq!(
            number(&verified, section, name),
            2 * number(&replayed, section, name)
        );
    };
    twice("events", "system call");
    twice("system_calls", "execve");
}

#[test]
fn a_program_that_is_only_run_is_counted_and_ends_as_it_ends() {
    let sandbox = Sandbox::new();
    let script = "/bin/true; /bin/echo out; exit 0";
    let outcome = sandbox.relive(&["run", "--stats=json", "sh", "-c", script]);
    assert_eq!(outcome.stdout, "out\n");
    let counted = stats(outcome);
    assert!(number(&counted, "system_calls", "execve") >= 2);
    assert!(number(&counted, "translation", "processes") >= 3);
    let outcome = sandbox.relive(&["run", "--stats", "sh", "-c", "exit 7"]);
    assert_eq!(outcome.code(), Some(7));
    assert!(outcome.stderr.contains("system calls\n"), "{outcome:#?}");
    let outcome = sandbox.relive(&["run", "--stats", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(outcome.signal(), Some(15));
    let quiet = sandbox.relive(&["record", "sh", "-c", "exit 0"]).ok();
    assert_eq!(quiet.stderr, "");
}

#[test]
fn a_hunt_adds_up_its_runs() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.relive(&["hunt", "-n", "3", "--stats=json", "/bin/true"]);
    let hunted = stats(outcome);
    assert_eq!(number(&hunted, "translation", "processes"), 3);
    assert_eq!(number(&hunted, "events", "end"), 3);
}
