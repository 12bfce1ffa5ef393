//! A part of a recording answers as the whole does, from its beginning on, and says where that is. Damage to
//! its beginning is an error, never another answer.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, text};
use crate::travel::orders;

/// A recording `whole` of one of the small programs, which ends so.
fn recorded(source: &str, code: i32) -> (Sandbox, String) {
    recorded_in("serial", source, code)
}

/// The same in this mode.
fn recorded_in(mode: &str, source: &str, code: i32) -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/command")
        .join(source);
    let program = sandbox.compile(&source, "program");
    let outcome = sandbox.relive(&["record", "--mode", mode, "-o", "whole", text(&program)]);
    assert_eq!(outcome.code(), Some(code), "{outcome:#?}");
    (sandbox, outcome.stdout)
}

fn split(sandbox: &Sandbox, words: &[&str]) -> Value {
    let words = [&["split", "whole", "--json", "-o", "part"], words].concat();
    let _ = std::fs::remove_dir_all(sandbox.path("part"));
    let made = sandbox.relive(&words).ok();
    serde_json::from_str(&made.stdout).unwrap()
}

/// Its own words stand before the program's.
fn output_of(stderr: &str) -> String {
    let others = stderr.lines().filter(|line| !line.starts_with("relive: "));
    others.map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_part_answers_as_the_whole_does() {
    let (sandbox, output) = recorded("travel.c", 7);
    for from in ["40", "60", "90"] {
        let made = split(&sandbox, &["--from", from]);
        assert_eq!(made["processes"], 1, "{made}");
        let at = format!("event {from}");
        let ways: [&[&str]; 3] = [
            &[&at, "checksum", "event 110", "checksum", "end", "checksum"],
            &[
                "end",
                "back",
                "back",
                "step",
                "checksum",
                "event 100",
                "step 9",
                "back",
                "checksum",
            ],
            &["end", "event 105", "checksum", "continue", "checksum"],
        ];
        for way in ways {
            assert_eq!(
                orders(&sandbox, &["part"], way),
                orders(&sandbox, &["whole"], way)
            );
        }
        // Back to its beginning, and no further.
        let back = ["start", "back", "reverse", "event 3", "checksum"];
        let answers = orders(&sandbox, &["part"], &back);
        assert!(
            answers[1..4]
                .iter()
                .all(|a| a.starts_with("Start ") || a.starts_with("There "))
        );
        let begin = orders(&sandbox, &["whole"], &[&at, "checksum"]);
        assert_eq!(answers[4], begin[1]);
        sandbox.relive(&["verify", "part"]).ok();
        let replayed = sandbox.relive(&["replay", "part"]);
        assert_eq!(replayed.code(), Some(7));
        assert!(output.ends_with(&replayed.stdout), "{replayed:#?}");
        assert!(replayed.stderr.contains("output before it is not repeated"));
        assert_eq!(output_of(&replayed.stderr), "");
    }
    let early = sandbox.relive(&["replay", "part", "--from", "3"]);
    assert!(early.stderr.contains("this is its beginning"), "{early:#?}");
}

#[test]
fn every_command_knows_where_a_part_begins_and_ends() {
    let (sandbox, output) = recorded("travel.c", 7);
    split(&sandbox, &["--from", "60", "--to", "110"]);
    let info = sandbox.relive(&["info", "part"]).ok().stdout;
    assert!(
        info.contains("from behind event 60 of p0 to where it was cut"),
        "{info}"
    );
    let info: Value =
        serde_json::from_str(&sandbox.relive(&["info", "--json", "part"]).ok().stdout).unwrap();
    let window = json!({ "processes": [{ "process": 0, "event": 60 }], "cut": true });
    assert_eq!((&info["window"], &info["wall_ms"]), (&window, &Value::Null));
    assert_eq!(info["format"], "2.1");
    let verified = sandbox.relive(&["verify", "part"]).ok().stdout;
    assert!(verified.contains("where it was cut"), "{verified}");
    let replayed = sandbox.relive(&["replay", "part"]).ok();
    assert!(output.contains(&replayed.stdout) && output.len() > replayed.stdout.len());
    let end = orders(&sandbox, &["part"], &["end", "checksum"]);
    let whole = orders(&sandbox, &["whole"], &["event 110", "checksum"]);
    assert_eq!(end[1], whole[1]);
    // The same events by the same numbers.
    let dump = |name: &str| {
        let words = ["dump", name, "--process", "0", "--from", "62", "--to", "80"];
        sandbox.relive(&words).ok().stdout
    };
    assert!(!dump("part").is_empty());
    assert_eq!(dump("part"), dump("whole"));
    // The address of a variable that is never written from there on.
    let text_at = output.split(' ').nth(1).unwrap();
    let write = sandbox
        .relive(&["last-write", "part", "--addr", text_at])
        .ok()
        .stdout;
    assert!(
        write.contains("the last write is before it begins"),
        "{write}"
    );
    let words = ["backtrace", "--at", "60"];
    let trace = |name| sandbox.relive(&[&words[..], &[name]].concat()).ok().stdout;
    assert_eq!(trace("part"), trace("whole"));
    sandbox
        .relive(&["index", "part", "--images", "3", "--check"])
        .ok();
    sandbox.relive(&["pack", "part", "-o", "part.tar.zst"]).ok();
    sandbox
        .relive(&["unpack", "part.tar.zst", "-o", "again"])
        .ok();
    sandbox.relive(&["verify", "again"]).ok();
    assert_eq!(trace("again"), trace("whole"));
    // A part of the part.
    sandbox
        .relive(&["split", "part", "--from", "80", "-o", "less"])
        .ok();
    sandbox.relive(&["verify", "less"]).ok();
    assert_eq!(orders(&sandbox, &["less"], &["end", "checksum"]), end);
}

#[test]
fn a_part_up_to_a_crash_has_the_crash() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/crash_late.c");
    let program = sandbox.compile(&source, "program");
    let outcome = sandbox.relive(&["record", "-o", "whole", text(&program)]);
    assert_eq!(outcome.signal(), Some(11), "{outcome:#?}");
    split(&sandbox, &["--from", "40", "--to", "crash"]);
    let ask = |words: &[&str], name| {
        let output = sandbox.relive(&[words, &[name]].concat()).ok().stdout;
        // What it wrote, and where it died.
        assert!(output.contains("main"), "{output}");
        output
    };
    let words = ["last-write", "--var", "place"];
    assert_eq!(ask(&words, "part"), ask(&words, "whole"));
    let words = ["backtrace", "--at", "crash"];
    assert_eq!(ask(&words, "part"), ask(&words, "whole"));
}

