//! `relive run`.

use relive_engine::Failure;
use relive_engine::supervisor::{self, EndStatus};

use crate::args::RunArgs;
use crate::stats::Stats;

/// Becomes the program, translated.
///
/// # Errors
/// It cannot be started.
pub fn execute(args: &RunArgs) -> Result<EndStatus, Failure> {
    if let Some(how) = args.stats.stats {
        let counted = supervisor::run_counted(args.guest.program(), args.guest.args())?;
        Stats::new(&counted.totals, None).tell(how);
        return Ok(counted.status);
    }
    let never = supervisor::run(args.guest.program(), args.guest.args())?;
    match never {}
}
