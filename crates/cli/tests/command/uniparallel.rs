//! Recordings whose order is found while their program runs: exact when they end, and whatever is killed in the midst leaves a recording that is
//! exact as far as it goes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::sandbox::{Outcome, Sandbox, finish, text, wait};

fn together(sandbox: &Sandbox) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/together.c");
    sandbox.compile(&source, "together")
}

/// A recording of threads that count together, of so many rounds, with microseconds of sleep between two, and one more option.
fn record(sandbox: &Sandbox, (rounds, pause): (&str, &str), option: &str) -> Outcome {
    let program = together(sandbox);
    let words = [
        "record",
        "--mode=uniparallel",
        "--index=0",
        "--stats=json",
        option,
        "-o",
        "trace",
        text(&program),
        rounds,
        pause,
    ];
    sandbox.relive(&words).ok()
}

/// A number of the recording's statistics about epochs.
fn number(recorded: &Outcome, name: &str) -> u64 {
    let line = recorded.stderr.lines().find(|line| line.starts_with('{'));
    let stats: serde_json::Value = serde_json::from_str(line.expect("statistics")).unwrap();
    stats["epochs"][name].as_u64().expect("a number")
}

fn is_exact(sandbox: &Sandbox, trace: &str) -> bool {
    sandbox.path(trace).join("exact/manifest.json").exists()
        && !sandbox.path(trace).join("epochs").exists()
}

#[test]
fn a_recording_is_exact_when_it_ends() {
    let sandbox = Sandbox::new();
    let recorded = record(&sandbox, ("50", "300"), "--jobs=1");
    let found = number(&recorded, "found");
    assert!(found > 1, "{recorded:#?}");
    assert!(number(&recorded, "found while the program ran") > 0);
    assert!(is_exact(&sandbox, "trace"));
    let info = sandbox.relive(&["info", "--json", "trace"]).ok();
    let info: serde_json::Value = serde_json::from_str(&info.stdout).unwrap();
    let epochs = info["found_epochs"].as_array().expect("a list");
    assert_eq!(epochs.len() as u64, found);
    for epoch in epochs {
        assert!(epoch["attempts"].as_u64() > Some(0), "{epoch}");
        assert!(epoch["cpu_us"].as_u64() > Some(0), "{epoch}");
    }
    let info = sandbox.relive(&["info", "trace"]).ok();
    let shown = format!("epochs       {found}");
    assert!(info.stdout.contains(&shown), "{info:#?}");
    let replayed = sandbox.relive(&["replay", "trace"]).ok();
    assert_eq!(replayed.stdout, recorded.stdout);
    let compared = sandbox.relive(&["index", "--compare", "trace"]).ok();
    assert!(!compared.stdout.contains(": 0 images"), "{compared:#?}");
}

/// Images of a stretch without events are ends of epochs too.
#[test]
fn a_stretch_without_events_has_epochs() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/computes.c");
    let program = sandbox.compile(&source, "computes");
    let words = ["record", "--mode=uniparallel", "--index=0", "--stats=json"];
    let words = [&words[..], &["-o", "trace", text(&program)]].concat();
    let recorded = sandbox.relive(&words).ok();
    assert!(number(&recorded, "found") > 10, "{recorded:#?}");
    assert!(is_exact(&sandbox, "trace"));
    sandbox.relive(&["verify", "trace"]).ok();
}

/// All is left for the end.
#[test]
fn a_recording_without_searches_while_it_runs_is_exact_when_it_ends() {
    let sandbox = Sandbox::new();
    let recorded = record(&sandbox, ("50", "300"), "--jobs=0");
    assert!(number(&recorded, "found") > 1, "{recorded:#?}");
    assert_eq!(number(&recorded, "found while the program ran"), 0);
    let waited = number(&recorded, "milliseconds for which the program waited");
    assert_eq!(waited, 0);
    assert!(is_exact(&sandbox, "trace"));
}

