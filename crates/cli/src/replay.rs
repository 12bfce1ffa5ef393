//! `relive replay`.

use relive_engine::Failure;
use relive_engine::supervisor::{self, ReplayOptions, Status};

use crate::args::ReplayArgs;
use crate::place;

/// Replays a recording; ends as the program ended.
///
/// # Errors
/// Divergence, or whatever else stops Relive.
pub fn execute(args: &ReplayArgs) -> Result<Status, Failure> {
    let trace = place::find(args.trace.as_deref())?;
    let replayed = supervisor::replay(&ReplayOptions {
        trace: &trace,
        quiet: false,
    })?;
    Ok(replayed.status)
}
