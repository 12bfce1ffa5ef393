//! Which processes a recording has, and what one has to follow to get to one of them.

use relive_trace::{Ending, Kind, Origin, TapeId, Trace};

use crate::failure::{Failure, Result};

/// The way to one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    /// Indexes of the processes, from the first one to the one that is meant.
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
    let mut tape = trace
        .tape(TapeId::new(process, 0))
        .map_err(Failure::setup)?;
    Ok(match tape.next().map_err(Failure::setup)?.map(|e| e.kind) {
        Some(Kind::Start(s)) if s.origin != Origin::Root => Some(s.parent.process),
        _ => None,
    })
}

/// The first process that was killed by a signal, with that signal.
///
/// # Errors
/// The trace is damaged.
pub fn crashed(trace: &Trace) -> Result<Option<(u32, i32)>> {
    let tapes = trace.tapes().iter().filter(|t| !t.id.is_schedule());
    let mut found: Option<(u32, i32)> = None;
    for info in tapes {
        let mut tape = trace.tape(info.id).map_err(Failure::setup)?;
        while let Some(event) = tape.next().map_err(Failure::setup)? {
            if let Kind::End {
                how: Ending::Killed,
                code,
                ..
            } = event.kind
                && found.is_none_or(|(p, _)| info.id.process < p)
            {
                found = Some((info.id.process, code));
            }
        }
    }
    Ok(found)
}