/// Images come much faster than processes that search can be started.
#[test]
fn a_program_waits_for_the_search() {
    let sandbox = Sandbox::new();
    let recorded = record(&sandbox, ("1000", "1000"), "--jobs=1");
    let waited = number(&recorded, "milliseconds for which the program waited");
    assert!(waited > 0, "{recorded:#?}");
}

/// The command of a recording with epochs close to each other, of so many rounds.
fn recording(sandbox: &Sandbox, rounds: &str) -> Command {
    let program = together(sandbox);
    let words = [
        "record",
        "--mode=uniparallel",
        "--index=20ms",
        "-o",
        "trace",
    ];
    sandbox.command(&[&words[..], &[text(&program), rounds, "1000"]].concat())
}

/// How many epochs of a recording that runs are found.
pub fn found(sandbox: &Sandbox) -> usize {
    let found = sandbox.path("trace").join("epochs.found");
    let epochs = std::fs::read_dir(found).into_iter().flatten().flatten();
    let is_whole = |epoch: &std::fs::DirEntry| {
        let manifest = epoch.path().join("exact/manifest.json");
        std::fs::read_to_string(manifest).is_ok_and(|text| text.contains("\"complete\": true"))
    };
    epochs.filter(is_whole).count()
}

/// A recording that runs.
struct Running {
    sandbox: Sandbox,
    recorder: Child,
}

impl Running {
    /// Begins one, and waits until some of its epochs are found: more than those in which its threads begin.
    fn begin() -> Self {
        let sandbox = Sandbox::new();
        let mut command = recording(&sandbox, "1000");
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let recorder = command.spawn().unwrap();
        let mut running = Self { sandbox, recorder };
        let until = Instant::now() + Duration::from_secs(60);
        while running.found() < 6 {
            assert!(Instant::now() < until, "no epoch is found");
            assert!(running.recorder.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(5));
        }
        running
    }

    /// How many epochs are found.
    fn found(&self) -> usize {
        found(&self.sandbox)
    }
}

/// The process that searches for this recorder.
pub fn finder_of(recorder: u32) -> u32 {
    let finder = descendant(recorder, |line| line.contains("\0epochs\0"));
    finder.expect("a process that searches")
}

#[test]
fn a_recorder_that_is_killed_leaves_what_its_epochs_have() {
    let mut running = Running::begin();
    running.recorder.kill().unwrap();
    wait(&mut running.recorder);
    let sandbox = &running.sandbox;
    let mut first = sandbox.command(&["replay", "trace"]);
    first.env("RELIVE_LOG", "linear=info");
    let replayed = finish(first);
    let says = |text: &str| replayed.stderr.contains(text);
    assert!(
        says(" epochs are put together") && says("cut off"),
        "{replayed:#?}"
    );
    assert!(replayed.stdout.contains("1 0\n"));
    assert!(is_exact(sandbox, "trace"));
    let again = sandbox.relive(&["replay", "trace"]);
    assert_eq!(again.stdout, replayed.stdout);
}

#[test]
fn a_search_that_is_killed_leaves_a_sketch() {
    let mut running = Running::begin();
    // SAFETY: a process that this test's recorder has started, and waits for.
    unsafe { libc::kill(finder_of(running.recorder.id()) as i32, libc::SIGKILL) };
    let mut says = String::new();
    let mut stderr = running.recorder.stderr.take().unwrap();
    std::io::Read::read_to_string(&mut stderr, &mut says).unwrap();
    assert!(wait(&mut running.recorder).success());
    assert!(
        says.contains("the order of its threads is not found"),
        "{says}"
    );
    let sandbox = &running.sandbox;
    assert!(!is_exact(sandbox, "trace"));
    sandbox.relive(&["replay", "trace"]).ok();
    assert!(is_exact(sandbox, "trace"));
}

