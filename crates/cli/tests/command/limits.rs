//! Limits that the caller has set (`ulimit`). Where they are too small for Relive one sentence says so,
//! and it is never called a fault of Relive.

use std::process::Command;

use crate::sandbox::{Outcome, Sandbox, finish};

/// Runs `relive` behind a line of the shell that sets limits.
fn limited(sandbox: &Sandbox, limit: &str, words: &[&str]) -> Outcome {
    let relive = sandbox.command(words);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("{limit} && exec \"$@\""), "sh"])
        .arg(relive.get_program())
        .args(relive.get_args())
        .current_dir(relive.get_current_dir().unwrap());
    for (name, value) in relive.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    finish(shell)
}

#[test]
fn few_open_files_are_enough() {
    let sandbox = Sandbox::new();
    for soft in ["4", "5", "8", "9", "12"] {
        let limit = format!("ulimit -Sn {soft}");
        let record = ["record", "sh", "-c", "ulimit -Sn; /bin/true"];
        let recorded = limited(&sandbox, &limit, &record).ok();
        assert_eq!(recorded.stdout, format!("{soft}\n"));
        let replayed = limited(&sandbox, &limit, &["replay"]).ok();
        assert_eq!(replayed.stdout, recorded.stdout);
        limited(&sandbox, &limit, &["verify"]).ok();
        limited(&sandbox, &limit, &["run", "/bin/true"]).ok();
    }
}

#[test]
fn a_hard_limit_that_is_too_small_is_named() {
    let sandbox = Sandbox::new();
    limited(&sandbox, "ulimit -n 16", &["record", "/bin/true"]).ok();
    let small = "ulimit -n 9";
    // A privileged caller is above it.
    let outcome = limited(&sandbox, small, &["record", "/bin/true"]);
    if outcome.code() != Some(0) {
        outcome.refused("no more than 9 files may be open at once, and Relive needs 16");
    }
}

const WAYS: [&[&str]; 4] = [
    &["replay", "trace"],
    &["verify", "trace"],
    &["debug", "--at", "end", "--gdb", "/bin/true", "trace"],
    &["record", "-o", "new", "true"],
];

/// Each way under a limit works, or is refused with a sentence that contains `remedy`.
fn try_all(limit: &str, remedy: &str) {
    let sandbox = Sandbox::new();
    sandbox.relive(&["record", "-o", "trace", "true"]).ok();
    for way in WAYS {
        let _ = std::fs::remove_dir_all(sandbox.path("new"));
        let outcome = limited(&sandbox, &format!("ulimit {limit}"), way);
        let said = &outcome.stderr;
        assert!(!said.contains("RL3"), "{limit} {way:?} {outcome:#?}");
        assert!(!said.contains("panicked"), "{limit} {way:?} {outcome:#?}");
        match outcome.code() {
            Some(0) => {}
            Some(125) => assert!(said.contains(remedy), "{limit} {way:?} {outcome:#?}"),
            _ => panic!("{limit} {way:?} {outcome:#?}"),
        }
    }
}

#[test]
fn few_descriptors() {
    for most in [5, 8, 9, 10, 12, 14, 16, 18, 24] {
        try_all(&format!("-n {most}"), "ulimit -");
    }
}

#[test]
fn little_memory() {
    for kib in [4000, 100_000, 360_000] {
        try_all(&format!("-d {kib}"), "ulimit -d");
    }
}

#[test]
fn little_address_space() {
    for kib in [1_000_000, 100_000_000] {
        try_all(&format!("-v {kib}"), "ulimit -v");
    }
}
