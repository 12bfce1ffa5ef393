//! Arguments of the commands about a trace as files.

use std::path::PathBuf;

use clap::Args;
use relive_gdb::At;

use super::values::size;

// Arguments of the commands that need nothing but a trace.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Name or folder of the trace [default: the latest]
    pub trace: Option<PathBuf>,
}

// Arguments of `index`.
#[derive(Debug, Args)]
pub struct IndexArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Which processes, by their index in the recording; may be given several times [default: the
    /// first one, and the one that crashed]
    #[arg(short, long, value_name = "N")]
    pub process: Vec<u32>,
    /// So many images of each process at even distances, even if they save little time [default: at
    /// most 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub images: Option<u64>,
    /// No more images when they have so many bytes; those near the end may have half of them
    /// [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_size: Option<u64>,
    /// Replay from each image to the end, and compare memory and registers there
    #[arg(long)]
    pub check: bool,
    /// Compare the images that there are, of whichever maker, with a replay from the beginning: at their places and at the
    /// end; makes none
    #[arg(long, conflicts_with_all = ["process", "images", "max_size", "check", "remove"])]
    pub compare: bool,
    /// Remove the index
    #[arg(long, conflicts_with_all = ["process", "images", "max_size", "check"])]
    pub remove: bool,
}

// Arguments of `split`.
#[derive(Debug, Args)]
pub struct SplitArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Where the part begins: start, crash, where so many events of the process have happened, or a position
    /// EVENT:TICK
    #[arg(long, value_name = "PLACE", default_value = "start")]
    pub from: At,
    /// Where it ends, likewise [default: where the recording ends]
    #[arg(long, value_name = "PLACE")]
    pub to: Option<At>,
    /// The process whose places these are: its index in the recording [default: 0; with crash the one that died]
    #[arg(short, long, value_name = "N")]
    pub process: Option<u32>,
    /// New folder for the part [default: a numbered one among the recordings]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print an object
    #[arg(long)]
    pub json: bool,
}

// Arguments of `keep`.
#[derive(Debug, Args)]
pub struct KeepArgs {
    /// Name or folder of the flight recording, or the id of a process of its program, or of its `relive record` or
    /// `relive run` [default: the one that runs]
    pub flight: Option<PathBuf>,
    /// Record all from now on, until the program ends, or `relive keep` asks for what there is by then
    #[arg(long)]
    pub from_now: bool,
    /// Print an object
    #[arg(long)]
    pub json: bool,
}

// Arguments of `pack`.
#[derive(Debug, Args)]
pub struct PackArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// The new file [default: the recording's name, with .tar.zst]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Leave source files out
    #[arg(long)]
    pub no_sources: bool,
}

// Arguments of `unpack`.
#[derive(Debug, Args)]
pub struct UnpackArgs {
    /// The packed recording
    pub file: PathBuf,
    /// New folder for the recording
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Unpack it even if it becomes very much larger
    #[arg(long)]
    pub any_size: bool,
}

// Arguments of `ls`.
#[derive(Debug, Args)]
pub struct LsArgs {
    /// Print an array of objects
    #[arg(long)]
    pub json: bool,
}

// Arguments of `info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Print an object
    #[arg(long)]
    pub json: bool,
}

// Arguments of `dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Only this process: its index in the recording, 0 is the first
    #[arg(short, long, value_name = "N")]
    pub process: Option<u32>,
    /// Only this thread of each process: its index in the process, 0 is the first
    #[arg(short, long, value_name = "N")]
    pub thread: Option<u32>,
    /// From the event of this index on each tape
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    pub from: u64,
    /// Up to the event of this index on each tape, and with it
    #[arg(long, value_name = "INDEX")]
    pub to: Option<u64>,
    /// Print one object for each event
    #[arg(long)]
    pub json: bool,
}
