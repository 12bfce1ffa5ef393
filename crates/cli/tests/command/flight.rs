//! Flight recordings: the last part is kept where the program ends badly or somebody asks, and nothing else is. What is
//! kept verifies, and replays the end of the output. Whatever is killed in the midst leaves a recording or none.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::{Sandbox, text, wait};

/// Threads take turns, or run on all cores.
const MODES: [&str; 3] = ["--mode=serial", "--mode=sketch", "--mode=coherence"];

fn compiled() -> (Sandbox, PathBuf) {
    compiled_from("flight.c")
}

fn compiled_from(source: &str) -> (Sandbox, PathBuf) {
    let sandbox = Sandbox::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command");
    let program = sandbox.compile(&folder.join(source), "flight");
    (sandbox, program)
}

/// Verifies a kept recording, whose replay must write the end of the output.
fn check(sandbox: &Sandbox, kept: &str, output: &str) -> String {
    sandbox.relive(&["verify", kept]).ok();
    let replayed = sandbox.relive(&["replay", kept]);
    assert!(
        output.ends_with(&replayed.stdout),
        "{kept}: {replayed:#?} of {output}"
    );
    replayed.stdout
}

/// Entries of the folder for recordings that are no recordings: the work of flights.
fn works(sandbox: &Sandbox) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(sandbox.path(".")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.to_string_lossy().ends_with(".flight"))
        .collect()
}

#[test]
fn the_last_part_of_a_crash_is_kept() {
    for mode in MODES {
        crash_is_kept(mode);
    }
}

fn crash_is_kept(mode: &str) {
    let (sandbox, program) = compiled();
    let words = [
        "record",
        mode,
        "--flight=100ms",
        "-o",
        "kept",
        text(&program),
    ];
    let outcome = sandbox.relive(&[&words[..], &["120", "x"]].concat());
    assert_eq!(outcome.signal(), Some(libc::SIGSEGV), "{outcome:#?}");
    let part = check(&sandbox, "kept", &outcome.stdout);
    assert!(!part.is_empty() && part.len() < outcome.stdout.len() / 2);
    let info = sandbox.relive(&["info", "kept"]).ok();
    assert!(info.stdout.contains("from behind event"), "{info:#?}");
    assert!(!info.stdout.contains("unknown"), "{info:#?}");
    let write = sandbox
        .relive(&["last-write", "kept", "--var", "count"])
        .ok();
    assert!(write.stdout.contains("in work"), "{write:#?}");
    let stack = sandbox.relive(&["backtrace", "kept", "--at", "crash"]).ok();
    assert!(stack.stdout.contains("main"), "{stack:#?}");
    assert_eq!(works(&sandbox), [""; 0].map(PathBuf::from));
}

#[test]
fn a_short_run_is_kept_as_a_whole_and_a_good_one_not_at_all() {
    let (sandbox, program) = compiled();
    let record = |words: &[&str]| {
        let begin = ["record", "--flight", "-o", "kept"];
        sandbox.relive(&[&begin[..], words].concat())
    };
    let good = record(&[text(&program), "3"]).ok();
    assert!(!sandbox.path("kept").exists(), "{good:#?}");
    let bad = record(&[text(&program), "3", "9"]);
    assert_eq!(bad.code(), Some(9));
    assert_eq!(check(&sandbox, "kept", &bad.stdout), bad.stdout);
    std::fs::remove_dir_all(sandbox.path("kept")).unwrap();
    record(&["--keep", text(&program), "3"]).ok();
    sandbox.relive(&["verify", "kept"]).ok();
    record(&["--mode", "sketch", "--chaos", "true"]).refused("leave out --mode sketch, or --chaos");
}

