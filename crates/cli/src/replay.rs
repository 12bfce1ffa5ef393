//! `relive replay`.

use relive_engine::Failure;
use relive_engine::supervisor::{self, ReplayOptions, Status};

use crate::args::TraceArgs;
use crate::place;

/// Replays a recording; ends as the program ended.
///
/// # Errors
/// Divergence, a recording without its end, or whatever else stops Relive.
pub fn execute(args: &TraceArgs) -> Result<Status, Failure> {
    let trace = place::open(args.trace.as_deref())?;
    let replayed = supervisor::replay(&ReplayOptions {
        trace: trace.directory(),
        quiet: false,
    })?;
    if place::is_cut_off(&trace) {
        return Err(cut_off());
    }
    Ok(replayed.status)
}

/// How the program ended is not known, so no status of its own can be given.
pub fn cut_off() -> Failure {
    Failure::setup("the recording was cut off before its end: what was replayed is its beginning")
}