/// Behind the program's end.
#[test]
fn a_search_ends_by_a_signal_to_the_recorder() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let sandbox = Sandbox::new();
        let mut command = recording(&sandbox, "1000");
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut recorder = command.spawn().unwrap();
        let manifest = sandbox.path("trace").join("manifest.json");
        let is_whole = || {
            let text = std::fs::read_to_string(&manifest).unwrap_or_default();
            text.contains("\"complete\": true")
        };
        while !is_whole() {
            assert!(recorder.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(1));
        }
        // It may be between the two, where the keyboard's signals are still the program's.
        let status = loop {
            if let Some(status) = recorder.try_wait().unwrap() {
                break status;
            }
            // SAFETY: the process that was started here, and has not been waited for.
            unsafe { libc::kill(recorder.id() as i32, signal) };
            std::thread::sleep(Duration::from_millis(1));
        };
        let mut says = String::new();
        let mut stderr = recorder.stderr.take().unwrap();
        std::io::Read::read_to_string(&mut stderr, &mut says).unwrap();
        assert!(status.success(), "{says}");
        assert!(says.contains("a signal has ended the search"), "{says}");
        assert!(!is_exact(&sandbox, "trace"));
        sandbox.relive(&["replay", "trace"]).ok();
    }
}

/// The program, a process that searches an epoch, or the recorder, is killed at any moment: what there is is exact up to its end, and says
/// where that is. `RELIVE_KILLS` sets how often.
#[test]
fn whatever_is_killed_leaves_an_exact_beginning() {
    let kills = std::env::var("RELIVE_KILLS").map_or(9, |n| n.parse().unwrap());
    let mut killed = [0; 3];
    for n in 0..kills {
        let sandbox = Sandbox::new();
        let output = sandbox.path("output");
        let mut command = recording(&sandbox, "400");
        command.stdout(std::fs::File::create(&output).unwrap());
        command.stderr(Stdio::null());
        let mut recorder = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(60 + 29 * (n % 13)));
        let victim = match n % 3 {
            0 => descendant(recorder.id(), |line| {
                line.ends_with("together\x00400\x001000\x00")
            }),
            1 => descendant(recorder.id(), |line| line.contains("\0epoch\0")),
            _ => Some(recorder.id()),
        };
        if let Some(victim) = victim {
            // SAFETY: a process that this test's recorder has started, or the recorder, which is waited for.
            unsafe { libc::kill(victim as i32, libc::SIGKILL) };
            killed[n as usize % 3] += 1;
        }
        let status = wait(&mut recorder);
        let replayed = sandbox.relive(&["replay", "trace"]);
        let words = ["the trace is empty", "there is no trace", "is not a trace"];
        if n % 3 == 2 && words.iter().any(|word| replayed.stderr.contains(word)) {
            // The program had not begun.
            continue;
        }
        let said = || format!("kill {n}, {status}: {replayed:#?}");
        assert!(is_exact(&sandbox, "trace"), "{}", said());
        let output = std::fs::read_to_string(&output).unwrap();
        assert!(output.starts_with(&replayed.stdout), "{}", said());
        match (n % 3, victim) {
            (0, Some(_)) => assert_eq!(replayed.signal(), Some(libc::SIGKILL), "{}", said()),
            (2, _) => assert!(replayed.stderr.contains("cut off"), "{}", said()),
            _ => assert_eq!(replayed.stdout, output),
        }
        let again = sandbox.relive(&["replay", "trace"]);
        assert_eq!(again.stdout, replayed.stdout);
    }
    assert!(killed.iter().all(|n| *n > 0), "{killed:?}");
}

/// A process that a recorder has started, by its command line.
fn descendant(of: u32, is_it: fn(&str) -> bool) -> Option<u32> {
    let mut all = vec![of];
    let mut next = 0;
    while let Some(&pid) = all.get(next) {
        next += 1;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if pid != of && is_it(&String::from_utf8_lossy(&line)) {
            return Some(pid);
        }
        let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(thread.path().join("children"));
            let children = children.unwrap_or_default();
            all.extend(
                children
                    .split_whitespace()
                    .map(|pid| pid.parse::<u32>().unwrap()),
            );
        }
    }
    None
}

