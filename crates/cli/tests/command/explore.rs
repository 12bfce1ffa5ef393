//! `relive explore`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::sandbox::{Outcome, Sandbox, text, wait};

/// Sketches that are recorded until the first order of one does not agree.
const RECORDINGS: usize = 30;
/// Attempts of a search without a pause.
const ATTEMPTS: &str = "120";

fn explore(sandbox: &Sandbox, words: &[&str]) -> Outcome {
    sandbox.relive(&[&["explore", "-j", "1"], words].concat())
}

/// Attempts that failed, of a search that found an order.
fn failed(outcome: &Outcome) -> Option<String> {
    let (_, rest) = outcome.stdout.split_once("(after ")?;
    let (failed, _) = rest.split_once(" that failed)")?;
    Some(failed.to_owned())
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(status.expect("cp").success());
}

/// A sketch whose first order does not agree, and a copy of it: their names.
fn sketch(sandbox: &Sandbox, program: &Path) -> (String, String) {
    for n in 0..RECORDINGS {
        let (name, other) = (format!("sketch-{n}"), format!("copy-{n}"));
        let at = |name: &str| sandbox.path(name);
        let words = ["record", "--mode=sketch", "--no-promoted", "-o", &name];
        sandbox
            .relive(&[&words[..], &[text(program)]].concat())
            .ok();
        copy(&at(&name), &at(&other));
        let first = explore(sandbox, &["-n", "1", &name]);
        match first.code() {
            Some(0) => continue,
            Some(1) => {
                let said = &first.stdout;
                assert!(
                    said.starts_with("no order that agrees in 1 attempt"),
                    "{first:#?}"
                );
                assert!(
                    said.contains("RL2") && said.contains("recorded:"),
                    "{first:#?}"
                );
                return (name, other);
            }
            _ => panic!("{first:#?}"),
        }
    }
    panic!("the first order of {RECORDINGS} sketches agrees");
}

#[test]
fn a_search_that_is_interrupted_ends_as_one_that_is_not() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/handover.c");
    let program = sandbox.compile(&source, "handover");
    let (name, other) = sketch(&sandbox, &program);
    let whole = explore(&sandbox, &["-n", ATTEMPTS, &other]);
    assert!(matches!(whole.code(), Some(0 | 1)), "{whole:#?}");

    // One attempt was made. An interrupt from the keyboard, which goes to the whole group, comes when the next one
    // has failed.
    let state = sandbox.path(&name).join("explored");
    let lines = || std::fs::read_to_string(&state).map_or(0, |text| text.lines().count());
    let before = lines();
    let mut command = sandbox.command(&["explore", "-j", "1", &name]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0);
    let mut child = command.spawn().unwrap();
    while lines() <= before && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: signals the group of the process that was started here, which has not been waited for.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGINT) };
    let status = wait(&mut child);
    let is_found = status.code() == Some(0);
    assert!(
        is_found || status.signal() == Some(libc::SIGINT),
        "{status}"
    );

    // And now two attempts at a time.
    let mut parts = explore(&sandbox, &["-n", "2", &name]);
    let most: usize = ATTEMPTS.parse().unwrap();
    for _ in 0..most {
        if parts.code() != Some(1) || lines() > 2 * most {
            break;
        }
        parts = explore(&sandbox, &["-n", "2", &name]);
    }
    if whole.code() == Some(1) {
        assert_eq!(parts.code(), Some(1), "{parts:#?}");
        return;
    }
    assert_eq!(parts.code(), Some(0), "{parts:#?}");
    if !is_found && parts.stdout.contains("found") {
        assert_eq!(failed(&parts), failed(&whole), "{parts:#?}");
    }
    assert!(!state.exists(), "what was tried is of no use any more");
    // Both have found the same order.
    let dump = |name: &str| sandbox.relive(&["dump", name]).ok().stdout;
    assert!(dump(&name) == dump(&other), "the orders differ");
    for name in [&name, &other] {
        sandbox.relive(&["verify", name]).ok();
        let replayed = sandbox.relive(&["replay", name]).ok();
        assert!(!replayed.stdout.is_empty(), "{replayed:#?}");
    }
    let again = explore(&sandbox, &[&name]).ok();
    assert_eq!(again.stdout, "the recording is exact already\n");
}

