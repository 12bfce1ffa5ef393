//! `relive run`.

use relive_engine::Failure;
use relive_engine::supervisor::{self, Status};

use crate::args::RunArgs;

/// Becomes the program, translated.
///
/// # Errors
/// It cannot be started.
pub fn execute(args: &RunArgs) -> Result<Status, Failure> {
    let never = supervisor::run(args.guest.program(), args.guest.args())?;
    match never {}
}
