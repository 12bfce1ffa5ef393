//! `relive info`.

use std::io::Write;

use relive_engine::Failure;
use relive_engine::explore;
use relive_engine::supervisor::EndStatus;
use relive_sched::Seed;
use relive_trace::{Ending, Recorder, Trace};
use serde_json::{Value, json};

use crate::args::InfoArgs;
use crate::format::{self, number};
use crate::instruction_sets::{missing, needed};
use crate::output::{self, Stop};
use crate::room::Room;
use crate::scan::{Scan, TapeScan};
use crate::{command_line, escape, traces};

/// Shows one recording.
///
/// # Errors
/// The trace is damaged.
pub fn execute(args: &InfoArgs) -> Result<EndStatus, Failure> {
    let trace = traces::open(args.trace.trace.as_deref())?;
    let scan = Scan::of(&trace)?;
    output::print(|out| {
        if args.json {
            writeln!(out, "{:#}", object(&trace, &scan))?;
            return Ok(());
        }
        facts(out, &trace, &scan)?;
        writeln!(out)?;
        threads(out, &scan, trace.manifest().ends_asleep())
    })
}

fn facts(out: &mut dyn Write, trace: &Trace, scan: &Scan) -> Result<(), Stop> {
    let manifest = trace.manifest();
    let end = match &manifest.summary {
        Some(summary) => format::status(format::ended(summary.exit)),
        None if manifest.complete => "it goes on behind its last event".to_owned(),
        None => "unknown".to_owned(),
    };
    let length = traces::length(manifest).map_or("unknown".to_owned(), format::duration);
    let raw: u64 = trace.tapes().iter().map(|tape| tape.raw_bytes).sum();
    let stored: u64 = trace.tapes().iter().map(|tape| tape.stored_bytes).sum();
    let missing = missing(manifest);
    let cpu = if missing.is_empty() {
        "this machine has all that it had".to_owned()
    } else {
        format!("this machine lacks {}", missing.join(" "))
    };
    let mut rows = vec![
        ("trace", trace.directory().display().to_string()),
        (
            "command",
            command_line::shown(&manifest.command, usize::MAX),
        ),
        ("folder", escape::line(&manifest.directory.0)),
        ("ended", end),
        ("failed", manifest.failure.clone().unwrap_or_default()),
        ("length", length),
        ("threads ran", threads_ran(trace)),
        (
            "schedule",
            manifest.chaos_seed.map_or("fair".to_owned(), |seed| {
                format!("chaos seed {}", Seed(seed))
            }),
        ),
        ("epochs", epochs_found(trace)),
        ("processes", number(scan.processes().len() as u64)),
        ("threads", number(scan.threads())),
        ("events", number(scan.events())),
        ("ticks", number(scan.ticks())),
        (
            "size",
            format!(
                "{}; events {}, compressed {}",
                Room::of(trace.directory()).shown(),
                format::size(raw),
                format::size(stored)
            ),
        ),
        (
            "recorder",
            format!(
                "relive {}, trace format {}",
                manifest.relive, manifest.format
            ),
        ),
        (
            "system",
            format!(
                "{} {} {}",
                manifest.system.name, manifest.system.release, manifest.system.machine
            ),
        ),
        ("processor", format!("{}; {cpu}", manifest.cpu.model)),
        ("may need", needed(manifest).join(" ")),
    ];
    if let Some(window) = traces::window(trace) {
        rows.insert(3, ("window", window));
    }
    if traces::is_cut_off(trace) {
        rows.push((
            "note",
            "the recording was cut off before its end".to_owned(),
        ));
    }
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| vec![name.to_owned(), escape::line(value.as_bytes())])
        .collect();
    format::table(out, &[], &rows)?;
    Ok(())
}

/// How threads ran, and whether replays are exact.
fn threads_ran(trace: &Trace) -> String {
    let (manifest, is_exact) = (trace.manifest(), trace.is_exact());
    if manifest.recorder == Recorder::Serial {
        return "one at a time: every replay is exact".to_owned();
    }
    let ordered = match manifest.sites.len() as u64 {
        0 => String::new(),
        n => format!(
            " with {} in order",
            if n == 1 {
                "1 plain access".to_owned()
            } else {
                format!("{} plain accesses", format::number(n))
            }
        ),
    };
    let exact = match is_exact {
        true if trace.is_found_in_part() => {
            "their order has been found from there on: replays of that are exact"
        }
        true => "their order has been found: replays are exact",
        false if manifest.recorder == Recorder::Coherence => {
            "all accesses to memory in order: the first replay is exact, and finds the turns"
        }
        false => "inexact until a replay has found their order",
    };
    let epochs = match epochs(trace) {
        (1, 0) => String::new(),
        (n, missing @ 1..) => format!(
            ", {missing} of {} before are not found (relive explore searches on)",
            format::count(n as u64, "epoch")
        ),
        (n, 0) => format!(", by {}", format::count(n as u64, "epoch")),
    };
    format!("on all cores{ordered}; {exact}{epochs}")
}

