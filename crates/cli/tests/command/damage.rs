//! Traces that were cut off or damaged: a beginning and an explanation, never anything else.

use std::path::{Path, PathBuf};

use relive_sched::Rng;

use crate::sandbox::{Sandbox, text};

/// A recording that was written in several pieces, and its output.
fn recording(sandbox: &Sandbox) -> (PathBuf, String) {
    let script = "cat /proc/self/exe >big; cat big >/dev/null; for i in 1 2 3 4 5 6; do echo line $i; /bin/true; sleep 0.06; done; exit 4";
    let recorded = sandbox.relive(&["record", "-o", "whole", "sh", "-c", script]);
    assert_eq!(recorded.code(), Some(4), "{recorded:#?}");
    (sandbox.path("whole"), recorded.stdout)
}

/// A copy of a trace with other tapes. The files are linked: they are not changed.
fn with_tapes(sandbox: &Sandbox, whole: &Path, tapes: &[u8]) -> PathBuf {
    let copy = sandbox.path("copy");
    let _ = std::fs::remove_dir_all(&copy);
    std::fs::create_dir_all(copy.join("files")).unwrap();
    for entry in std::fs::read_dir(whole.join("files")).unwrap() {
        let entry = entry.unwrap();
        std::fs::hard_link(entry.path(), copy.join("files").join(entry.file_name())).unwrap();
    }
    for name in ["manifest.json", "input", "input.sums"] {
        if whole.join(name).exists() {
            std::fs::copy(whole.join(name), copy.join(name)).unwrap();
        }
    }
    std::fs::write(copy.join("tapes"), tapes).unwrap();
    copy
}

#[test]
fn a_cut_trace_replays_its_beginning_and_says_so() {
    let sandbox = Sandbox::new();
    let (whole, printed) = recording(&sandbox);
    check_cuts(&sandbox, &whole, &printed);
}

/// What one thread waits for may be on no tape any more.
#[test]
fn a_cut_trace_of_threads_on_all_cores_replays_its_beginning_too() {
    for mode in ["--mode=sketch", "--mode=coherence"] {
        let sandbox = Sandbox::new();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/flight.c");
        let program = sandbox.compile(&source, "flight");
        let words = ["record", mode, "-o", "whole", text(&program), "60", "4"];
        let recorded = sandbox.relive(&words);
        assert_eq!(recorded.code(), Some(4), "{recorded:#?}");
        check_cuts(&sandbox, &sandbox.path("whole"), &recorded.stdout);
    }
}

fn check_cuts(sandbox: &Sandbox, whole: &Path, printed: &str) {
    let tapes = std::fs::read(whole.join("tapes")).unwrap();
    let mut number = Rng::new(0x5eed);
    let random = (0..10).map(|_| number.below(tapes.len() as u64) as usize);
    let mut longest = 0;
    for length in [0, 1, tapes.len() - 1].into_iter().chain(random) {
        let copy = with_tapes(sandbox, whole, &tapes[..length]);
        let replayed = sandbox.relive(&["replay", text(&copy)]).refused("cut off");
        assert!(
            printed.starts_with(&replayed.stdout),
            "cut to {length}: {replayed:#?}"
        );
        longest = longest.max(replayed.stdout.len());
        sandbox.relive(&["verify", text(&copy)]).refused("cut off");
        let dumped = sandbox.relive(&["dump", text(&copy)]).ok();
        assert!(dumped.stderr.contains("cut off"), "{dumped:#?}");
        let info = sandbox.relive(&["info", text(&copy)]).ok();
        assert!(info.stdout.contains("cut off"), "{info:#?}");
    }
    assert!(longest > 0, "no cut left anything to replay");
}

