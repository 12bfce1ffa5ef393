//! Arguments of the commands that replay a recording.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use relive_gdb::{Address, At};

use super::stats::StatsArgs;
use super::traces::TraceArgs;
use super::values::{Function, GuestAddress};

// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Show output from where so many events of the process have happened, or another PLACE
    #[arg(long, value_name = "PLACE", conflicts_with = "stats")]
    pub from: Option<At>,
    /// Stop where so many events of the process have happened, or at another PLACE
    #[arg(long, value_name = "PLACE", conflicts_with = "stats")]
    pub to: Option<At>,
    /// With --from or --to, which process: its index in the recording [default: 0]
    #[arg(short, long, value_name = "N", conflicts_with = "stats")]
    pub process: Option<u32>,
    /// Replay a recording by --mode sketch with its threads on all cores, as it was recorded
    #[arg(long, conflicts_with_all = ["from", "to", "process"])]
    pub parallel: bool,
    /// Replay so many parts of an indexed recording at the same time (relive index) [default: 1]
    #[arg(
        short,
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=256),
        conflicts_with_all = ["from", "to", "process", "parallel", "stats"]
    )]
    pub jobs: Option<u32>,
    #[command(flatten)]
    pub stats: StatsArgs,
}

// Arguments of `debug`.
#[derive(Debug, Args)]
pub struct DebugArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Where to begin: start, end, crash, where so many events of the process have happened, or a
    /// position EVENT:TICK
    #[arg(long, value_name = "PLACE", default_value = "start")]
    pub at: At,
    /// Which process: its index in the recording [default: 0; with --at crash the one that died]
    #[arg(short, long, value_name = "N")]
    pub process: Option<u32>,
    /// Do not start gdb: wait for clients there [default: a free port of the loopback interface]
    #[arg(long, value_name = "PORT|ADDR:PORT|unix:PATH", num_args = 0..=1)]
    pub serve: Option<Option<Address>>,
    /// Make no index of a long recording in the background
    #[arg(long)]
    pub no_index: bool,
    /// The gdb to start
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "gdb",
        conflicts_with = "serve"
    )]
    pub gdb: OsString,
    /// Arguments for gdb
    #[arg(last = true, value_name = "ARGS")]
    pub args: Vec<OsString>,
}

// Arguments of `dap`.
#[derive(Debug, Args)]
pub struct DapArgs {
    /// Wait for one editor on this port of the loopback interface; 0 for any that is free
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}

// Arguments of `backtrace`.
#[derive(Debug, Args)]
pub struct BacktraceArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Where: start, end, crash, where so many events of the process have happened, or a position
    /// EVENT:TICK
    #[arg(long, value_name = "PLACE", default_value = "end")]
    pub at: At,
    /// Which process: its index in the recording [default: 0; with --at crash the one that died]
    #[arg(short, long, value_name = "N")]
    pub process: Option<u32>,
    /// All threads, not only the one whose turn it is
    #[arg(short, long)]
    pub all: bool,
    /// Print an object
    #[arg(long)]
    pub json: bool,
}

// Arguments of `races`.
#[derive(Debug, Args)]
pub struct RacesArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Only this process: its index in the recording [default: each by itself]
    #[arg(short, long, value_name = "N")]
    pub process: Option<u32>,
    /// Do not report races that a line of this file covers
    #[arg(short, long, value_name = "FILE")]
    pub suppressions: Option<PathBuf>,
    /// Report no race, and keep the places of all: sketches that are recorded from now on (record --mode sketch, uniparallel)
    /// order them
    #[arg(long, conflicts_with_all = ["process", "suppressions"])]
    pub learn: bool,
    /// Print an object
    #[arg(long)]
    pub json: bool,
}

// Arguments of `last-write`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("memory").required(true).args(["addr", "var"])))]
pub struct LastWriteArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Address of the memory
    #[arg(long, value_name = "ADDR")]
    pub addr: Option<GuestAddress>,
    /// A variable or a part of one, as total, bank.c:total, ns::Class::member,
    /// config.limits[3].max or *ptr->field
    #[arg(long, value_name = "NAME")]
    pub var: Option<String>,
    /// Bytes of it [default: the variable's size, or 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub len: Option<u64>,
    /// Before that many events of the process have happened, or another PLACE [default: where --at
    /// says, or its end]
    #[arg(long, value_name = "PLACE")]
    pub before: Option<At>,
    /// Where to look at the variable: start, end, crash, where so many events have happened, or a
    /// position EVENT:TICK; its frame's local variables are known too [default: where --before says]
    #[arg(long, value_name = "PLACE")]
    pub at: Option<At>,
    /// Which frame's local variables, counted from 0 as in relive backtrace
    #[arg(long, value_name = "N")]
    pub frame: Option<usize>,
    /// Which thread's: its index in the process [default: the one whose turn it is]
    #[arg(short, long, value_name = "N")]
    pub thread: Option<u32>,
    /// Which process: its index in the recording [default: 0; with --at crash the one that died]
    #[arg(short, long, value_name = "N")]
    pub process: Option<u32>,
    /// Replay so many parts of an indexed recording at the same time (relive index) [default: as many
    /// as there are cores, and memory for]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: Option<u32>,
    /// Print an object, or null
    #[arg(long)]
    pub json: bool,
}

// Arguments of `calls`.
#[derive(Debug, Args)]
pub struct CallsArgs {
    /// Its name, or the address of its first instruction
    pub function: Function,
    /// Name or folder of the trace [default: the latest]
    pub trace: Option<PathBuf>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub max: u64,
    /// Which process: its index in the recording
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub process: u32,
    /// Replay so many parts of an indexed recording at the same time (relive index) [default: as many
    /// as there are cores, and memory for]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: Option<u32>,
    /// Print one object for each call
    #[arg(long)]
    pub json: bool,
}

// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Take a checksum of memory every so many events of each process; without it every 500,
    /// or so that the longest recording gets a few hundred, and fewer where there is much memory
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub every: Option<u64>,
    /// Replay so many parts of an indexed recording at the same time (relive index) [default: as many
    /// as there are cores, and memory for]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), conflicts_with = "stats")]
    pub jobs: Option<u32>,
    #[command(flatten)]
    pub stats: StatsArgs,
}

// Arguments of the hidden `travel`.
#[derive(Debug, Args)]
pub struct TravelArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    #[arg(long, default_value_t = 0)]
    pub process: u32,
}
