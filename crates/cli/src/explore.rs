//! `relive explore`.

mod failing;
pub mod orders;
pub mod plan;
mod search;

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;

use crate::args::ExploreArgs;

/// Searches for the order of a sketch's threads, or for a failing run near a recording.
///
/// # Errors
/// Any failure of Relive.
pub fn execute(args: &ExploreArgs) -> Result<EndStatus, Failure> {
    match args.failing {
        true => failing::execute(args),
        false => search::execute(args),
    }
}
