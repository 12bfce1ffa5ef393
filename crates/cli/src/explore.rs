//! `relive explore`.

mod failing;
mod orders;
mod plan;

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;

use crate::args::ExploreArgs;

/// Searches.
///
/// # Errors
/// Any failure of Relive.
pub fn execute(args: &ExploreArgs) -> Result<EndStatus, Failure> {
    failing::execute(args)
}
