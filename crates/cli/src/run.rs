//! `relive run`.

use relive_engine::Failure;
use relive_engine::supervisor::{self, EndStatus, FlightWindow};

use crate::args::{RecordArgs, RecordMode, RunArgs};
use crate::record;
use crate::stats::Stats;

/// Becomes the program, translated; or stays beside it, where it may be recorded later.
///
/// # Errors
/// It cannot be started.
pub fn execute(args: &RunArgs) -> Result<EndStatus, Failure> {
    if args.attachable {
        return record::execute(&attachable(args));
    }
    if let Some(how) = args.stats.stats {
        let counted = supervisor::run_counted(args.guest.program(), args.guest.args())?;
        Stats::new(&counted.totals, None).tell(how);
        return Ok(counted.status);
    }
    let never = supervisor::run(args.guest.program(), args.guest.args())?;
    match never {}
}

/// A recording of which nothing is kept until somebody asks: it costs little more than a program that is translated only, and
/// can begin anywhere.
fn attachable(args: &RunArgs) -> RecordArgs {
    RecordArgs {
        output: args.output.clone(),
        mode: args.mode.unwrap_or(RecordMode::Serial),
        no_promoted: false,
        chaos: None,
        index: None,
        jobs: None,
        commit: false,
        flight: Some(Some(FlightWindow::Nothing)),
        keep: false,
        keep_on: None,
        stats: args.stats,
        guest: args.guest.clone(),
    }
}
