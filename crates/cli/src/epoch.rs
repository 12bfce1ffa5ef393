//! The search for the order of one epoch of a recording, in a process of its own: it supervises replays, as several do at the
//! same time. Its answer is a line of JSON on standard output. Failures of Relive go to standard error, as anywhere.

use std::path::Path;
use std::process::Command;

use relive_engine::Failure;
use relive_engine::explore::{Epoch, search_epoch};
use relive_engine::supervisor::EndStatus;

use crate::args::EpochArgs;
use crate::output;

/// The command of a process that searches an epoch, by so many attempts at most.
pub fn command(trace: &Path, epoch: Epoch, attempts: u32) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("epoch").arg("--trace").arg(trace);
    command.arg(format!("--epoch={}", epoch.to_text()));
    command.arg(format!("--attempts={attempts}"));
    command
}

/// Searches, and answers.
///
/// # Errors
/// There is no such epoch.
pub fn execute(args: &EpochArgs) -> Result<EndStatus, Failure> {
    let epoch = Epoch::from_text(&args.epoch);
    let epoch = epoch.ok_or_else(|| Failure::setup("--epoch names none"))?;
    let answer = search_epoch(&args.trace, epoch, args.attempts)?;
    let line = serde_json::to_string(&answer).map_err(Failure::internal)?;
    output::print(|out| Ok(writeln!(out, "{line}")?))
}
