//! A stranger's recording: the reach of its replay, and its messages where the recording's files
//! have changed.

use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::sandbox::{Outcome, Sandbox, finish, text, wait};

/// The commands that replay a recording, each in its own way.
const WAYS: [&[&str]; 3] = [
    &["replay"],
    &["verify"],
    &["debug", "--at", "end", "--gdb", "/bin/true"],
];

fn run(sandbox: &Sandbox, way: &[&str], trace: &Path) -> Outcome {
    sandbox.relive(&[way, &[text(trace)]].concat())
}

/// The largest copy of a trace: the C library, of which a replay needs every page that it uses.
fn largest(trace: &Path) -> PathBuf {
    let files = std::fs::read_dir(trace.join("files")).unwrap();
    let files = files.map(|e| e.unwrap().path());
    files.max_by_key(|f| f.metadata().unwrap().len()).unwrap()
}

/// The recording again, with copies of its own.
fn copy(sandbox: &Sandbox, trace: &Path) -> PathBuf {
    let copy = sandbox.path("copy");
    let _ = std::fs::remove_dir_all(&copy);
    let done = Command::new("cp").arg("-r").args([trace, &copy]).status();
    assert!(done.unwrap().success());
    copy
}

/// Changes a byte in the middle, and puts the time of the last change back.
fn flip(path: &Path) {
    let before = std::fs::metadata(path).unwrap();
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let (mut byte, at) = ([0], before.len() / 2);
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    let times = std::fs::FileTimes::new().set_modified(before.modified().unwrap());
    file.set_times(times).unwrap();
    let after = file.metadata().unwrap();
    assert_eq!(
        (before.len(), before.modified().unwrap()),
        (after.len(), after.modified().unwrap())
    );
}

fn cut(path: &Path) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
}

fn remove(path: &Path) {
    std::fs::remove_file(path).unwrap();
}

#[track_caller]
fn told(outcome: Outcome, trace: &Path, file: &Path) {
    let outcome = outcome.refused("damaged");
    let name = file.file_name().unwrap().to_str().unwrap();
    for part in [text(trace.file_name().unwrap()), name] {
        assert!(outcome.stderr.contains(part), "{part} {outcome:#?}");
    }
    assert!(!outcome.stderr.contains("[RL"), "{outcome:#?}");
}

#[test]
fn a_damaged_copy_is_told_by_its_name() {
    let sandbox = Sandbox::new();
    let recorded = sandbox.relive(&["record", "-o", "whole", "sh", "-c", "exit 3"]);
    assert_eq!(recorded.code(), Some(3), "{recorded:#?}");
    let whole = sandbox.path("whole");
    for damage in [flip, cut, remove] {
        let trace = copy(&sandbox, &whole);
        let file = largest(&trace);
        damage(&file);
        for way in WAYS {
            told(run(&sandbox, way, &trace), &trace, &file);
        }
    }
}

#[test]
fn a_copy_that_was_good_before_is_not_believed_when_it_was_changed() {
    let sandbox = Sandbox::new();
    sandbox.relive(&["record", "-o", "whole", "true"]).ok();
    let trace = copy(&sandbox, &sandbox.path("whole"));
    // A file that was changed just now is not noted as good.
    std::thread::sleep(Duration::from_millis(3100));
    run(&sandbox, WAYS[0], &trace).ok();
    let notes = std::fs::read_dir(sandbox.path("translations/copies")).unwrap();
    assert!(notes.count() > 0, "what is good is noted");
    run(&sandbox, WAYS[0], &trace).ok();
    let file = largest(&trace);
    flip(&file);
    for way in WAYS {
        told(run(&sandbox, way, &trace), &trace, &file);
    }
}

/// Ids of the processes whose parent is this one.
fn children(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap();
    let ids = all.filter_map(|e| e.unwrap().file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
        behind.split_whitespace().nth(1) == Some(&parent.to_string())
    })
    .collect()
}