/// A parallel replay would have to begin with threads that take no turns. An index, or a part of it, is one of the turns that
/// have been found.
#[test]
fn a_part_with_threads_on_all_cores_says_what_it_cannot() {
    let (sandbox, program) = compiled();
    let words = [
        "record",
        "--mode=sketch",
        "--flight=60ms",
        "-o",
        "kept",
        text(&program),
        "240",
        "9",
    ];
    assert_eq!(sandbox.relive(&words).code(), Some(9));
    let relive = |words: &[&str]| sandbox.relive(words);
    relive(&["replay", "--parallel", "kept"]).refused("the last part of a run");
    relive(&["split", "kept", "--from", "end", "-o", "part"]).refused("nothing follows");
    let info = relive(&["info", "kept"]).ok();
    let (_, window) = info.stdout.split_once("from behind event ").unwrap();
    let digits = window.split(" of").next().unwrap().replace(' ', "");
    let from = (digits.parse::<u64>().unwrap() + 20).to_string();
    relive(&["split", "kept", "--from", &from, "-o", "part"]).ok();
    relive(&["verify", "part"]).ok();
    relive(&["index", "--check", "kept"]).ok();
    relive(&["explore", "kept"]).ok();
    relive(&["verify", "kept"]).ok();
}

/// A copy that sleeps sees no change of a file behind its place, although it maps the file.
#[test]
fn a_mapped_file_is_kept_as_it_was() {
    let (sandbox, program) = compiled_from("flight_map.c");
    let words = ["record", "--flight=60ms", "-o", "kept", text(&program)];
    let outcome = sandbox.relive(&words);
    assert_eq!(outcome.code(), Some(9), "{outcome:#?}");
    let part = check(&sandbox, "kept", &outcome.stdout);
    assert!(part.contains(": a\n") && part.contains(": b\n"), "{part}");
    assert!(part.len() < outcome.stdout.len(), "{part}");
}

/// Copies of files that nothing in the window names any more go, and those that are mapped yet stay.
#[test]
fn copies_of_files_are_forgotten_too() {
    const ROUNDS: u64 = 240;
    let (sandbox, program) = compiled_from("flight_files.c");
    let rounds = ROUNDS.to_string();
    let words = [
        "record",
        "--flight=60ms",
        "-o",
        "kept",
        text(&program),
        &rounds,
    ];
    let mut command = sandbox.command(&words);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut all = String::new();
        output.read_to_string(&mut all).unwrap();
        all
    });
    let mut most = 0;
    while !reader.is_finished() {
        let folders = [".kept.flight/files", ".kept.flight/files.aside"];
        let files = folders.map(|folder| std::fs::read_dir(sandbox.path(folder)));
        let files = files.into_iter().flatten().flatten().flatten();
        let sizes = files.filter_map(|file| Some(file.metadata().ok()?.len()));
        most = most.max(sizes.filter(|size| *size == 2 << 20).sum());
        std::thread::sleep(Duration::from_millis(50));
    }
    let all = reader.join().unwrap();
    wait(&mut child);
    check(&sandbox, "kept", &all);
    let mapped = ROUNDS * (2 << 20);
    assert!(most > 0 && most < mapped / 3 * 2, "{most} of {mapped}");
}

/// Memory that is mapped shared and may be written is kept of a process that has no other one beside it: its children of the window
/// have it in common with it.
#[test]
fn shared_memory_of_one_process_is_kept() {
    let (sandbox, program) = compiled_from("flight_shared.c");
    for (every, kept) in [("0", "alone"), ("10", "seldom"), ("2", "often")] {
        let words = ["record", "--flight=60ms", "-o", kept, text(&program)];
        let outcome = sandbox.relive(&[&words[..], &["100", every]].concat());
        assert_eq!(outcome.code(), Some(9), "{outcome:#?}");
        let part = check(&sandbox, kept, &outcome.stdout);
        assert!(part.len() < outcome.stdout.len() / 2, "{part}");
        let write = ["last-write", kept, "--var", "maps"];
        let write = sandbox.relive(&write).ok();
        assert!(write.stdout.contains("before it begins"), "{write:#?}");
    }
}

