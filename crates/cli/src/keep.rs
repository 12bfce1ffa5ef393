//! `relive keep`: asks a flight recording that runs to keep what it has.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use relive_engine::Failure;
use relive_engine::supervisor::{ANSWER, EndStatus, KeepRequest, RUNS};
use serde_json::json;

use crate::args::KeepArgs;
use crate::output;

/// How long an answer is waited for: a copy of much memory takes a while to write.
const PATIENCE: Duration = Duration::from_secs(300);

/// The end of the name of a folder in which a flight recording works.
const WORK: &str = ".flight";

/// The folder in which a flight recording works that keeps its recordings there.
pub fn work(place: &Path) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!(".{name}{WORK}"))
}

/// Asks, and waits until it is done.
///
/// # Errors
/// No flight recording runs there, or it cannot keep anything.
pub fn execute(args: &KeepArgs) -> Result<EndStatus, Failure> {
    let work = find(args.flight.as_deref())?;
    let no = |e: std::io::Error| Failure::setup(format!("{}: {e}", work.display()));
    let answer = work.join(ANSWER);
    // Of the last one who asked.
    let _ = std::fs::remove_file(&answer);
    let asked = match args.from_now {
        true => KeepRequest::FromNow,
        false => KeepRequest::Past,
    };
    asked.ask(&work).map_err(no)?;
    let began = Instant::now();
    let text = loop {
        match std::fs::read_to_string(&answer) {
            Ok(text) if text.ends_with('\n') => break text,
            _ if !lives(&work) || began.elapsed() > PATIENCE => {
                return Err(Failure::setup(
                    "the flight recording has ended before it answered",
                ));
            }
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let text = text.trim_end();
    if let Some(failure) = text.strip_prefix('!') {
        return Err(Failure::setup(failure));
    }
    output::print(|out| match args.json {
        true => Ok(writeln!(out, "{}", json!({ "path": text }))?),
        false if args.from_now => Ok(writeln!(out, "records from now on, as {text}")?),
        false => Ok(writeln!(out, "kept as {text}")?),
    })
}

/// The folder of the work of the flight that is meant.
fn find(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(named) = named else {
        return match &running()[..] {
            [one] => Ok(one.clone()),
            [] => Err(Failure::setup(
                "no flight recording runs: start one with relive record --flight or relive run --attachable, or \
                 name its folder",
            )),
            more => Err(Failure::setup(format!(
                "{} flight recordings run: name one by the id of its process, or by its folder",
                more.len()
            ))),
        };
    };
    let pid = named.to_string_lossy().parse::<u32>().ok();
    // The recorder, or a process that descends from it.
    let mut line = std::iter::successors(pid, |pid| parent(*pid));
    if let Some(work) = line.find_map(work_of) {
        return Ok(work);
    }
    let base = relive_trace::default_dir().map_err(Failure::setup)?;
    let places = [work(named), work(&base.join(named))];
    let found = places.into_iter().find(|work| lives(work));
    found.ok_or_else(|| {
        Failure::setup(format!(
            "no flight recording runs as {}: relive record --flight and relive run --attachable start one",
            named.display()
        ))
    })
}

/// The process that records into a folder.
fn runs(work: &Path) -> Option<u32> {
    std::fs::read_to_string(work.join(RUNS))
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// The process that is the parent of one; `None`: there is none.
fn parent(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok().filter(|parent| *parent != 0)
}

/// The folders of all flight recordings that run.
fn running() -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(work_of).collect()
}

/// The folder in which a process works, if it is a flight's recorder: it has a file open there.
fn work_of(pid: u32) -> Option<PathBuf> {
    // Those of other users cannot be read.
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let folders = open.flatten().filter_map(|entry| {
        let file = std::fs::read_link(entry.path()).ok()?;
        Some(file.parent()?.to_owned())
    });
    let mut works = folders.filter(|folder| folder.to_string_lossy().ends_with(WORK));
    works.find(|work| runs(work) == Some(pid))
}

/// Whether its recorder runs.
fn lives(work: &Path) -> bool {
    runs(work).is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists())
}

/// Removes the work of a recorder that was killed, in the place of one that is about to begin.
pub fn clear(work: &Path) {
    if work.exists() && !lives(work) {
        // What is left is in the way, and the recorder says so.
        let _ = std::fs::remove_dir_all(work);
    }
}
