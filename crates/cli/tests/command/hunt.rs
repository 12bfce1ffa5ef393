//! `relive hunt`.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

use crate::sandbox::{Sandbox, text, wait};

#[test]
fn a_program_that_does_not_fail_leaves_nothing() {
    let sandbox = Sandbox::new();
    sandbox.relive(&["record", "true"]).ok();
    let before = sandbox.latest();
    let outcome = sandbox
        .relive(&["hunt", "-n", "4", "sh", "-c", "echo noise; echo noise >&2"])
        .ok();
    assert_eq!(
        (&*outcome.stdout, &*outcome.stderr),
        ("no failure in 4 runs\n", "")
    );
    assert_eq!(sandbox.recordings(), ["true-0"]);
    assert_eq!(sandbox.latest(), before);
}

#[test]
fn a_failing_run_is_kept_and_replays() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.relive(&["hunt", "--", "sh", "-c", "echo why; exit 3"]);
    assert_eq!(outcome.code(), Some(1), "{outcome:#?}");
    assert!(
        outcome
            .stdout
            .starts_with("run 1 failed: exit status 3 (fair schedule)\nkept as sh-0, "),
        "{outcome:#?}"
    );
    assert!(outcome.stdout.contains("replay sh-0"), "{outcome:#?}");
    assert_eq!(sandbox.recordings(), ["sh-0"]);
    let replayed = sandbox.relive(&["replay"]);
    assert_eq!((replayed.code(), &*replayed.stdout), (Some(3), "why\n"));
}

#[test]
fn a_later_failure_is_found_and_the_other_runs_are_removed() {
    let sandbox = Sandbox::new();
    let script = "echo x >>runs; test $(wc -l <runs) -lt 3";
    let outcome = sandbox.relive(&["hunt", "sh", "-c", script]);
    assert_eq!(outcome.code(), Some(1), "{outcome:#?}");
    assert!(
        outcome
            .stdout
            .starts_with("run 3 failed: exit status 1 (chaos seed "),
        "{outcome:#?}"
    );
    assert_eq!(sandbox.recordings().len(), 1);
    assert_eq!(sandbox.relive(&["replay"]).code(), Some(1));
}

#[test]
fn a_signal_and_a_hang_are_failures() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.relive(&["hunt", "sh", "-c", "kill -SEGV $$"]);
    assert_eq!(outcome.code(), Some(1));
    assert!(
        outcome
            .stdout
            .starts_with("run 1 failed: killed by SIGSEGV"),
        "{outcome:#?}"
    );
    let outcome = sandbox.relive(&[
        "hunt",
        "--timeout",
        "300ms",
        "sh",
        "-c",
        "echo begun; sleep 1000",
    ]);
    assert_eq!(outcome.code(), Some(1));
    assert!(
        outcome
            .stdout
            .starts_with("run 1 failed: still running after 300 ms"),
        "{outcome:#?}"
    );
    let replayed = sandbox.relive(&["replay"]);
    assert_eq!(
        (replayed.signal(), &*replayed.stdout),
        (Some(libc::SIGKILL), "begun\n"),
        "{replayed:#?}"
    );
}

#[test]
fn a_race_is_found() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bank.c");
    let program = sandbox.compile(&source, "bank");
    let outcome = sandbox.relive(&["hunt", "-n", "200", text(&program)]);
    assert_eq!(outcome.code(), Some(1), "{outcome:#?}");
    assert!(
        outcome.stdout.contains("failed: exit status 1"),
        "{outcome:#?}"
    );
    let first = sandbox.relive(&["replay"]);
    assert!(
        first.code() == Some(1) && first.stdout.contains("WRONG"),
        "{first:#?}"
    );
    let second = sandbox.relive(&["replay"]);
    assert_eq!((second.code(), second.stdout), (Some(1), first.stdout));
}

/// The standard library is linked into it, and has accesses of its own.
#[test]
fn a_race_of_a_rust_program_is_found() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/races/lost_update_rust.rs");
    let program = sandbox.path("lost_update_rust");
    let compiler = std::process::Command::new("rustc")
        .args(["-g", "-o", text(&program), text(&source)])
        .status();
    if compiler.is_ok_and(|status| status.success()) {
        let outcome = sandbox.relive(&["hunt", "-n", "100", text(&program)]);
        assert_eq!(outcome.code(), Some(1), "{outcome:#?}");
    }
}

#[test]
fn a_thread_that_spins_is_not_let_to_wait_for_ever() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/spins.c");
    let program = sandbox.compile(&source, "spins");
    let hunt = ["hunt", "-n", "24", "--seed", "1", "--timeout", "30s"];
    let outcome = sandbox
        .relive(&[&hunt[..], &[text(&program)]].concat())
        .ok();
    assert_eq!(outcome.stdout, "no failure in 24 runs\n");
}