/// The targets of a process's descriptors.
fn descriptors(id: u32) -> Vec<(i32, PathBuf)> {
    let all = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap();
    let numbers = all.filter_map(|e| e.unwrap().file_name().to_str()?.parse().ok());
    numbers
        .filter_map(|n: i32| {
            let leads = std::fs::read_link(format!("/proc/{id}/fd/{n}")).ok()?;
            Some((n, leads))
        })
        .collect()
}

#[test]
fn a_replay_has_none_of_its_callers_descriptors() {
    let sandbox = Sandbox::new();
    // More than a pipe holds: the replay waits in the middle of it.
    let script = "exec head -c 1000000 /dev/zero";
    finish(sandbox.command(&["record", "-o", "trace", "sh", "-c", script])).ok();
    let secret = sandbox.path("secret");
    std::fs::write(&secret, "nobody's business").unwrap();
    let relive = sandbox.command(&["replay", "trace"]);
    let mut child = Command::new("sh")
        .args(["-c", "exec 7<>secret 8<secret 0<secret \"$0\" replay trace"])
        .arg(relive.get_program())
        .current_dir(sandbox.path(""))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    // A host that stands in the middle of its output has begun to run the recording.
    let (host, open) = loop {
        assert!(started.elapsed() < Duration::from_secs(60), "no host");
        let mut waiting = children(child.id()).into_iter().filter(|id| {
            let wchan = std::fs::read_to_string(format!("/proc/{id}/syscall"));
            wchan.is_ok_and(|call| call.starts_with("1 0x1 "))
        });
        if let Some(host) = waiting.next() {
            break (host, descriptors(host));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    // The output that it waits to write is read, so that it ends.
    drop(child.stdout.take());
    wait(&mut child);
    assert!(open.len() > 3, "{open:?}");
    for (number, leads) in &open {
        assert_ne!(leads, &secret, "descriptor {number} of {host} {open:?}");
    }
    assert_eq!(
        std::fs::read_to_string(&secret).unwrap(),
        "nobody's business"
    );
}

/// Records the program that breaks out when it is replayed.
fn record_escape(sandbox: &Sandbox, what: &str, path: &Path) -> PathBuf {
    let trace = sandbox.path(what);
    let mut command = sandbox.command(&["record", "-o", text(&trace), "./escape", what]);
    // No other replay shall start with the translations that it writes.
    command.arg(path).env("RELIVE_CACHE_DIR", "");
    finish(command).ok();
    trace
}

#[test]
fn a_recording_that_breaks_out_reaches_nothing() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/escape.c");
    sandbox.compile(&source, "escape");
    let (there, new) = (sandbox.path("there"), sandbox.path("new"));
    std::fs::write(&there, "as it was").unwrap();
    let whats = [
        ("create", &new),
        ("append", &new),
        ("read", &there),
        ("unlink", &there),
        ("signal", &there),
        ("send", &there),
        ("inherited", &there),
    ];
    for (what, path) in whats {
        let trace = record_escape(&sandbox, what, path);
        assert!(!new.exists(), "{what}: recorded, it does nothing");
        for way in WAYS {
            let mut command = Command::new("sh");
            let relive = sandbox.command(way);
            command
                .args(["-c", "exec 7<>there \"$0\" \"$@\""])
                .arg(relive.get_program())
                .args(way)
                .arg(&trace)
                .env("RELIVE_CACHE_DIR", "")
                .current_dir(sandbox.path(""))
                .stdin(Stdio::null())
                // Whom it signals: Relive, and no one else.
                .process_group(0);
            let outcome = finish(command);
            assert_eq!(outcome.signal(), None, "{what} {way:?} {outcome:#?}");
            assert!(
                matches!(outcome.code(), Some(0 | 125)),
                "{what} {way:?} {outcome:#?}"
            );
            assert!(
                !outcome.stdout.contains(text(path)),
                "{what} {way:?} {outcome:#?}"
            );
            assert!(!new.exists(), "{what} {way:?} {outcome:#?}");
            let still = std::fs::read_to_string(&there).unwrap();
            assert_eq!(still, "as it was", "{what} {way:?}");
        }
    }
}