#[test]
fn a_tree_begins_with_all_its_processes() {
    let (sandbox, output) = recorded("tree.c", 24);
    let mut most = 0;
    for (process, from) in [
        ("0", "40"),
        ("0", "60"),
        // In front of the first event of its process.
        ("1", "1"),
        ("1", "70"),
        ("1", "90"),
        ("2", "start"),
    ] {
        let words = [
            "split", "whole", "-o", "part", "--json", "-p", process, "--from", from,
        ];
        let _ = std::fs::remove_dir_all(sandbox.path("part"));
        let made = sandbox.relive(&words);
        if made.code() != Some(0) {
            assert!(made.stderr.contains("nothing follows"), "{made:#?}");
            continue;
        }
        let made: Value = serde_json::from_str(&made.stdout).unwrap();
        most = most.max(made["processes"].as_u64().unwrap());
        let verified = sandbox.relive(&["verify", "part"]);
        assert_eq!(verified.code(), Some(0), "{made}: {verified:#?}");
        let replayed = sandbox.relive(&["replay", "part"]);
        assert!(output.ends_with(&replayed.stdout), "{made}: {replayed:#?}");
        assert_eq!(replayed.code(), Some(24));
        // A part of the part has the same processes.
        let _ = std::fs::remove_dir_all(sandbox.path("again"));
        let words = ["split", "part", "-o", "again", "--json"];
        let again: Value = serde_json::from_str(&sandbox.relive(&words).ok().stdout).unwrap();
        assert_eq!(again["processes"], made["processes"], "{made}");
        let verified = sandbox.relive(&["verify", "again"]);
        assert_eq!(verified.code(), Some(0), "{again}: {verified:#?}");
    }
    assert!(most > 1, "no part began with several processes");
}

/// From every event on: in a handler and in one that interrupts it, while threads sleep in calls, with a robust
/// lock held, between fork and exec, beside a child of vfork.
#[test]
fn a_part_begins_anywhere() {
    let (sandbox, output) = recorded("asleep.c", 5);
    let info = sandbox.relive(&["info", "--json", "whole"]).ok().stdout;
    let info: Value = serde_json::from_str(&info).unwrap();
    let threads = info["processes"][0]["threads"].as_array().unwrap();
    let events: u64 = threads.iter().map(|t| t["events"].as_u64().unwrap()).sum();
    let mut tried = 0;
    for from in (2..events).step_by(3) {
        let _ = std::fs::remove_dir_all(sandbox.path("part"));
        let from = from.to_string();
        let made = sandbox.relive(&["split", "whole", "-o", "part", "--from", &from]);
        if made.code() != Some(0) {
            assert!(made.stderr.contains("nothing follows"), "{made:#?}");
            continue;
        }
        let verified = sandbox.relive(&["verify", "part"]);
        assert_eq!(verified.code(), Some(0), "from {from}: {verified:#?}");
        let replayed = sandbox.relive(&["replay", "part"]);
        assert!(output.ends_with(&replayed.stdout), "{from}: {replayed:#?}");
        assert_eq!(replayed.code(), Some(5));
        tried += 1;
    }
    assert!(tried > 20, "{tried}");
}