#[test]
fn threads_that_wait_for_each_other_are_told_at_once() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/waits.c");
    let program = sandbox.compile(&source, "waits");
    let hunt = |how| sandbox.relive(&["hunt", "-n", "1", "--timeout", "50s", text(&program), how]);
    let circle = hunt("circle");
    assert_eq!(circle.code(), Some(1), "{circle:#?}");
    let sentence = &circle.stdout;
    let waits = sentence.matches(" waits for a lock of waits (").count();
    assert!(
        sentence.starts_with("run 1 failed: deadlock: waits (") && waits == 2,
        "{circle:#?}"
    );
    assert_eq!(sandbox.relive(&["replay"]).signal(), Some(libc::SIGKILL));
    let info = sandbox.relive(&["info"]).ok().stdout;
    let failed = info.lines().find(|line| line.starts_with("failed "));
    let says_why = |line: &str| line.contains("deadlock: waits (");
    assert!(failed.is_some_and(says_why), "{info}");
    let cross = hunt("cross");
    assert_eq!(cross.code(), Some(1), "{cross:#?}");
    // The one that came last to its lock, too.
    let stacks = sandbox.relive(&["backtrace", "--all"]).ok().stdout;
    let threads: Vec<&str> = stacks.split("\n\n").collect();
    let waits = |thread: &&&str| thread.contains("lll_lock_wait") && thread.contains("crosswise");
    assert_eq!(threads.iter().filter(waits).count(), 2, "{stacks}");
    let info = sandbox.relive(&["info"]).ok().stdout;
    assert_eq!(info.matches("  asleep").count(), 2, "{info}");
    let alone = hunt("alone");
    assert!(
        alone
            .stdout
            .starts_with("run 1 failed: deadlock: its only thread waits"),
        "{alone:#?}"
    );
    let alarm = hunt("alarm").ok();
    assert_eq!(alarm.stdout, "no failure in 1 run\n");
}

#[test]
fn threads_on_all_cores_fail_too() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/waits.c");
    let program = sandbox.compile(&source, "waits");
    let words = [
        "hunt",
        "--mode",
        "sketch",
        "-n",
        "2",
        text(&program),
        "circle",
    ];
    let outcome = sandbox.relive(&words);
    assert_eq!(outcome.code(), Some(1), "{outcome:#?}");
    let first = outcome.stdout.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("run 1 failed: deadlock: ") && first.ends_with("(threads on all cores)"),
        "{outcome:#?}"
    );
    let info = sandbox.relive(&["info"]).ok();
    assert!(info.stdout.contains("all cores"), "{info:#?}");
    // A seed decides where threads pause.
    let words = ["hunt", "--mode", "sketch", "--seed", "1", "-n", "2", "true"];
    let outcome = sandbox.relive(&words).ok();
    assert_eq!(outcome.stdout, "no failure in 2 runs\n");
}

/// A thread that is about to pause is needed at rest by one that forks.
#[test]
fn threads_that_pause_can_be_stopped() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/needed.c");
    let program = sandbox.compile(&source, "needed");
    let words = ["hunt", "--mode", "sketch", "--seed", "3", "-n", "24"];
    let said = sandbox
        .relive(&[&words[..], &[text(&program)]].concat())
        .ok();
    assert!(said.stdout.contains("no failure"), "{said:#?}");
}

#[test]
fn runs_at_the_same_time_end_with_the_first_that_fails() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.relive(&["hunt", "-j", "3", "-n", "7", "true"]).ok();
    assert_eq!(outcome.stdout, "no failure in 7 runs\n");
    assert_eq!(sandbox.recordings(), [""; 0]);
    // One run would sleep for long.
    let script = "mkdir one && exec sleep 1000; exit 3";
    let outcome = sandbox.relive(&["hunt", "-j", "2", "sh", "-c", script]);
    assert_eq!(outcome.code(), Some(1), "{outcome:#?}");
    assert!(
        outcome.stdout.contains("failed: exit status 3"),
        "{outcome:#?}"
    );
    assert_eq!(sandbox.recordings().len(), 1);
    assert_eq!(sandbox.relive(&["replay"]).code(), Some(3));
}

#[test]
fn an_interrupt_ends_the_hunt_and_leaves_nothing() {
    for jobs in ["1", "2"] {
        // From the keyboard; and from whoever ends a job, to the hunt alone.
        interrupted(jobs, libc::SIGINT, -1);
        interrupted(jobs, libc::SIGTERM, 1);
        interrupted(jobs, libc::SIGHUP, 1);
    }
}

fn interrupted(jobs: &str, signal: i32, sign: i32) {
    let sandbox = Sandbox::new();
    let script = "echo >begun; exec sleep 1000";
    let mut command = sandbox.command(&["hunt", "-j", jobs, "sh", "-c", script]);
    command
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    while !sandbox.path("begun").exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    // SAFETY: signals the processes that were started here.
    unsafe { libc::kill(sign * child.id() as i32, signal) };
    let status = wait(&mut child);
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(signal),
        "{status}"
    );
    assert_eq!(sandbox.recordings(), [""; 0]);
}
