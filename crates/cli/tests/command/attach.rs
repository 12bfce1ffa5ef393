//! Recordings that begin when somebody asks, in the midst of a run, and go on from there: of programs of which nothing was kept
//! before, and of flight recordings. What is recorded verifies, and replays the output from there on; it ends with the
//! program, or when somebody asks again.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::flight::check_tree;
use crate::sandbox::{Outcome, Sandbox, text, wait};

/// Threads take turns, or run on all cores.
const MODES: [&str; 3] = ["--mode=serial", "--mode=sketch", "--mode=coherence"];

/// A program that runs with recordings in view.
struct Running {
    sandbox: Sandbox,
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    /// Its first line, or all up to one that it was to come to.
    first: String,
}

impl Running {
    fn begin(source: &str, how: &[&str], words: &[&str]) -> Self {
        let sandbox = Sandbox::new();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command");
        let program = sandbox.compile(&folder.join(source), "program");
        let begin = [how, &["-o", "kept", text(&program)], words].concat();
        let mut command = sandbox.command(&begin);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        output.read_line(&mut first).unwrap();
        Self {
            sandbox,
            child,
            output,
            first,
        }
    }

    /// Reads on up to a line.
    fn comes_to(&mut self, line: &str) {
        while !self.first.ends_with(line) {
            let read = self.output.read_line(&mut self.first).unwrap();
            assert!(read > 0, "no {line:?} in {}", self.first);
        }
    }

    fn keep(&self, words: &[&str]) -> Outcome {
        self.sandbox.relive(&[&["keep"], words].concat())
    }

    /// The rest of the output, when all has ended.
    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        wait(&mut self.child);
        rest
    }

    /// Verifies a recording; what its replay writes.
    fn replayed(&self, kept: &str) -> String {
        self.sandbox.relive(&["verify", kept]).ok();
        self.sandbox.relive(&["replay", kept]).stdout
    }
}

fn pause() {
    std::thread::sleep(Duration::from_millis(150));
}

#[test]
fn a_run_is_recorded_from_when_it_is_asked_for() {
    for mode in MODES {
        let how = ["run", "--attachable", mode];
        let mut run = Running::begin("flight.c", &how, &["160", "x"]);
        pause();
        run.keep(&["kept"])
            .refused("relive keep --from-now records what comes");
        let asked = run.keep(&["--from-now", run.first.trim()]).ok();
        assert!(asked.stdout.contains("records from now on"), "{asked:#?}");
        run.keep(&["--from-now", "kept"])
            .refused("it is recorded already");
        let output = run.rest();
        let part = run.replayed("kept");
        assert!(output.ends_with(&part), "{part} of {output}");
        assert!(!part.is_empty() && part.len() < output.len());
        let info = run.sandbox.relive(&["info", "kept"]).ok();
        assert!(info.stdout.contains("SIGSEGV"), "{info:#?}");
        let write = run
            .sandbox
            .relive(&["last-write", "kept", "--var", "count"]);
        assert!(write.ok().stdout.contains("in work"));
    }
}

#[test]
fn a_recording_ends_when_asked_and_another_one_begins() {
    for mode in MODES {
        let how = ["run", "--attachable", mode];
        let mut run = Running::begin("flight.c", &how, &["260"]);
        pause();
        run.keep(&["--from-now", "kept"]).ok();
        pause();
        let first = run.keep(&["--json", "kept"]).ok();
        assert!(first.stdout.contains("kept"), "{first:#?}");
        pause();
        let second = run.keep(&["--from-now", "--json", "kept"]).ok();
        assert!(second.stdout.contains("kept.2"), "{second:#?}");
        let output = run.rest();
        let (one, two) = (run.replayed("kept"), run.replayed("kept.2"));
        assert!(!one.is_empty() && output.contains(&one), "{one}");
        assert!(
            !two.is_empty() && output.ends_with(&two) && !two.contains(&one),
            "{two} behind {one}"
        );
    }
}

#[test]
fn nobody_asks_and_nothing_is_kept() {
    let mut run = Running::begin("flight.c", &["run", "--attachable"], &["20", "9"]);
    run.rest();
    let entries = std::fs::read_dir(run.sandbox.path(".")).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    let kept = |name: &&std::ffi::OsString| name.to_string_lossy().contains("kept");
    assert_eq!(names.iter().find(kept), None, "{names:?}");
}

#[test]
fn a_flight_goes_on_as_a_recording() {
    let how = ["record", "--flight=60ms"];
    let mut run = Running::begin("flight.c", &how, &["200", "x"]);
    pause();
    run.keep(&["kept"]).ok();
    run.keep(&["--from-now", "kept"]).ok();
    pause();
    let output = run.rest();
    let (past, onward) = (run.replayed("kept"), run.replayed("kept.2"));
    assert!(output.contains(&past) && output.ends_with(&onward));
    assert!(onward.len() > past.len() && onward.len() < output.len());
}

#[test]
fn all_processes_of_a_tree_are_recorded() {
    for mode in MODES {
        let how = ["run", "--attachable", mode];
        let mut run = Running::begin("flight_tree.c", &how, &["120"]);
        run.comes_to("talks 360\n");
        run.keep(&["--from-now", "kept"]).ok();
        let output = run.rest();
        let part = run.replayed("kept");
        check_tree(&run.sandbox, "kept", &format!("{}{output}", run.first));
        let count = |text: &str, who: &str| text.matches(who).count();
        for who in ["talks", "vforks"] {
            let (all, some) = (count(&output, who), count(&part, who));
            assert!(some > 0 && some < all, "{who}: {some} of {all}");
        }
    }
}

/// Input that is read before, meanwhile, and behind it.
#[test]
fn input_comes_along() {
    let how = ["run", "--attachable"];
    let mut run = Running::begin("flight_input.c", &how, &["250"]);
    pause();
    run.keep(&["--from-now", "kept"]).ok();
    pause();
    run.keep(&["kept"]).ok();
    run.keep(&["--from-now", "kept"]).ok();
    let output = run.rest();
    let (one, two) = (run.replayed("kept"), run.replayed("kept.2"));
    assert!(output.contains(&one) && output.ends_with(&two));
}

/// The recorder is killed in the midst of a recording: it has what was written by then, and says so.
#[test]
fn a_recorder_that_is_killed_leaves_what_there_was() {
    for mode in MODES {
        let how = ["run", "--attachable", mode];
        let mut run = Running::begin("flight.c", &how, &["4000"]);
        pause();
        run.keep(&["--from-now", "kept"]).ok();
        pause();
        run.child.kill().unwrap();
        let output = run.rest();
        let replayed = run.sandbox.relive(&["replay", "kept"]);
        let part = &replayed.stdout;
        assert!(!part.is_empty() && output.contains(part), "{replayed:#?}");
        assert!(replayed.stderr.contains("cut off"), "{replayed:#?}");
    }
}
