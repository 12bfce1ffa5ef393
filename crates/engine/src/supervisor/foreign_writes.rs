//! Finding out, before one process of a group is replayed alone, the changes that the others make
//! to the memory that it shares: by a replay of all of them.

use std::path::Path;

use relive_host::signal::{Disposition, set_disposition};
use relive_trace::{Kind, TapeId, Trace};

use super::children;
use super::folder::Folder;
use super::replay::{ReplayOptions, replay};
use crate::failure::{Failure, Result};

/// A folder with the changes that others make to the memory of these processes; nothing if none
/// of them ever gets the group's baton from another process.
///
/// # Errors
/// A failure of that replay.
pub fn other_writers(path: &Path, processes: &[u32]) -> Result<Option<Folder>> {
    let trace = Trace::open(path).map_err(Failure::setup)?;
    let mut shares = false;
    for &process in processes {
        shares |= waits_for_others(&trace, process)?;
    }
    if !shares {
        return Ok(None);
    }
    let folder = Folder::new("shared")?;
    let replayed = replay(&ReplayOptions {
        quiet: true,
        other_writers: Some((processes, folder.path())),
        ..ReplayOptions::of(path)
    });
    // The replay's settings for the ends of its processes are of no use any more.
    set_disposition(libc::SIGCHLD, Disposition::Default);
    children::inherit_orphans(false);
    replayed.map(|_| Some(folder))
}

/// Whether a process shares memory with others that write to it between its turns.
///
/// # Errors
/// The trace is damaged.
pub fn waits_for_others(trace: &Trace, process: u32) -> Result<bool> {
    let mut tape = match trace.tape(TapeId::schedule(process)) {
        Ok(tape) => tape,
        Err(relive_trace::Error::NoTape { .. }) => return Ok(false),
        Err(e) => return Err(Failure::setup(e)),
    };
    while let Some(event) = tape.next().map_err(Failure::setup)? {
        if matches!(event.kind, Kind::Handover { process: other, .. } if other != process) {
            return Ok(true);
        }
    }
    Ok(false)
}
