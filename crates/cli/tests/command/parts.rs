//! Parts of a recording that replay at the same time, each from a session image: whatever is asked, the answer is that of
//! one replay.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use crate::sandbox::{Sandbox, text};

fn recorded(options: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/parts.c");
    let program = sandbox.compile(&source, "parts");
    let words = [&["record", "-o", "trace"], options, &["--", text(&program)]];
    let outcome = sandbox.relive(&words.concat());
    assert_eq!(outcome.code(), Some(5), "{outcome:#?}");
    sandbox
}

/// What `verify` counted.
fn counted(said: &str) -> &str {
    let begin = said.find(": ").expect("counts") + 2;
    &said[begin..said.find(" checksum").expect("checksums")]
}

#[test]
fn a_replay_in_parts_gives_the_output_in_order() {
    for (options, images) in [(&[][..], true), (&["--index=0"], false)] {
        let sandbox = recorded(options);
        if images {
            sandbox.relive(&["index", "trace", "--images", "9"]).ok();
        }
        let whole = sandbox.relive(&["replay", "trace"]);
        assert!(whole.stdout.len() > 2_000_000 && whole.stderr.len() > 500);
        for jobs in ["1", "2", "3", "16"] {
            let parts = sandbox.relive(&["replay", "trace", "--jobs", jobs]);
            assert_eq!(parts.code(), Some(5), "{}", parts.stderr);
            assert!(
                parts.stdout == whole.stdout,
                "{jobs} jobs give other output"
            );
            assert_eq!(parts.stderr, whole.stderr, "{jobs} jobs");
        }
    }
}

#[test]
fn verify_in_parts_compares_as_much() {
    let sandbox = recorded(&[]);
    let events = |said: &str| counted(said).split(',').next().unwrap().to_owned();
    let whole = sandbox.relive(&["verify", "trace"]).ok().stdout;
    assert!(!whole.contains("at a time"), "{whole}");
    sandbox.relive(&["index", "trace", "--images", "9"]).ok();
    let one = sandbox.relive(&["verify", "trace", "-j", "1"]).ok().stdout;
    assert!(!one.contains("at a time"), "{one}");
    for every in ["7", "100000"] {
        let words = ["verify", "trace", "--every", every, "-j", "3"];
        let parts = sandbox.relive(&words).ok().stdout;
        assert!(parts.contains(" parts, 3 at a time"), "{parts}");
        assert_eq!(events(&parts), events(&whole));
    }
}

#[test]
fn the_last_write_is_the_same_in_whatever_part_it_is() {
    let sandbox = recorded(&[]);
    let asked = |more: &[&str]| {
        let mut all = Vec::new();
        for name in ["early", "middle", "late", "often", "never", "sum"] {
            for place in ["end", "400", "200", "100"] {
                let words = ["last-write", "trace", "--json", "--var", name, "--before"];
                let outcome = sandbox.relive(&[&words[..], &[place], more].concat()).ok();
                all.push((name, place, outcome.stdout));
            }
        }
        all
    };
    let without = asked(&[]);
    sandbox.relive(&["index", "trace", "--images", "9"]).ok();
    assert_eq!(asked(&["-j1"]), without);
    for jobs in ["-j2", "-j5"] {
        assert_eq!(asked(&[jobs]), without);
    }
}

#[test]
fn calls_are_the_same_whatever_part_they_begin_and_end_in() {
    let sandbox = recorded(&[]);
    let functions = ["work", "round_of", "leaves", "main"];
    let asked = |more: &[&str]| {
        let of = |function: &&str| {
            let words = ["calls", function, "trace", "--json"];
            sandbox.relive(&[&words[..], more].concat()).ok().stdout
        };
        functions.iter().map(of).collect::<Vec<_>>()
    };
    let without = asked(&[]);
    let lines: Vec<usize> = without.iter().map(|all| all.lines().count()).collect();
    assert!(
        lines[0] > 600 && lines[1] == 320 && lines[2] == 46 && lines[3] == 1,
        "{lines:?}"
    );
    let few = asked(&["--max", "99"]);
    sandbox.relive(&["index", "trace", "--images", "30"]).ok();
    assert_eq!(asked(&["-j2"]), without);
    for jobs in ["-j1", "-j7"] {
        assert_eq!(asked(&[jobs, "--max", "99"]), few, "{jobs}");
    }
}

#[test]
fn a_damaged_image_is_said_wherever_it_is() {
    let sandbox = recorded(&[]);
    sandbox.relive(&["index", "trace", "--images", "9"]).ok();
    let pages = sandbox.path("trace/index/pages");
    let mut bytes = std::fs::read(&pages).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&pages, &bytes).unwrap();
    // All parts together have nearly all pages.
    let words = ["verify", "trace", "-j", "16"];
    sandbox.relive(&words).refused("relive index --remove");
    sandbox.relive(&["verify", "trace", "-j1"]).ok();
}

#[test]
fn a_reader_that_goes_away_ends_a_replay_in_parts() {
    let sandbox = recorded(&["--index=0"]);
    let relive = env!("CARGO_BIN_EXE_relive");
    let line = format!("{relive} replay trace -j3 | head -n 1; exit ${{PIPESTATUS[0]}}");
    let mut shell = Command::new("bash");
    shell.args(["-c", &line]).current_dir(sandbox.path("."));
    let status = shell.output().unwrap().status;
    let died = status.code() == Some(128 + libc::SIGPIPE) || status.signal().is_some();
    assert!(died, "{status:?}");
}

#[test]
fn several_processes_are_replayed_as_a_whole() {
    let sandbox = Sandbox::new();
    sandbox
        .relive(&[
            "record",
            "-o",
            "trace",
            "--",
            "sh",
            "-c",
            "echo a | cat; echo b",
        ])
        .ok();
    sandbox.relive(&["index", "trace", "--images", "3"]).ok();
    let said = sandbox.relive(&["verify", "trace", "-j", "2"]).ok().stdout;
    assert!(!said.contains("at a time"), "{said}");
    let replayed = sandbox.relive(&["replay", "trace", "-j", "2"]).ok();
    assert_eq!(replayed.stdout, "a\nb\n");
}