/// The epochs by which the first replay of a recording finds its order, and how many of them it has not found; 1: it has been found, or is found
/// as a whole.
fn epochs(trace: &Trace) -> (usize, usize) {
    match (trace.is_exact(), trace.is_found_in_part()) {
        (true, false) => (1, 0),
        (false, _) => (explore::epochs(trace).unwrap_or(1), 0),
        (true, true) => explore::missing_epochs(trace.directory()).unwrap_or((1, 0)),
    }
}

/// How the epochs were found that the exact tapes of a recording are made of; empty: there were none.
fn epochs_found(trace: &Trace) -> String {
    let found = &trace.manifest().epochs;
    let searched = found.iter().filter(|epoch| epoch.attempts > 1);
    let attempts: u32 = searched.clone().map(|epoch| epoch.attempts).sum();
    let all = number(found.len() as u64);
    match (found.len(), searched.count()) {
        (0, _) => String::new(),
        (_, 0) => format!("{all}, each found at once"),
        (_, n) => format!(
            "{all}, {} of them found by a search ({})",
            number(n as u64),
            format::count(attempts.into(), "attempt")
        ),
    }
}

fn threads(out: &mut dyn Write, scan: &Scan, asleep: bool) -> Result<(), Stop> {
    let mut rows = vec![
        ["THREAD", "EVENTS", "TICKS", "END", "PROGRAM"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for process in scan.processes() {
        for thread in scan.threads_of(process) {
            rows.push(vec![
                thread.id.to_string(),
                number(thread.events),
                number(thread.ticks),
                ended(thread, asleep),
                escape::line(thread.programs.join(", then ").as_bytes()),
            ]);
        }
    }
    format::table(out, &[1, 2], &rows)?;
    Ok(())
}

fn ended(thread: &TapeScan, asleep: bool) -> String {
    match thread.end {
        Some((Ending::Killed, signal)) => format::signal(signal),
        Some((Ending::ThreadExit, code)) => format!("thread exit {code}"),
        Some((Ending::ProcessExit, code)) => format!("exit {code}"),
        None if asleep => "asleep".to_owned(),
        None => "none recorded".to_owned(),
    }
}

fn object(trace: &Trace, scan: &Scan) -> Value {
    let manifest = trace.manifest();
    let asleep = manifest.ends_asleep();
    let thread = |tape: &TapeScan| {
        json!({
            "thread": tape.id.thread,
            "tid": tape.tid,
            "events": tape.events,
            "ticks": tape.ticks,
            "end": ended(tape, asleep),
            "programs": tape.programs,
        })
    };
    let process = |&index: &u32| {
        json!({
            "process": index,
            "end": scan.end_of(index).map(|(how, code)| match how {
                Ending::Killed => json!({ "signal": code }),
                Ending::ThreadExit | Ending::ProcessExit => json!({ "code": code }),
            }),
            "threads": scan.threads_of(index).map(thread).collect::<Vec<_>>(),
        })
    };
    let room = Room::of(trace.directory());
    let (all_epochs, missing_epochs) = epochs(trace);
    json!({
        "path": trace.directory().to_string_lossy(),
        "format": manifest.format.to_string(),
        "relive": manifest.relive,
        "created": manifest.created,
        "command": manifest.command,
        "directory": manifest.directory,
        "recorder": manifest.recorder,
        "ordered_sites": manifest.sites.len(),
        "exact": trace.is_exact(),
        "epochs": all_epochs,
        "missing_epochs": missing_epochs,
        "found_epochs": manifest.epochs,
        "chaos_seed": manifest.chaos_seed,
        "failure": manifest.failure,
        "complete": !traces::is_cut_off(trace),
        "exit": manifest.summary.as_ref().map(|s| s.exit),
        "wall_ms": traces::length(manifest).map(|t| t.as_millis() as u64),
        "window": manifest.excerpt.as_ref().map(|excerpt| json!({
            "processes": excerpt.processes.iter().map(|p| json!({ "process": p.process, "event": p.event })).collect::<Vec<_>>(),
            "cut": excerpt.cut,
        })),
        "bytes": room.all,
        "own_bytes": room.own,
        "events": scan.events(),
        "digests": scan.digests(),
        "ticks": scan.ticks(),
        "system": manifest.system,
        "cpu": { "model": manifest.cpu.model, "needed": needed(manifest), "missing": missing(manifest) },
        "processes": scan.processes().iter().map(process).collect::<Vec<_>>(),
    })
}
