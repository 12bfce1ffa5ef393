//! The processes of a recording, and the ancestors to follow to get to one of them.

use std::collections::BTreeMap;

use relive_trace::{Ending, Kind, Origin, TapeId, Trace};

use crate::failure::{Failure, Result};

/// The way to one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    /// Indexes of the processes, from the first one to the wanted one.
    pub chain: Vec<u32>,
}

/// Indexes of all recorded processes.
#[must_use]
pub fn processes(trace: &Trace) -> Vec<u32> {
    let mut all: Vec<u32> = trace.tapes().iter().map(|t| t.id.process).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The way to a process.
///
/// # Errors
/// There is none of that index, or the trace is damaged.
pub fn follow(trace: &Trace, process: u32) -> Result<Follow> {
    let all = processes(trace);
    if !all.contains(&process) {
        return Err(Failure::setup(format!(
            "the recording has no process {process}: relive info lists them"
        )));
    }
    let mut chain = vec![process];
    let mut at = process;
    while let Some(parent) = parent(trace, at)? {
        if chain.contains(&parent) {
            return Err(Failure::setup(
                "the trace is damaged: a process is its own parent",
            ));
        }
        chain.insert(0, parent);
        at = parent;
    }
    Ok(Follow { chain })
}

fn parent(trace: &Trace, process: u32) -> Result<Option<u32>> {
    if begins(trace, process) {
        return Ok(None);
    }
    let mut tape = trace
        .tape(TapeId::new(process, 0))
        .map_err(Failure::setup)?;
    Ok(match tape.next().map_err(Failure::setup)?.map(|e| e.kind) {
        Some(Kind::Start(s)) if s.origin != Origin::Root => Some(s.parent.process),
        _ => None,
    })
}

/// Whether a recording begins with an image of a process, which then comes from no other.
fn begins(trace: &Trace, process: u32) -> bool {
    let excerpt = trace.manifest().excerpt.as_ref();
    excerpt.is_some_and(|excerpt| excerpt.process(process).is_some())
}

/// Signals that a program dies of because of a fault of its own (signal(7): those that dump
/// core by default).
const FAULTS: [i32; 9] = [
    libc::SIGSEGV,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGXCPU,
    libc::SIGXFSZ,
];

/// The processes that were killed by a signal, with that signal: those that died of a fault of
/// their own come first, then by index.
///
/// # Errors
/// The trace is damaged.
pub fn crashes(trace: &Trace) -> Result<Vec<(u32, i32)>> {
    let tapes = trace.tapes().iter().filter(|t| !t.id.is_schedule());
    let mut found: BTreeMap<u32, i32> = BTreeMap::new();
    for info in tapes {
        let mut tape = trace.tape(info.id).map_err(Failure::setup)?;
        while let Some(event) = tape.next().map_err(Failure::setup)? {
            if let Kind::End {
                how: Ending::Killed,
                code,
                ..
            } = event.kind
            {
                found.insert(info.id.process, code);
            }
        }
    }
    let mut all: Vec<(u32, i32)> = found.into_iter().collect();
    all.sort_by_key(|(process, sig)| (!FAULTS.contains(sig), *process));
    Ok(all)
}

/// The process that another one made, by the process id that it had while it was
/// recorded; the last one, if ids were given anew.
///
/// # Errors
/// The trace is damaged.
pub fn child(trace: &Trace, parent: u32, pid: u32) -> Result<Option<u32>> {
    let mut found = None;
    for process in processes(trace) {
        if begins(trace, process) {
            continue;
        }
        let mut tape = trace
            .tape(TapeId::new(process, 0))
            .map_err(Failure::setup)?;
        if let Some(Kind::Start(s)) = tape.next().map_err(Failure::setup)?.map(|e| e.kind)
            && s.origin != Origin::Root
            && (s.parent.process, s.pid) == (parent, pid)
        {
            found = Some(process);
        }
    }
    Ok(found)
}
