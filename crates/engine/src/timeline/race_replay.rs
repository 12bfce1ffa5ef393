//! The races of one process of a recording, or its orders of accesses, by a replay of its own.

use std::path::Path;

use super::ancestors::Follow;
use super::replay_process::ReplayProcess;
use crate::failure::{Failure, Result};
use crate::guide::races::{AccessOrder, RaceHints, Races};
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
    look(trace, follow, &|host| host.look_for_races(hints), tell)
}

/// Looks for orders of accesses that might have been others, in the same way.
///
/// # Errors
/// As [`races`].
pub fn orders(
    trace: &Path,
    follow: &Follow,
    tell: &mut dyn FnMut(&Races) -> bool,
) -> Result<Vec<AccessOrder>> {
    Ok(look(trace, follow, &ReplayProcess::look_for_orders, tell)?.orders)
}

fn look(
    trace: &Path,
    follow: &Follow,
    begin: &dyn Fn(&mut ReplayProcess) -> Result<()>,
    tell: &mut dyn FnMut(&Races) -> bool,
) -> Result<Races> {
    let trace = std::path::absolute(trace).map_err(Failure::setup)?;
    let other_writers = supervisor::other_writers(&trace, &follow.chain)?;
    let changes = other_writers.as_ref().map(Folder::path);
    let (mut host, _) = ReplayProcess::start(&trace, &follow.chain, changes)?;
    begin(&mut host)?;
    loop {
        let races = host.races()?;
        if races.ended || !tell(&races) {
            return Ok(races);
        }
    }
}
