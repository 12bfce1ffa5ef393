//! The requested recording, and the requested place in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use relive_engine::Failure;
use relive_engine::explore::{self, FirstFound, FirstReplay, Linearising};
use relive_engine::timeline::{Timeline, Uninterrupted, crashes, processes};
use relive_gdb::At;
use relive_kabi::signal_name;
use relive_trace::{ExitStatus, Manifest, Trace};

use crate::instruction_sets::complain_of_missing;
use crate::{epoch, format, output, packed, progress};

/// The requested trace: by name or folder, or the latest; for a packed one the folder where it is
/// unpacked.
///
/// # Errors
/// There is none.
pub fn find(name: Option<&Path>) -> Result<PathBuf, Failure> {
    // A name in the folder for recordings takes precedence over a file of that name.
    match relive_trace::resolve(name) {
        Ok(found) => Ok(found),
        Err(e) => match name.filter(|path| path.is_file()) {
            Some(file) => packed::folder(file),
            None => Err(Failure::setup(e)),
        },
    }
}

/// Finds and opens a trace.
///
/// # Errors
/// There is none, or it is damaged.
pub fn open(name: Option<&Path>) -> Result<Trace, Failure> {
    relive_engine::raise_descriptor_limit()?;
    Trace::open(&find(name)?).map_err(Failure::setup)
}

/// Finds and opens a trace whose program is about to be executed again, and warns of instruction
/// sets that this machine lacks.
///
/// # Errors
/// There is none, or it is damaged.
pub fn open_to_replay(name: Option<&Path>) -> Result<Trace, Failure> {
    let trace = open(name)?;
    complain_of_missing(&trace);
    if trace.is_exact() {
        return Ok(trace);
    }
    linearise(trace.directory())?;
    Trace::open(trace.directory()).map_err(Failure::setup)
}

/// The same, for a replay of a sketch that needs no order of all its threads.
///
/// # Errors
/// As [`open_to_replay`].
pub fn open_recorded(name: Option<&Path>) -> Result<Trace, Failure> {
    let trace = open(name)?;
    complain_of_missing(&trace);
    Ok(trace)
}

/// Finds the order in which the threads of a sketch ran, before its first replay.
fn linearise(trace: &Path) -> Result<(), Failure> {
    let found = find_order(trace, explore::ATTEMPTS, true)?;
    if let Some((missing, failure)) = &found.missing {
        output::complain(&missing_text(*missing, found.epochs, failure));
        return Ok(());
    }
    let epochs = match found.epochs {
        1 => String::new(),
        n => format!("{}, ", format::count(n as u64, "epoch")),
    };
    let how = match found.attempts {
        0 => "by another process".to_owned(),
        n => format!("{epochs}{}", format::count(n.into(), "attempt")),
    };
    output::tell(&format!(
        "the order of the threads is found ({how}) and kept"
    ));
    Ok(())
}

/// Some epochs of a recording are not found.
pub fn missing_text(missing: usize, epochs: usize, failure: &Failure) -> String {
    let behind = match missing {
        1 => "it",
        _ => "the last of them",
    };
    format!(
        "the order of the threads is not found in {missing} of {}, and known behind {behind}: replays begin there (relive explore \
         searches on). {failure}",
        format::count(epochs as u64, "epoch"),
    )
}

/// The same, without telling of it in the end, by so many attempts for an epoch; where one of them is not found, as a whole or not.
///
/// # Errors
/// It is not found.
pub fn find_order(
    trace: &Path,
    attempts: u32,
    goes_as_a_whole: bool,
) -> Result<FirstFound, Failure> {
    const WHAT: &str = "the order of the threads: attempt";
    let progress = progress::spinner(WHAT, explore::ATTEMPTS.into());
    let how = FirstReplay {
        jobs: jobs(None),
        attempts,
        goes_as_a_whole,
        searcher: &|epoch, attempts| epoch::command(trace, epoch, attempts),
    };
    let found = explore::linearise(trace, &how, &mut |progressed| match progressed {
        Linearising::Attempt(n) => progress.set_position(n.into()),
        Linearising::Epochs(found, all) => progress::epochs(&progress, found, all),
        Linearising::Waits => output::tell(
            "another process is finding the order of the threads of this recording: waiting for it",
        ),
    });
    progress.finish_and_clear();
    found
}

/// Reports that a timeline was to go beyond the last event: it is at the end then.
pub fn tell_if_beyond(asked: u64, timeline: &Timeline) {
    let status = timeline.status();
    if status.ended.is_some() && status.point.event < asked {
        output::complain(&format!(
            "p{} has {} events and no more: this is its end",
            status.process, status.point.event
        ));
    }
}

