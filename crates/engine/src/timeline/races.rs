//! The races of one process of a recording, by a replay of its own.

use std::path::Path;

use super::processes::Follow;
use super::replay_process::ReplayProcess;
use crate::failure::{Failure, Result};
use crate::guide::races::{RaceHints, Races};
use crate::supervisor::{self, Folder};

/// Looks for races in a process, from its beginning to its end. `tell` is told of the progress, and
/// says whether to go on.
///
/// # Errors
/// Divergence, a damaged trace.
pub fn races(
    trace: &Path,
    follow: &Follow,
    hints: &RaceHints,
    tell: &mut dyn FnMut(&Races) -> bool,
) -> Result<Races> {
    let trace = std::path::absolute(trace).map_err(Failure::setup)?;
    let other_writers = supervisor::other_writers(&trace, &follow.chain)?;
    let changes = other_writers.as_ref().map(Folder::path);
    let (mut host, _) = ReplayProcess::start(&trace, &follow.chain, changes)?;
    host.look_for_races(hints)?;
    loop {
        let races = host.races()?;
        if races.ended || !tell(&races) {
            return Ok(races);
        }
    }
}
