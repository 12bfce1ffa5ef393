//! `relive keep`: asks a flight recording that runs to keep what it has.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use relive_engine::Failure;
use relive_engine::supervisor::{ANSWER, ASKED, EndStatus, RUNS};
use serde_json::json;

use crate::args::KeepArgs;
use crate::output;

/// How long an answer is waited for: a copy of much memory takes a while to write.
const PATIENCE: Duration = Duration::from_secs(300);

/// The folder in which a flight recording works that keeps its recordings there.
pub fn work(place: &Path) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!(".{name}.flight"))
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
    std::fs::write(work.join(ASKED), "").map_err(no)?;
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
        false => Ok(writeln!(out, "kept as {text}")?),
    })
}

/// The folder of the work of the flight that is meant.
fn find(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let base = relive_trace::default_dir().map_err(Failure::setup)?;
    let running = running(&base);
    let Some(named) = named else {
        return match &running[..] {
            [one] => Ok(one.clone()),
            [] => Err(Failure::setup(
                "no flight recording runs: start one with relive record --flight, or name its folder",
            )),
            more => Err(Failure::setup(format!(
                "{} flight recordings run: name one by the process id of its relive record, or by its folder",
                more.len()
            ))),
        };
    };
    let pid = named.to_string_lossy().parse::<u32>().ok();
    let by_pid = |work: &&PathBuf| pid.is_some() && runs(work) == pid;
    if let Some(work) = running.iter().find(by_pid) {
        return Ok(work.clone());
    }
    let places = [work(named), work(&base.join(named))];
    let found = places.into_iter().find(|work| lives(work));
    found.ok_or_else(|| {
        Failure::setup(format!(
            "no flight recording runs as {}: relive record --flight starts one",
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

/// All that run among the recordings.
fn running(base: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
    let works = entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with('.') && name.ends_with(".flight")
    });
    works.filter(|work| lives(work)).collect()
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