/// The files that the beginning of a part consists of.
fn beginning(sandbox: &Sandbox) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(sandbox.path("part/begin")).unwrap();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
fn a_damaged_beginning_is_refused() {
    let (sandbox, _) = recorded("travel.c", 7);
    split(&sandbox, &["--from", "60"]);
    let end = ["end", "checksum"];
    let good = orders(&sandbox, &["part"], &end);
    for path in beginning(&sandbox) {
        let whole = std::fs::read(&path).unwrap();
        for at in [0, 9, 20, whole.len() / 3, whole.len() - 1] {
            let mut bad = whole.clone();
            bad[at] ^= 0x40;
            std::fs::write(&path, &bad).unwrap();
            for words in [
                &["verify", "part"][..],
                &["replay", "part"],
                &["backtrace", "part"],
            ] {
                let refused = sandbox.relive(words).refused("damaged");
                assert!(!refused.stderr.contains("relive index"), "{refused:#?}");
            }
        }
        std::fs::remove_file(&path).unwrap();
        sandbox.relive(&["verify", "part"]).refused("begin");
        std::fs::write(&path, &whole).unwrap();
    }
    let path = sandbox.path("part/manifest.json");
    let whole = std::fs::read_to_string(&path).unwrap();
    let manifest: Value = serde_json::from_str(&whole).unwrap();
    let places = [
        "/excerpt/images",
        "/excerpt/processes/0/process",
        "/excerpt/processes/0/work",
        "/excerpt/processes/0/event",
        "/excerpt/processes/0/threads",
        "/excerpt/tapes/0/thread",
        "/excerpt/tapes/0/offset",
        "/excerpt/tapes/0/event",
        "/excerpt/tapes/0/ticks",
    ];
    for place in places {
        for change in [1u64, u64::MAX] {
            let mut manifest = manifest.clone();
            let field = manifest.pointer_mut(place).unwrap();
            *field = json!(field.as_u64().unwrap().wrapping_add(change) % (1 << 63));
            std::fs::write(&path, manifest.to_string()).unwrap();
            for words in [&["verify", "part"][..], &["backtrace", "part"]] {
                let outcome = sandbox.relive(words);
                assert_eq!(outcome.code(), Some(125), "{place}: {outcome:#?}");
            }
        }
    }
    let mut old = manifest.clone();
    old["format"] = json!({ "major": 1, "minor": 7 });
    std::fs::write(&path, old.to_string()).unwrap();
    sandbox
        .relive(&["info", "part"])
        .refused("begins elsewhere");
    let mut none = manifest;
    none.as_object_mut().unwrap().remove("excerpt");
    std::fs::write(&path, none.to_string()).unwrap();
    sandbox
        .relive(&["info", "part"])
        .refused("where the recording begins");
    std::fs::write(&path, whole).unwrap();
    assert_eq!(orders(&sandbox, &["part"], &end), good);
}

#[test]
fn places_that_cannot_be_are_refused_and_leave_nothing() {
    let (sandbox, _) = recorded("travel.c", 7);
    let tried = |words: &[&str], says: &str| {
        let words = [&["split", "whole", "-o", "part"], words].concat();
        sandbox.relive(&words).refused(says);
        assert!(!sandbox.path("part").exists(), "{words:?}");
    };
    tried(&["--from", "end"], "nothing follows");
    tried(&["--from", "90", "--to", "60"], "nothing lies between");
    tried(&["--from", "60", "--process", "9"], "no process 9");
    tried(&["--from", "crash"], "nothing crashed");
    std::fs::create_dir(sandbox.path("part")).unwrap();
    std::fs::write(sandbox.path("part/kept"), "x").unwrap();
    sandbox
        .relive(&["split", "whole", "-o", "part"])
        .refused("cannot be made");
    assert!(sandbox.path("part/kept").exists());
}

/// The part has the turns that the first replay has found, and no order to find.
#[test]
fn a_part_of_a_recording_on_all_cores_is_serial() {
    for mode in ["sketch", "coherence"] {
        let (sandbox, output) = recorded_in(mode, "travel.c", 7);
        let made = split(&sandbox, &["--from", "60"]);
        assert_eq!(made["processes"], 1, "{made}");
        let info = sandbox.relive(&["info", "--json", "part"]).ok();
        let facts: Value = serde_json::from_str(&info.stdout).unwrap();
        assert_eq!(facts["recorder"], "serial", "{facts}");
        sandbox.relive(&["verify", "part"]).ok();
        let replayed = sandbox.relive(&["replay", "part"]);
        assert_eq!(replayed.code(), Some(7), "{replayed:#?}");
        assert!(output.ends_with(&replayed.stdout), "{replayed:#?}");
    }
}
