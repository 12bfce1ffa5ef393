//! `relive replay`.

use relive_engine::Failure;
use relive_engine::supervisor::{self, ReplayOptions, Status};
use relive_trace::Trace;

use crate::args::TraceArgs;
use crate::place;

/// Replays a recording; ends as the program ended.
///
/// # Errors
/// Divergence, a recording without its end, or whatever else stops Relive.
pub fn execute(args: &TraceArgs) -> Result<Status, Failure> {
    let trace = place::open(args.trace.as_deref())?;
    let replayed = supervisor::replay(&ReplayOptions::of(trace.directory()));
    judged(&trace, replayed).map(|replayed| replayed.status)
}

/// What came of replaying a trace, in the light of whether it has an end.
///
/// # Errors
/// The replay's own failure, and a recording without its end.
pub fn judged<T>(trace: &Trace, replayed: Result<T, Failure>) -> Result<T, Failure> {
    if !place::is_cut_off(trace) {
        return replayed;
    }
    // How the program ended is not known, so no status of its own can be given. And where
    // the tapes end, a replay may well stop in the midst of something.
    let text = "the recording was cut off before its end: what was replayed is its beginning";
    Err(Failure::setup(match replayed {
        Ok(_) => text.to_owned(),
        Err(failure) => format!("{text}; the replay stopped with: {failure}"),
    }))
}
