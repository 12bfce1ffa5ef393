//! Positions: those that one command prints, others take; and parts of a replay of a tree of processes
//! with threads, cut anywhere.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::sandbox::{Sandbox, finish};

/// The recorded tree.
fn tree() -> Sandbox {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/tree.c");
    let program = sandbox.compile(&source, "tree");
    let outcome = sandbox.relive(&["record", program.to_str().unwrap()]);
    assert_eq!(outcome.code(), Some(24), "{outcome:#?}");
    sandbox
}

fn json(sandbox: &Sandbox, words: &[&str]) -> Vec<Value> {
    let outcome = sandbox.relive(words).ok();
    let lines = outcome.stdout.lines();
    lines.map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// The calls of `say` in a process: as objects, and as lines.
fn calls(sandbox: &Sandbox, process: &str) -> (Vec<Value>, Vec<String>) {
    let words = ["calls", "say", "--process", process];
    let objects = json(sandbox, &[&words[..], &["--json"]].concat());
    let lines = sandbox.relive(&words).ok().stdout;
    (objects, lines.lines().map(str::to_owned).collect())
}

#[test]
fn the_end_is_a_place_to_go_to() {
    let sandbox = tree();
    for process in ["0", "2"] {
        let words = ["backtrace", "--json", "--process", process, "--at"];
        let end = &json(&sandbox, &[&words[..], &["end"]].concat())[0];
        let at = end["at"].as_str().unwrap();
        let same = &json(&sandbox, &["backtrace", "--json", "--at", at])[0];
        assert_eq!(same, end, "{at}");
    }
}

#[test]
fn what_is_printed_is_a_place_to_go_to() {
    let sandbox = tree();
    for process in ["0", "2"] {
        let (objects, lines) = calls(&sandbox, process);
        assert!(objects.len() >= 24, "p{process}: {lines:#?}");
        for n in [0, objects.len() / 2] {
            let place = &objects[n]["place"];
            let at = place["at"].as_str().unwrap();
            for there in [at, lines[n].as_str()] {
                // The process is said by the position.
                let stack = &json(&sandbox, &["backtrace", "--json", "--at", there])[0];
                assert_eq!(stack["process"].to_string(), process, "{there}: {stack}");
                assert_eq!(stack["event"], place["event"], "{there}: {stack}");
                assert_eq!(stack["tick"], place["tick"], "{there}: {stack}");
                let thread = &stack["threads"][0];
                assert_eq!(thread["thread"], place["thread"], "{there}: {stack}");
                assert_eq!(thread["frames"][0]["pc"], place["pc"], "{there}: {stack}");
                assert_eq!(thread["frames"][0]["symbol"], "say", "{there}: {stack}");
                // And the position that this command prints leads to the same place again.
                let again = stack["at"].as_str().unwrap();
                let same = &json(&sandbox, &["backtrace", "--json", "--at", again])[0];
                assert_eq!(same, stack, "{there} {again}");
            }
            // The last write before that call is the one of the call before.
            if n > 0 {
                let var = ["last-write", "--json", "--var", "done", "--before", at];
                let write = &json(&sandbox, &var)[0];
                let before = write["place"]["event"].as_u64().unwrap();
                assert!(before <= place["event"].as_u64().unwrap(), "{write}");
                assert_eq!(write["place"]["process"].to_string(), process, "{write}");
            }
        }
    }
}

#[test]
fn positions_that_there_are_not_are_said_to_be_none() {
    let sandbox = tree();
    for (at, text) in [
        ("99999999:1", "the process has fewer events"),
        ("20:99999999", "the recording has no position"),
        ("20:0/t77", "the recording has no position"),
        ("1:0", "before the beginning of the process"),
    ] {
        sandbox.relive(&["backtrace", "--at", at]).refused(text);
    }
    let other = sandbox.relive(&["backtrace", "--process", "0", "--at", "20:1/p1.t0"]);
    other.refused("another process");
    let wrong = sandbox.relive(&["backtrace", "--at", "20:"]);
    assert_eq!(wrong.code(), Some(2), "{wrong:#?}");
}

#[test]
fn parts_of_a_tree_make_up_the_whole() {
    let sandbox = tree();
    for process in ["0", "1", "2", "3"] {
        let whole = sandbox.relive(&["replay", "--process", process]);
        assert!(whole.stdout.lines().count() >= 24, "{whole:#?}");
        let (objects, _) = calls(&sandbox, process);
        let event = |n: usize| objects[n]["place"]["event"].to_string();
        let at = |n: usize| objects[n]["place"]["at"].as_str().unwrap().to_owned();
        let cuts = [event(2), at(5), at(9), event(12), at(objects.len() - 1)];
        let mut all = String::new();
        let mut from = "start".to_owned();
        for cut in cuts.iter().map(String::as_str).chain(["end"]) {
            let words = ["replay", "--process", process, "--from", &from, "--to", cut];
            let part = sandbox.relive(&words);
            let code = if cut == "end" { whole.code() } else { Some(0) };
            assert_eq!(part.code(), code, "{words:?}: {part:#?}");
            all.push_str(&part.stdout);
            from = cut.to_owned();
        }
        assert_eq!(all, whole.stdout, "p{process}");
        let back = [
            "replay",
            "--process",
            process,
            "--from",
            &cuts[2],
            "--to",
            &cuts[1],
        ];
        sandbox.relive(&back).refused("is before --from");
        let nothing = [
            "replay",
            "--process",
            process,
            "--from",
            &cuts[1],
            "--to",
            &cuts[1],
        ];
        assert_eq!(sandbox.relive(&nothing).ok().stdout, "");
    }
}

#[test]
fn snapshots_of_any_process_of_a_tree_go_on_side_by_side() {
    let sandbox = tree();
    for process in ["0", "1", "2", "3"] {
        let (objects, _) = calls(&sandbox, process);
        let events = [4, 11, 18].map(|n| format!("event {}", objects[n]["place"]["event"]));
        let stop = format!("break {}", objects[0]["place"]["pc"]);
        let orders = [
            &events[0], "keep", &events[1], &stop, "continue", "step 9", "keep", &events[2],
            "keep", "race", "kept 2", "step 40", "back", "race", "clear", "end", "checksum",
        ];
        let path = sandbox.path("orders");
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(orders.join("\n").as_bytes()).unwrap();
        let mut command = sandbox.command(&["travel", "--process", process]);
        command.stdin(Stdio::from(std::fs::File::open(path).unwrap()));
        let outcome = finish(command).ok();
        let answers: Vec<&str> = outcome.stdout.lines().collect();
        let end = format!("Ended {}", answers.last().unwrap());
        let three = [&end[..]; 3].join(", ");
        assert_eq!(answers[9], three, "p{process}: {answers:#?}");
        assert_eq!(answers[13], three, "p{process}: {answers:#?}");
    }
}
