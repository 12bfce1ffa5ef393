//! Output that is held back until the order of all before it is found: nobody sees any of a run that cannot be replayed.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::sandbox::{Sandbox, text, wait};
use crate::uniparallel::{finder_of, found};

const RECORD: [&str; 6] = [
    "record",
    "--mode=uniparallel",
    "--commit",
    "--stats=json",
    "-o",
    "trace",
];

fn compiled(sandbox: &Sandbox, source: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command");
    sandbox.compile(&folder.join(source), "program")
}

/// Each line comes when one more epoch is found, also where a thread that owes its tape something never makes a call.
#[test]
fn output_waits_for_its_epoch() {
    let sandbox = Sandbox::new();
    let program = compiled(&sandbox, "owes.c");
    let words = [&RECORD[..], &[text(&program), "12"]].concat();
    let mut command = sandbox.command(&words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut recorder = command.spawn().unwrap();
    let mut lines = BufReader::new(recorder.stdout.take().unwrap()).lines();
    for n in 0..12 {
        assert_eq!(lines.next().unwrap().unwrap(), n.to_string());
        // At the end they are put together.
        assert!(found(&sandbox) > n || n == 11, "{n}");
    }
    let mut stats = String::new();
    let mut stderr = recorder.stderr.take().unwrap();
    stderr.read_to_string(&mut stats).unwrap();
    assert!(wait(&mut recorder).success(), "{stats}");
    let line = stats.lines().find(|line| line.starts_with('{'));
    let stats: serde_json::Value = serde_json::from_str(line.unwrap()).unwrap();
    assert_eq!(stats["output"]["held back"], 12);
    assert!(sandbox.path("trace/exact/manifest.json").exists());
    let replayed = sandbox.relive(&["replay", "trace"]).ok();
    assert_eq!(replayed.stdout.lines().count(), 12);
}

#[test]
fn nothing_is_written_when_nobody_searches_any_more() {
    let sandbox = Sandbox::new();
    let program = compiled(&sandbox, "together.c");
    let words = [&RECORD[..], &[text(&program), "100000", "1000"]].concat();
    let mut command = sandbox.command(&words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut recorder = command.spawn().unwrap();
    let mut lines = BufReader::new(recorder.stdout.take().unwrap()).lines();
    for n in 0..8 {
        if lines.next().is_none() {
            let mut says = String::new();
            let mut stderr = recorder.stderr.take().unwrap();
            stderr.read_to_string(&mut says).unwrap();
            panic!("it has ended behind {n} lines: {says}");
        }
    }
    // SAFETY: a process that this test's recorder has started, and waits for.
    unsafe { libc::kill(finder_of(recorder.id()) as i32, libc::SIGKILL) };
    let behind = lines.count();
    assert!(behind < 8, "{behind} lines");
    let mut says = String::new();
    let mut stderr = recorder.stderr.take().unwrap();
    stderr.read_to_string(&mut says).unwrap();
    assert_eq!(wait(&mut recorder).code(), Some(125));
    assert!(says.contains("its output is held back"), "{says}");
    // What there is of it can be replayed.
    let replayed = sandbox.relive(&["replay", "trace"]);
    assert!(replayed.stdout.lines().count() >= 8, "{replayed:#?}");
}

#[test]
fn a_program_of_several_processes_is_refused() {
    let sandbox = Sandbox::new();
    let script = ["sh", "-c", "ls / | sort | tail -n 1; echo end"];
    let recorded = sandbox.relive(&[&RECORD[..], &script].concat());
    recorded.refused("[RL1]");
    let words = ["record", "--mode=sketch", "--commit", "true"];
    sandbox
        .relive(&words)
        .refused("--commit is for --mode uniparallel");
}
