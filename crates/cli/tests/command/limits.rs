//! Surroundings that are too small for Relive: one sentence says so, and it is never called a fault
//! of Relive.

use std::process::Command;

use crate::sandbox::{Outcome, Sandbox, finish};

/// `relive` with these words under a limit of the shell's.
fn limited(sandbox: &Sandbox, limit: &str, words: &[&str]) -> Outcome {
    let relive = sandbox.command(words);
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("ulimit {limit} && exec \"$0\" \"$@\""))
        .arg(relive.get_program())
        .args(words)
        .current_dir(sandbox.path(""))
        .env("RELIVE_CACHE_DIR", "");
    finish(command)
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
        let outcome = limited(&sandbox, limit, way);
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
        try_all(&format!("-n {most}"), "open files");
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