/// Input that nothing names any more goes: what is kept has its last part, and says where that begins.
#[test]
fn input_is_forgotten_too() {
    let (sandbox, program) = compiled_from("flight_input.c");
    let words = [
        "record",
        "--flight=50ms",
        "-o",
        "kept",
        text(&program),
        "100",
    ];
    let outcome = sandbox.relive(&words);
    assert_eq!(outcome.code(), Some(9), "{outcome:#?}");
    let part = check(&sandbox, "kept", &outcome.stdout);
    assert!(part.len() < outcome.stdout.len() / 2, "{part}");
    let input = std::fs::metadata(sandbox.path("kept/input")).unwrap().len();
    assert!(input < 60 << 20, "{input} of 100 MiB");
    let begins = excerpt(&sandbox, "kept");
    assert!(begins["input"].as_u64().is_some(), "{begins}");
    // Places of its input are those of the whole run; a part of it counts anew.
    let event = begins["processes"][0]["event"].as_u64().unwrap() + 10;
    let words = ["split", "kept", "--from", &event.to_string(), "-o", "part"];
    sandbox.relive(&words).ok();
    sandbox.relive(&["verify", "part"]).ok();
}

/// Where what was kept begins, as its manifest says.
fn excerpt(sandbox: &Sandbox, kept: &str) -> serde_json::Value {
    let manifest = std::fs::read(sandbox.path(kept).join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    manifest["excerpt"].clone()
}

/// The lines of a program that are behind the beginning of what was kept: each is one output.
fn lines_behind(sandbox: &Sandbox, kept: &str, lines: &str) -> (String, usize) {
    let excerpt = excerpt(sandbox, kept);
    let first = excerpt["order"].as_u64().unwrap() as usize;
    let gaps: Vec<(usize, usize)> = match &excerpt["gaps"] {
        serde_json::Value::Null => Vec::new(),
        gaps => serde_json::from_value(gaps.clone()).unwrap(),
    };
    let in_gap = |n: usize| gaps.iter().any(|(from, to)| (*from..*to).contains(&n));
    let all = lines.split_inclusive('\n').enumerate();
    let there = all.filter(|(n, _)| *n >= first && !in_gap(*n));
    (there.map(|(_, line)| line).collect(), gaps.len())
}

/// A kept part of a tree writes the lines that its processes have behind their beginnings, and no other.
pub fn check_tree(sandbox: &Sandbox, kept: &str, lines: &str) -> usize {
    sandbox.relive(&["verify", kept]).ok();
    let replayed = sandbox.relive(&["replay", kept]);
    let (expected, gaps) = lines_behind(sandbox, kept, lines);
    assert_eq!(replayed.stdout, expected, "{replayed:#?}");
    // A process that can seldom be described has no copy for long on a busy machine: then there is little.
    let short = expected.len() < lines.len() / 2 && !expected.is_empty();
    assert!(short, "{expected} of {lines}");
    gaps
}

/// Its processes are cut at places of their own, also those that sleep all the time, or can seldom be described.
#[test]
fn the_last_part_of_a_tree_is_kept() {
    for mode in MODES {
        tree_is_kept(mode);
    }
}

fn tree_is_kept(mode: &str) {
    let (sandbox, program) = compiled_from("flight_tree.c");
    let (mut gaps, mut n) = (0, 0);
    // Where processes are cut is a matter of time; each of these recordings is checked.
    while n < 3 || gaps == 0 && n < 40 {
        n += 1;
        let kept = format!("kept-{n}");
        let words = [
            "record",
            mode,
            "--flight=100ms",
            "-o",
            &kept,
            text(&program),
        ];
        let outcome = sandbox.relive(&[&words[..], &["150"]].concat());
        assert_eq!(outcome.signal(), Some(libc::SIGSEGV), "{outcome:#?}");
        gaps += check_tree(&sandbox, &kept, &outcome.stdout);
        let info = sandbox.relive(&["info", &kept]).ok();
        // One or several: how many there are at the beginning is a matter of time too.
        assert!(info.stdout.contains(" other process"), "{info:#?}");
    }
    assert!(gaps > 0, "no process was ever cut behind another one");
}

/// The first process ends long before the others, which go on without it.
#[test]
fn the_last_part_behind_the_first_process_is_kept() {
    let (sandbox, program) = compiled_from("flight_tree.c");
    let words = ["record", "--flight=100ms", "-o", "kept", text(&program)];
    let outcome = sandbox.relive(&[&words[..], &["200", "alone"]].concat());
    assert_eq!(outcome.code(), Some(7), "{outcome:#?}");
    check_tree(&sandbox, "kept", &outcome.stdout);
    assert_eq!(sandbox.relive(&["replay", "kept"]).code(), Some(7));
    let list = sandbox.relive(&["info", "kept"]).ok();
    assert!(!list.stdout.contains("p0.t0"), "it is over: {list:#?}");
}

/// A shell that does nothing but wait holds nothing back.
#[test]
fn a_parent_that_waits_holds_nothing() {
    let (sandbox, program) = compiled();
    let script = format!("{} 120; exit 9", text(&program));
    let words = ["record", "--flight=60ms", "-o", "kept", "sh", "-c", &script];
    let outcome = sandbox.relive(&words);
    assert_eq!(outcome.code(), Some(9), "{outcome:#?}");
    let part = check(&sandbox, "kept", &outcome.stdout);
    assert!(part.len() < outcome.stdout.len() / 2, "{part}");
}

/// A flight recording of a program that goes on for a while, which has written its first line.
fn running(
    sandbox: &Sandbox,
    mode: &str,
    program: &Path,
    rounds: &str,
) -> (Child, BufReader<impl Read + use<>>) {
    running_with("--flight=60ms", sandbox, mode, program, rounds)
}

fn running_with(
    flight: &str,
    sandbox: &Sandbox,
    mode: &str,
    program: &Path,
    rounds: &str,
) -> (Child, BufReader<impl Read + use<>>) {
    let words = ["record", mode, flight, "-o", "kept", text(program), rounds];
    let mut command = sandbox.command(&words);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    (child, output)
}

#[test]
fn a_run_is_kept_when_somebody_asks_and_goes_on() {
    for mode in MODES {
        run_is_kept(mode);
    }
}

fn run_is_kept(mode: &str) {
    let (sandbox, program) = compiled();
    let (mut child, mut output) = running(&sandbox, mode, &program, "400");
    std::thread::sleep(Duration::from_millis(500));
    let asked = sandbox.relive(&["keep", "kept"]).ok();
    assert!(asked.stdout.contains("kept as"), "{asked:#?}");
    let pid = child.id().to_string();
    let again = sandbox.relive(&["keep", "--json", "kept"]).ok();
    assert!(again.stdout.contains("kept.2"), "{again:#?}, of {pid}");
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(wait(&mut child).code(), Some(0));
    for kept in ["kept", "kept.2"] {
        sandbox.relive(&["verify", kept]).ok();
        let replayed = sandbox.relive(&["replay", kept]).ok();
        assert!(
            rest.contains(&replayed.stdout) && !replayed.stdout.is_empty(),
            "{kept}: {replayed:#?} of {rest}"
        );
    }
    assert!(!sandbox.path("kept.3").exists(), "it ended well");
    sandbox
        .relive(&["keep", "kept"])
        .refused("no flight recording runs as kept");
}

#[test]
fn a_run_younger_than_its_window_is_kept_from_its_beginning() {
    for mode in MODES {
        let (sandbox, program) = compiled();
        let (mut child, mut output) = running_with("--flight=60s", &sandbox, mode, &program, "150");
        output.read_line(&mut String::new()).unwrap();
        sandbox.relive(&["keep", "kept"]).ok();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!(wait(&mut child).code(), Some(0));
        sandbox.relive(&["verify", "kept"]).ok();
        let replayed = sandbox.relive(&["replay", "kept"]).ok();
        assert!(replayed.stdout.contains("round 0"), "{replayed:#?}");
        assert!(!replayed.stdout.contains("round 149"), "{replayed:#?}");
        let info = sandbox.relive(&["info", "kept"]).ok();
        assert!(
            info.stdout
                .contains("from its beginning to where it was cut"),
            "{info:#?}"
        );
        let words = ["split", "kept", "-o", "part", "--from", "30"];
        sandbox.relive(&words).ok();
        sandbox.relive(&["verify", "part"]).ok();
        let part = sandbox.relive(&["replay", "part"]).ok();
        assert!(replayed.stdout.ends_with(&part.stdout), "{part:#?}");
    }
}

/// The program asks by a call that does nothing elsewhere; somebody else by a signal to the recorder.
#[test]
fn a_program_asks_itself_and_a_signal_asks() {
    let (sandbox, program) = compiled();
    let command = ["record", "--flight=60ms", "--keep-on", "USR2", "-o", "kept"];
    let mut command =
        sandbox.command(&[&command[..], &[text(&program), "150", "0", "40"]].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = String::new();
    while !lines.contains("round 100:") {
        output.read_line(&mut lines).unwrap();
    }
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, Signal::USR2).unwrap();
    output.read_to_string(&mut lines).unwrap();
    assert_eq!(wait(&mut child).code(), Some(0));
    for (kept, round) in [("kept", "round 40:"), ("kept.2", "round 100:")] {
        sandbox.relive(&["verify", kept]).ok();
        let replayed = sandbox.relive(&["replay", kept]).ok();
        let there = lines.contains(&replayed.stdout) && replayed.stdout.contains(round);
        assert!(there, "{kept}: {replayed:#?}");
    }
    assert!(!sandbox.path("kept.3").exists(), "nobody else asked");
    let words = ["record", "--flight", "--keep-on", "TERM", "true"];
    let wrong = sandbox.relive(&words);
    assert_eq!(wrong.code(), Some(2), "{wrong:#?}");
    assert!(wrong.stderr.contains("no signal for it"), "{wrong:#?}");
}

/// A window of bytes, of the 90 KiB or more of the run: much has gone, and about as much as was asked for is there.
#[test]
fn a_window_of_bytes_is_kept() {
    let (sandbox, program) = compiled();
    let words = ["record", "--flight=40KiB", "-o", "kept", text(&program)];
    let outcome = sandbox.relive(&[&words[..], &["300", "9"]].concat());
    assert_eq!(outcome.code(), Some(9), "{outcome:#?}");
    let part = check(&sandbox, "kept", &outcome.stdout);
    assert!(
        part.len() < outcome.stdout.len() * 3 / 4 && !part.is_empty(),
        "{part}"
    );
    assert!(part.len() > outcome.stdout.len() / 20, "{part}");
}

#[test]
fn a_recorder_that_is_asked_to_end_keeps_what_there_is() {
    let (sandbox, program) = compiled();
    let (mut child, mut output) = running(&sandbox, MODES[0], &program, "4000");
    std::thread::sleep(Duration::from_millis(300));
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    wait(&mut child);
    check(&sandbox, "kept", &rest);
}

/// The recorder is killed at any moment, also in the midst of keeping: there is a recording that verifies, or a clear word.
/// `RELIVE_KILLS` sets how often.
#[test]
fn a_recorder_that_is_killed_leaves_a_recording_or_a_word() {
    let (sandbox, program) = compiled();
    let kills = std::env::var("RELIVE_KILLS").map_or(24, |n| n.parse().unwrap());
    let mut whole = 0;
    for n in 0..kills {
        let (mut child, output) = running(&sandbox, MODES[(n % 3) as usize], &program, "4000");
        std::thread::sleep(Duration::from_millis(100 + 7 * (n % 5)));
        let mut keep = sandbox.command(&["keep", "kept"]);
        keep.stdout(Stdio::null()).stderr(Stdio::null());
        let mut keep = keep.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(3 * (n % 24)));
        child.kill().unwrap();
        wait(&mut child);
        keep.kill().unwrap();
        wait(&mut keep);
        drop(output);
        let kept = sandbox.path("kept");
        if kept.exists() {
            let verified = sandbox.relive(&["verify", "kept"]);
            match verified.code() {
                Some(0) => whole += 1,
                _ => {
                    let words = [
                        "does not say where the recording begins",
                        "is not a trace",
                        "was cut off before its end",
                    ];
                    let clear = words.iter().any(|word| verified.stderr.contains(word));
                    assert!(clear, "{verified:#?}");
                }
            }
            std::fs::remove_dir_all(&kept).unwrap();
        }
        for work in works(&sandbox) {
            std::fs::remove_dir_all(work).unwrap();
        }
    }
    assert!(whole > 0, "nothing was ever kept");
}
