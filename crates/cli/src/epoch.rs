//! The search for the order of one epoch of a recording, in a process of its own: it supervises replays, as several do at the
//! same time. Its answer is a line of JSON on standard output; failures of Relive go to standard error, as anywhere.

use std::path::Path;
use std::process::Command;

use relive_engine::Failure;
use relive_engine::explore::search_epoch;
use relive_engine::supervisor::EndStatus;

use crate::args::EpochArgs;
use crate::output;

/// The command of such a process.
pub fn command(trace: &Path, number: usize) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("epoch").arg("--trace").arg(trace);
    command.arg("--number").arg(number.to_string());
    command
}

/// Searches, and answers.
///
/// # Errors
/// There is no such epoch.
pub fn execute(args: &EpochArgs) -> Result<EndStatus, Failure> {
    let answer = search_epoch(&args.trace, args.number)?;
    let line = serde_json::to_string(&answer).map_err(Failure::internal)?;
    output::print(|out| Ok(writeln!(out, "{line}")?))
}
