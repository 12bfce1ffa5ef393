//! The command line of `relive rpc`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::texts::*;

/// What to do with a recording of requests.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub enum RpcCommand {
    /// List the processes of a recording of requests
    #[command(long_about = RPC_LS)]
    Ls(RpcArgs),
    /// Show what each entry point, lock, channel and root has
    #[command(long_about = RPC_INFO)]
    Info(RpcArgs),
    /// Print the order of receipts, and the results of primitives
    #[command(long_about = RPC_DUMP, after_help = RPC_DUMP_AFTER)]
    Dump(RpcDumpArgs),
    /// Show where two recordings part
    #[command(long_about = RPC_DIFF, after_help = RPC_DIFF_AFTER)]
    Diff(RpcDiffArgs),
    /// Show which receipt led to which
    #[command(long_about = RPC_CAUSALITY, after_help = RPC_CAUSALITY_AFTER)]
    Causality(RpcCausalityArgs),
}

// Arguments of commands that need nothing but a recording.
#[derive(Debug, Args)]
pub struct RpcArgs {
    /// Folder of the recording: the DIR of RELIVE_RPC=record:DIR
    pub dir: PathBuf,
    /// Print an array of objects
    #[arg(long)]
    pub json: bool,
}

// Arguments of `rpc dump`.
#[derive(Debug, Args)]
pub struct RpcDumpArgs {
    /// Folder of the recording
    pub dir: PathBuf,
    /// Only this process
    #[arg(short, long, value_name = "NAME")]
    pub process: Option<String>,
    /// Only this entry point, group, lock, channel or root of each process
    #[arg(short, long, value_name = "NAME")]
    pub lane: Option<String>,
    /// From this place of each order
    #[arg(long, value_name = "PLACE", default_value_t = 0)]
    pub from: u64,
    /// Up to this place of each order, and with it
    #[arg(long, value_name = "PLACE")]
    pub to: Option<u64>,
    /// Print one object for each record
    #[arg(long)]
    pub json: bool,
}

// Arguments of `rpc diff`.
#[derive(Debug, Args)]
pub struct RpcDiffArgs {
    /// Folder of one recording
    pub one: PathBuf,
    /// Folder of the other one
    pub other: PathBuf,
    /// Print an array of objects
    #[arg(long)]
    pub json: bool,
}

// Arguments of `rpc causality`.
#[derive(Debug, Args)]
pub struct RpcCausalityArgs {
    /// Folder of the recording
    pub dir: PathBuf,
    /// Only the receipts that led to this one, from the first on: PROCESS/LANE#PLACE
    #[arg(long, value_name = "RECEIPT")]
    pub of: Option<String>,
    /// Print one object for each receipt
    #[arg(long)]
    pub json: bool,
}