#[test]
fn a_changed_byte_is_noticed() {
    let sandbox = Sandbox::new();
    let (whole, printed) = recording(&sandbox);
    let tapes = std::fs::read(whole.join("tapes")).unwrap();
    let mut number = Rng::new(0xbad);
    for _ in 0..10 {
        let (at, bit) = (number.below(tapes.len() as u64) as usize, number.below(8));
        let mut changed = tapes.clone();
        changed[at] ^= 1 << bit;
        let copy = with_tapes(&sandbox, &whole, &changed);
        let replayed = sandbox.relive(&["replay", text(&copy)]).refused("");
        assert!(
            printed.starts_with(&replayed.stdout),
            "bit {bit} of byte {at}: {replayed:#?}"
        );
        sandbox.relive(&["verify", text(&copy)]).refused("");
        sandbox.relive(&["dump", text(&copy)]).refused("damaged");
        sandbox.relive(&["info", text(&copy)]).refused("damaged");
    }
}

#[test]
fn a_changed_file_is_noticed() {
    let sandbox = Sandbox::new();
    sandbox.relive(&["record", "-o", "trace", "true"]).ok();
    let file = std::fs::read_dir(sandbox.path("trace/files"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut content = std::fs::read(&file).unwrap();
    *content.last_mut().unwrap() ^= 1;
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, content).unwrap();
    sandbox.relive(&["verify", "trace"]).refused("damaged");
}

/// A recording that reads a file, which is gone afterwards.
fn with_input(sandbox: &Sandbox) -> Vec<u8> {
    let lines: String = (0..2000).map(|i| format!("line {i}\n")).collect();
    std::fs::write(sandbox.path("lines"), &lines).unwrap();
    let recorded = sandbox.relive(&["record", "-o", "trace", "cat", "lines"]);
    assert_eq!(recorded.ok().stdout, lines);
    std::fs::remove_file(sandbox.path("lines")).unwrap();
    assert_eq!(sandbox.relive(&["replay", "trace"]).ok().stdout, lines);
    std::fs::read(sandbox.path("trace/input")).unwrap()
}

#[test]
fn changed_input_is_noticed_where_it_is_used() {
    let sandbox = Sandbox::new();
    let mut input = with_input(&sandbox);
    let at = input.len() / 2;
    input[at] ^= 1;
    std::fs::write(sandbox.path("trace/input"), &input).unwrap();
    for command in ["replay", "verify", "dump", "pack"] {
        sandbox.relive(&[command, "trace"]).refused("damaged");
    }
    assert!(!sandbox.path("trace.tar.zst").exists());
}

#[test]
fn input_that_is_cut_off_is_missing() {
    let sandbox = Sandbox::new();
    let input = with_input(&sandbox);
    std::fs::write(sandbox.path("trace/input"), &input[..input.len() - 1]).unwrap();
    let info = sandbox.relive(&["info", "trace"]).ok();
    assert!(info.stdout.contains("cut off"), "{info:#?}");
    sandbox.relive(&["replay", "trace"]).refused("damaged");
    std::fs::remove_file(sandbox.path("trace/input")).unwrap();
    sandbox.relive(&["replay", "trace"]).refused("input");
}

#[test]
fn a_damaged_manifest_is_refused_and_listed() {
    let sandbox = Sandbox::new();
    sandbox.relive(&["record", "true"]).ok();
    let manifest = sandbox.base().join("true-0/manifest.json");
    std::fs::write(&manifest, "{").unwrap();
    for command in ["replay", "verify", "info", "dump"] {
        sandbox.relive(&[command, "true-0"]).refused("damaged");
    }
    assert!(sandbox.relive(&["ls"]).ok().stdout.contains("unreadable"));
    let listed = sandbox.relive(&["ls", "--json"]).ok().stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert!(listed[0]["error"].is_string(), "{listed}");
    std::fs::write(
        &manifest,
        r#"{"format": {"major": 99, "minor": 0}, "relive": "9.9"}"#,
    )
    .unwrap();
    sandbox.relive(&["replay", "true-0"]).refused("99.0");
}
