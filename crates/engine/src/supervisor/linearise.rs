//! Making a sketch exact: a replay that finds the turns of its threads, and keeps them in the trace.

use std::path::Path;

use relive_trace::{Manifest, TraceWriter, exact_folder};

use super::replay::{ReplayOptions, replay_into};
use crate::failure::{Failure, Result};

/// Finds the turns of a recording whose threads ran at the same time, and keeps them in the trace.
///
/// # Errors
/// The recording does not say enough of their order: expected and actual events are in the message. Then
/// nothing is kept.
pub fn linearise(trace: &Path) -> Result<()> {
    let folder = exact_folder(trace);
    match std::fs::remove_dir_all(&folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(Failure::setup(format!(
                "cannot empty {}: {e}",
                folder.display()
            )));
        }
        _ => {}
    }
    let manifest = Manifest::read(trace).map_err(Failure::setup)?;
    let writer = TraceWriter::create(&folder, &manifest.begun()).map_err(Failure::setup)?;
    let options = ReplayOptions {
        quiet: true,
        ..ReplayOptions::of(trace)
    };
    match replay_into(&options, Some(writer)) {
        Ok(_) => Ok(()),
        Err(failure) => {
            // What is left of it is no recording, and is emptied before the next attempt.
            let _ = std::fs::remove_dir_all(&folder);
            Err(failure)
        }
    }
}