#[test]
fn of_several_processes_the_order_is_found_as_a_whole() {
    let sandbox = Sandbox::new();
    let words = ["record", "--mode=uniparallel", "--index=0", "-o", "trace"];
    let script = ["sh", "-c", "ls / | sort | tail -n 1; echo end"];
    let recorded = sandbox.relive(&[&words[..], &script].concat()).ok();
    assert!(is_exact(&sandbox, "trace"));
    let replayed = sandbox.relive(&["replay", "trace"]).ok();
    assert_eq!(replayed.stdout, recorded.stdout);
}

/// Threads race at first, in a way that no search finds: all behind that can be replayed, up to the crash.
#[test]
fn what_lies_behind_an_epoch_that_is_not_found_is_exact() {
    let sandbox = Sandbox::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/phases.c");
    let program = sandbox.compile(&source, "phases");
    let words = [
        "record",
        "--mode=uniparallel",
        "--index=40ms",
        "--no-promoted",
    ];
    let words = [&words[..], &["-o", "trace", text(&program), "400"]].concat();
    let recorded = sandbox.relive(&words);
    assert_eq!(recorded.signal(), Some(libc::SIGABRT));
    assert!(
        recorded.stderr.contains("is not found in "),
        "{recorded:#?}"
    );
    let part = |trace: &str| {
        let replayed = sandbox.relive(&["replay", trace]);
        assert_eq!(replayed.signal(), Some(libc::SIGABRT));
        assert!(recorded.stdout.ends_with(&replayed.stdout));
        assert!(replayed.stdout.contains("\n200\n"), "{replayed:#?}");
        assert!(replayed.stderr.contains("from behind event"));
        replayed.stdout
    };
    let replayed = part("trace");
    sandbox.relive(&["verify", "trace"]).ok();
    let info = sandbox.relive(&["info", "trace"]).ok();
    assert!(info.stdout.contains("before are not found"), "{info:#?}");
    let write = sandbox.relive(&["last-write", "trace", "--var", "counted"]);
    assert!(write.stdout.contains("199 -> 200"), "{write:#?}");
    // Nor is it found by a few more attempts, and then all is as it was.
    let explored = sandbox.relive(&["explore", "trace", "--attempts", "2"]);
    assert_eq!(explored.code(), Some(1), "{explored:#?}");
    assert_eq!(part("trace"), replayed);
    sandbox.relive(&["pack", "trace", "-o", "packed"]).ok();
    sandbox.relive(&["unpack", "packed", "-o", "again"]).ok();
    assert_eq!(part("again"), replayed);
}

/// What is kept while the program runs is searched meanwhile; what is kept at its end, then.
#[test]
fn what_a_flight_keeps_is_exact() {
    let sandbox = Sandbox::new();
    let program = together(&sandbox);
    let words = ["record", "--mode=uniparallel", "--flight=200ms", "--keep"];
    let words = [&words[..], &["-o", "kept", text(&program), "900", "1000"]].concat();
    let command = sandbox.command(&words);
    let recorder = std::thread::spawn(move || finish(command));
    std::thread::sleep(Duration::from_millis(800));
    sandbox.relive(&["keep", "kept"]).ok();
    let until = Instant::now() + Duration::from_secs(60);
    while !is_exact(&sandbox, "kept") && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let ended = recorder.is_finished();
    let recorded = recorder.join().unwrap().ok();
    assert!(!ended, "its order was found behind the end: {recorded:#?}");
    for kept in ["kept", "kept.2"] {
        assert!(is_exact(&sandbox, kept));
        sandbox.relive(&["verify", kept]).ok();
    }
    let replayed = sandbox.relive(&["replay", "kept.2"]).ok();
    assert!(recorded.stdout.ends_with(&replayed.stdout), "{replayed:#?}");
    assert!(!replayed.stdout.is_empty());
}

#[test]
fn what_does_not_go_together_is_refused() {
    let sandbox = Sandbox::new();
    let record = |words: &[&str]| sandbox.relive(&[&["record"], words, &["true"]].concat());
    record(&["--mode=sketch", "--jobs=2"]).refused("--jobs is for --mode uniparallel");
    record(&["--mode=uniparallel", "--commit", "--jobs=0"]).refused("leave one of them out");
}
