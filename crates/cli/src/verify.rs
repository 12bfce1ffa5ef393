//! `relive verify`.

use relive_engine::Failure;
use relive_engine::supervisor::{self, ReplayOptions, Status};

use crate::args::VerifyArgs;
use crate::place;

/// Replays a recording quietly, checked at every event.
///
/// # Errors
/// Divergence, or whatever else stops Relive.
pub fn execute(args: &VerifyArgs) -> Result<Status, Failure> {
    let trace = place::find(args.trace.as_deref())?;
    supervisor::replay(&ReplayOptions {
        trace: &trace,
        quiet: true,
    })?;
    println!("{}: verified", trace.display());
    Ok(Status::Code(0))
}
