//! `relive demo`: the main job on a small program with a real race.
//!
//! Nothing is staged: the program is ordinary C, it is run and recorded like any other, by the very
//! commands that a user would type, and every claim is checked before it is made.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use relive_engine::supervisor::EndStatus;
use relive_engine::{EXIT_STATUS, Failure};

use crate::place::Place;
use crate::room::Room;
use crate::unfinished::Unfinished;
use crate::{command_line, format, output};

const SOURCE: &str = include_str!("bank.c");
const FLAGS: [&str; 2] = ["-g", "-pthread"];
const COMPILERS: [&str; 2] = ["cc", "gcc"];

/// How often the program is recorded before the demo gives up.
const RUNS_MAX: u32 = 50;
const NATIVE_RUNS: u32 = 3;
const REPLAYS: u32 = 3;

/// Shows the main job. Status 1: a check failed.
///
/// # Errors
/// There is no C compiler, or any other failure of Relive.
pub fn execute() -> Result<EndStatus, Failure> {
    let make = || {
        let folder = tempfile::Builder::new().prefix("relive-demo-").tempdir();
        folder.map_err(setup("make a temporary folder"))
    };
    let (folder, _unfinished) = Unfinished::begin(make, |folder| folder.path())?;
    say("The program: bank.c, 4 threads that move money between 6 accounts without a lock.");
    say("Money is only moved, so the total must stay 6000.");
    let program = compile(folder.path())?;
    say(&format!("\n{NATIVE_RUNS} runs without Relive:"));
    for run in 1..=NATIVE_RUNS {
        let output = Command::new(&program)
            .stdin(Stdio::null())
            .output()
            .map_err(setup("run the program"))?;
        say(&format!("  run {run}:    {}", last_line(&output)));
    }
    let Some((place, recorded)) = record(&program)? else {
        say(&format!(
            "\nThe total was right in all {RUNS_MAX} recorded runs, so there is nothing to show. Try again."
        ));
        return Ok(EndStatus::Code(1));
    };
    if !replay(&place, &recorded)? {
        say("\nA replay differs from its recording. That is a fault of Relive: please report it.");
        return Ok(EndStatus::Code(1));
    }
    say("\nEvery replay gave the same output and the same exit status.");
    next(&place.name())
}

/// Suggestions for the next commands.
fn next(name: &str) -> Result<EndStatus, Failure> {
    let relive = command_line::own_name();
    let rows = [
        (
            format!("replay {name}"),
            "the same run, as often as you like",
        ),
        (
            format!("debug --at end {name}"),
            "gdb, to go back from the end",
        ),
        (format!("info {name}"), "what was recorded"),
        (format!("dump {name}"), "every event of every thread"),
        (
            "hunt PROGRAM".to_owned(),
            "the same for a flaky test of yours",
        ),
    ];
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(command, what)| vec![format!("  {relive} {command}"), what.to_owned()])
        .collect();
    output::print(|out| {
        writeln!(out, "Next:")?;
        Ok(format::table(out, &[], &rows)?)
    })
}

/// Records the program until its total is wrong; each other recording is removed.
fn record(program: &Path) -> Result<Option<(Place, Output)>, Failure> {
    say("\nRecording it until the total is wrong:");
    for run in 1..=RUNS_MAX {
        let place = Place::numbered(OsStr::new("bank"))?;
        let started = Instant::now();
        let output = relive(&[
            "record".into(),
            "-o".into(),
            place.path().into(),
            "--".into(),
            program.into(),
        ])?;
        let took = format::duration(started.elapsed());
        say(&format!("  run {run}:    {}", last_line(&output)));
        match output.status.code() {
            Some(0) => place.remove()?,
            Some(1) => {
                place.make_latest()?;
                say(&format!(
                    "Kept as {}: {took}, {}.",
                    place.name(),
                    format::size(Room::of(place.path()).all)
                ));
                return Ok(Some((place, output)));
            }
            _ => {
                return Err(Failure::internal(format!(
                    "the recorded program ended with {}",
                    output.status
                )));
            }
        }
    }
    Ok(None)
}

/// Replays the recording; returns whether every replay was the same as the recording.
fn replay(place: &Place, recorded: &Output) -> Result<bool, Failure> {
    say("\nReplaying that recording:");
    let mut all = true;
    for run in 1..=REPLAYS {
        let output = relive(&["replay".into(), place.path().into()])?;
        let same = output.stdout == recorded.stdout
            && output.stderr == recorded.stderr
            && output.status == recorded.status;
        all &= same;
        say(&format!(
            "  replay {run}: {}{}",
            last_line(&output),
            if same { "" } else { "    DIFFERENT" }
        ));
    }
    Ok(all)
}

/// Runs this executable with its output caught.
fn relive(words: &[OsString]) -> Result<Output, Failure> {
    let output = Command::new("/proc/self/exe")
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(setup("start relive again"))?;
    if output.status.code() == Some(EXIT_STATUS) {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::setup(
            text.trim_end().trim_start_matches("relive: ").to_owned(),
        ));
    }
    Ok(output)
}

fn compile(folder: &Path) -> Result<PathBuf, Failure> {
    let (source, program) = (folder.join("bank.c"), folder.join("bank"));
    std::fs::write(&source, SOURCE).map_err(setup("write the program's source"))?;
    for compiler in COMPILERS {
        let output = match Command::new(compiler)
            .args(FLAGS)
            .arg("-o")
            .arg(&program)
            .arg(&source)
            .stdin(Stdio::null())
            .output()
        {
            Ok(output) => output,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(setup("start the C compiler")(error)),
        };
        if output.status.success() {
            return Ok(program);
        }
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::setup(format!(
            "{compiler} does not compile the demo's program; install a C compiler with its headers, such as the package build-essential:\n{}",
            text.trim_end()
        )));
    }
    Err(Failure::setup(
        "the demo compiles a small C program, and there is neither cc nor gcc in $PATH: install a C compiler, or record a program of your own: relive record PROGRAM",
    ))
}

fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().last().unwrap_or("(no output)").to_owned()
}

fn setup(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::setup(format!("cannot {what}: {error}"))
}

/// The demo speaks while it works. Whether it can be heard changes nothing.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}
