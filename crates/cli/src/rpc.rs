//! `relive rpc`: looks at recordings of requests, and changes nothing.

mod causality;
mod diff;
mod dump;
mod list;
mod recording;

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;

use crate::args::RpcCommand;

/// Executes one of the commands.
///
/// # Errors
/// A recording cannot be read.
pub fn execute(command: &RpcCommand) -> Result<EndStatus, Failure> {
    match command {
        RpcCommand::Ls(args) => list::ls(args),
        RpcCommand::Info(args) => list::info(args),
        RpcCommand::Dump(args) => dump::execute(args),
        RpcCommand::Diff(args) => diff::execute(args),
        RpcCommand::Causality(args) => causality::execute(args),
    }
}