/// The beginning and the end of a part of a recording, in words; `None` for one of the whole run, or that was cut off against
/// its recorder's will.
pub fn window(trace: &Trace) -> Option<String> {
    let Some(excerpt) = trace.manifest().excerpt.as_ref() else {
        let is_part = trace.is_cut() && !is_cut_off(trace);
        return is_part.then(|| "from its beginning to where it was cut".to_owned());
    };
    let first = excerpt.processes.first()?;
    let others = match excerpt.processes.len() - 1 {
        0 => String::new(),
        1 => " and 1 other process in the midst of it".to_owned(),
        n => format!(" and {n} other processes in the midst of them"),
    };
    let end = match excerpt.cut {
        true => "where it was cut",
        false => "its end",
    };
    Some(format!(
        "from behind event {} of p{}{others} to {end}",
        first.event, first.process
    ))
}

/// The time that a recording took, if it is known.
pub fn length(manifest: &Manifest) -> Option<Duration> {
    let summary = manifest.summary.as_ref();
    // The tapes of a part do not tell it; who keeps the last part of a run knows.
    let known = summary.filter(|summary| manifest.excerpt.is_none() || summary.wall_ms > 0);
    known.map(|summary| Duration::from_millis(summary.wall_ms))
}

/// Refuses an excerpt where the program itself is needed.
///
/// # Errors
/// It is one.
pub fn refuse_excerpt(trace: &Trace, command: &str) -> Result<(), Failure> {
    match window(trace).filter(|_| trace.manifest().excerpt.is_some()) {
        None => Ok(()),
        Some(window) => Err(Failure::unsupported(format!(
            "{command} for a part of a recording ({window}): it starts the program anew, so give it the whole one"
        ))),
    }
}

/// Whether the end of a recording is missing.
pub fn is_cut_off(trace: &Trace) -> bool {
    trace.truncated() || !trace.manifest().complete
}

/// Goes to a place of a recording.
///
/// # Errors
/// Divergence.
pub fn go(timeline: &mut Timeline, at: At) -> Result<(), Failure> {
    at.go(timeline, &mut Uninterrupted)?;
    if let At::Event(n) = at {
        tell_if_beyond(n, timeline);
        let start = timeline.start().event;
        if n < start && timeline.begins_within() {
            output::complain(&format!(
                "the recording begins behind event {start}: this is its beginning"
            ));
        }
    }
    Ok(())
}

/// The function in which a panic can be found, where the exit status is that of one.
fn panic_place(trace: &Trace) -> Option<&'static str> {
    match trace.manifest().summary.as_ref()?.exit {
        ExitStatus::Code(101) => Some("rust_panic"),
        ExitStatus::Code(2) => Some("runtime.gopanic"),
        _ => None,
    }
}

/// The process selected by `--process` and `--at`: with a crash the one that died.
///
/// # Errors
/// No process died, or the trace is damaged.
pub fn process(trace: &Trace, given: Option<u32>, at: At) -> Result<u32, Failure> {
    match (given, at) {
        (Some(n), _) => Ok(n),
        (None, At::Crash) => {
            let all = crashes(trace)?;
            let Some((process, _)) = all.first() else {
                let count = processes(trace).len();
                let what = if count == 1 {
                    "The program"
                } else {
                    "None of its processes"
                };
                let none = if count == 1 { "not " } else { "" };
                let by = match trace.manifest().summary.as_ref().map(|all| all.exit) {
                    // Of SIGKILL nothing is left to see.
                    Some(ExitStatus::Signal(signal)) => {
                        let signal = crate::format::signal(signal);
                        format!(
                            "The program was killed from outside, by {signal}, which has no place"
                        )
                    }
                    _ => format!("{what} was {none}killed by a signal"),
                };
                let panic = panic_place(trace).map(|function| {
                    format!(". A panic is no signal: break {function} and reverse-continue lead to one from there")
                });
                return Err(Failure::setup(format!(
                    "nothing crashed in this recording. {by}; \
                     --at end shows how it ended, relive info all processes{}",
                    panic.unwrap_or_default()
                )));
            };
            if all.len() > 1 {
                let name = |sig: i32| signal_name(sig).unwrap_or("a signal".into());
                let each: Vec<String> = all
                    .iter()
                    .map(|(process, sig)| format!("p{process} by {}", name(*sig)))
                    .collect();
                output::complain(&format!(
                    "{} processes were killed: {}. This is p{process}; --process shows another",
                    all.len(),
                    each.join(", ")
                ));
            }
            Ok(*process)
        }
        (None, At::Spot(spot)) => Ok(spot.process.unwrap_or(0)),
        (None, _) => Ok(0),
    }
}

/// Replays at a time: as many as were asked for, or as there are cores.
pub fn jobs(asked: Option<u32>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.map_or_else(cores, |jobs| jobs as usize)
}