#[test]
fn the_order_of_one_process_of_several_is_searched_by_itself() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/handover.c");
    let program = sandbox.compile(&source, "handover");
    let tree = sandbox.path("tree");
    let line = format!("#!/bin/sh\n{p} && {p} && {p}\n", p = text(&program));
    std::fs::write(&tree, line).unwrap();
    std::fs::set_permissions(&tree, Permissions::from_mode(0o755)).unwrap();
    let (name, other) = sketch(&sandbox, &tree);
    // One at a time goes on where the one before ended.
    let one = explore(&sandbox, &["-n", "1", "--json", &name]);
    let (said, two) = (one.stdout, "\"attempts\":2");
    assert!(said.contains(two) || said.contains("true"), "{said}");
    let whole = sandbox.relive(&["explore", "-n", "300", "--explain", &other]);
    assert!(matches!(whole.code(), Some(0 | 1)), "{whole:#?}");
    assert!(whole.stderr.contains("thread p"), "{whole:#?}");
    if whole.code() == Some(0) {
        sandbox.relive(&["verify", &other]).ok();
        let replayed = sandbox.relive(&["replay", &other]).ok();
        assert!(!replayed.stdout.is_empty(), "{replayed:#?}");
    }
}

#[test]
fn first_replays_at_the_same_time_find_one_order() {
    let sandbox = Sandbox::new();
    sandbox
        .relive(&["record", "--mode=sketch", "-o", "sketch", "seq", "3"])
        .ok();
    let begin = |_| {
        let mut command = sandbox.command(&["replay", "sketch"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let replays: Vec<_> = (0..4).map(begin).collect();
    for mut replay in replays {
        wait(&mut replay);
        let output = replay.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout, b"1\n2\n3\n", "{output:?}");
    }
    sandbox.relive(&["verify", "sketch"]).ok();
}

#[test]
fn it_is_told_as_an_object() {
    let sandbox = Sandbox::new();
    sandbox.relive(&["record", "true"]).ok();
    let outcome = explore(&sandbox, &["--json"]).ok();
    let object: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(object["exact"], true);
    let outcome = sandbox
        .relive(&["explore", "--failing", "-n", "3", "--json"])
        .ok();
    let object: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(
        (&object["failed"], &object["attempts"]),
        (&false.into(), &3.into())
    );
    assert_eq!(sandbox.recordings(), ["true-0"]);
}

#[test]
fn a_failing_neighbour_is_found_in_the_surroundings_of_the_recording() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/lost_update.c");
    let program = sandbox.compile(&source, "lost_update");
    // The command is relative to a folder, and needs a variable.
    let folder = sandbox.path("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(
        folder.join("run"),
        "#!/bin/sh\n[ \"$NEEDED\" = yes ] || exit 0\nexec ../lost_update\n",
    )
    .unwrap();
    let recorded = (0..40).any(|_| {
        let mut command = sandbox.command(&["record", "sh", "./run"]);
        command.current_dir(&folder).env("NEEDED", "yes");
        command.output().unwrap().status.success()
    });
    assert!(recorded, "{} never passes", program.display());
    sandbox
        .relive(&["explore", "--failing", "-p", "7"])
        .refused("the recording has no process 7");
    let outcome = sandbox.relive(&["explore", "--failing"]);
    assert_eq!(outcome.code(), Some(1), "{outcome:#?}");
    assert!(
        outcome.stdout.contains("failed: exit status 1"),
        "{outcome:#?}"
    );
    let replayed = sandbox.relive(&["replay"]);
    assert_eq!(replayed.code(), Some(1), "{replayed:#?}");
    // That one has failed itself.
    sandbox
        .relive(&["explore", "--failing"])
        .refused("failed itself (exit status 1)");
}

/// Whichever of two searches finds the order, both say that it is found.
#[test]
fn one_beside_a_first_replay_finds_what_that_finds() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/together.c");
    let program = sandbox.compile(&source, "together");
    for n in 0..6 {
        let name = format!("both-{n}");
        let words = [
            "record",
            "--mode=sketch",
            "-o",
            &name,
            text(&program),
            "300",
        ];
        let recorded = sandbox.relive(&words).ok();
        let replay = sandbox.command(&["replay", &name]).spawn().unwrap();
        let explored = sandbox.relive(&["explore", "--time", "20", &name]);
        let replayed = replay.wait_with_output().unwrap();
        assert!(replayed.status.success(), "{name}: {replayed:?}");
        assert_eq!(explored.code(), Some(0), "{name}: {explored:#?}");
        let again = sandbox.relive(&["replay", &name]).ok();
        assert_eq!(again.stdout, recorded.stdout);
    }
}

/// How long the program ran stays in the recording, however long its order takes to find.
#[test]
fn a_recording_keeps_its_length() {
    let sandbox = Sandbox::new();
    let words = ["record", "--mode=sketch", "-o", "slept", "sleep", "0.7"];
    sandbox.relive(&words).ok();
    let length = || {
        let info = sandbox.relive(&["info", "--json", "slept"]).ok();
        let info: serde_json::Value = serde_json::from_str(&info.stdout).unwrap();
        info["wall_ms"].as_u64().unwrap()
    };
    let recorded = length();
    assert!(recorded >= 700, "{recorded} ms");
    sandbox.relive(&["replay", "slept"]).ok();
    assert_eq!(length(), recorded);
}
