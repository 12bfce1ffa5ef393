//! Arguments of the commands that run a program.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use relive_engine::supervisor::FlightWindow;
use relive_sched::Seed;
use relive_trace::Recorder;

use super::flip::FlipArg;
use super::guest::Guest;
use super::stats::StatsArgs;
use super::values::{KeepingSignal, duration, keeping_signal, window};
use crate::shard::ShardArg;

/// How threads run while they are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum RecordMode {
    /// One at a time: every replay is exact
    Serial,
    /// On all cores; the order of atomic instructions and of calls is logged, and a replay finds the rest
    Sketch,
    /// On all cores, all accesses to shared memory in order: every replay is exact
    Coherence,
    /// On all cores; meanwhile spare cores run each epoch again, one thread at a time, until it ends the same: every replay is exact
    Uniparallel,
}

impl RecordMode {
    /// The recorder that it stands for.
    pub fn recorder(self) -> Recorder {
        match self {
            Self::Serial => Recorder::Serial,
            // The order that is found goes beside it.
            Self::Sketch | Self::Uniparallel => Recorder::Sketch,
            Self::Coherence => Recorder::Coherence,
        }
    }
}

/// How threads run in the runs of a hunt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum HuntMode {
    /// One at a time, in turns that are varied: every replay is exact
    Serial,
    /// On all cores, with pauses; a replay finds what was not logged
    Sketch,
}

impl HuntMode {
    /// The recorder of its runs.
    pub fn recorder(self) -> Recorder {
        match self {
            Self::Serial => Recorder::Serial,
            Self::Sketch => Recorder::Sketch,
        }
    }
}

// Arguments of `record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// New or empty folder for the trace
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// How the threads of a process run while they are recorded
    #[arg(long, value_name = "MODE", value_enum, default_value_t = RecordMode::Serial)]
    pub mode: RecordMode,
    /// A sketch orders atomic instructions alone, and not the plain accesses that replays of earlier ones have learnt
    #[arg(long)]
    pub no_promoted: bool,
    /// Vary the schedule to expose bugs (with --mode sketch: let threads pause); the seed, random or given, is printed on
    /// standard error
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true)]
    pub chaos: Option<Option<Seed>>,
    /// Put session images into the trace on the way, at least T apart, so that debuggers open it anywhere at once, as after
    /// `relive index`, and the first replay of threads on all cores goes by epochs [default: 1s; 0: one after the other]
    #[arg(long, value_name = "T", num_args = 0..=1, require_equals = true, value_parser = duration)]
    pub index: Option<Option<Duration>>,
    /// With --mode uniparallel: find the order of so many epochs at the same time [default: half of the cores]; 0: of none
    /// before the program has ended, which leaves all cores to it
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=256))]
    pub jobs: Option<u32>,
    /// With --mode uniparallel: hold what the program writes to standard streams, pipes and sockets back, until the order of
    /// all that it did before is found
    #[arg(long, conflicts_with = "flight")]
    pub commit: bool,
    /// Keep the last part of the run only, T or more, or SIZE of events or less [default: 30s], and that only if the
    /// program ends badly (by a signal, or with a status other than 0) or somebody asks for it
    #[arg(long, value_name = "T|SIZE", num_args = 0..=1, require_equals = true, value_parser = window, conflicts_with = "index")]
    pub flight: Option<Option<FlightWindow>>,
    /// With --flight: keep it at the end, however the program ends
    #[arg(long, requires = "flight")]
    pub keep: bool,
    /// With --flight: also keep what there is when `relive record` gets this signal (such as USR2)
    #[arg(long, value_name = "SIGNAL", requires = "flight", value_parser = keeping_signal)]
    pub keep_on: Option<KeepingSignal>,
    #[command(flatten)]
    pub stats: StatsArgs,
    #[command(flatten)]
    pub guest: Guest,
}

// Arguments of `hunt`.
#[derive(Debug, Args)]
pub struct HuntArgs {
    /// Give up after so many runs
    #[arg(short = 'n', long = "max", value_name = "MAX", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub max: u32,
    /// A run that takes longer has failed, as one has whose threads wait for each other: seconds, or with unit (500ms, 10s, 5m); 0 for no limit
    #[arg(long, value_name = "T", default_value = "60s", value_parser = duration)]
    pub timeout: Duration,
    /// So many runs at the same time: for programs that do not disturb each other by files or ports
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: u32,
    /// How threads run: in turns that are varied from run to run, or on all cores, with pauses
    #[arg(long, value_name = "MODE", value_enum, default_value_t = HuntMode::Serial)]
    pub mode: HuntMode,
    /// The hunt's seed, from which the seeds of all its runs follow; random if it is not given
    #[arg(long, value_name = "SEED")]
    pub seed: Option<Seed>,
    /// Where the parts of a divided hunt meet: a folder that all of them see, or the URL of an object store
    #[arg(long, value_name = "FOLDER|URL")]
    pub results: Option<String>,
    /// Make only this part of the runs: 2/8, or /8 in an indexed job of Kubernetes; a Slurm array says it by itself
    #[arg(long, value_name = "I/N", requires = "results")]
    pub shard: Option<ShardArg>,
    #[command(flatten)]
    pub stats: StatsArgs,
    #[command(flatten)]
    pub guest: Guest,
}

// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Let `relive keep --from-now` record the program from any moment on; until then nothing is kept
    #[arg(long)]
    pub attachable: bool,
    /// With --attachable: new or empty folder for the trace
    #[arg(short, long, value_name = "DIR", requires = "attachable")]
    pub output: Option<PathBuf>,
    /// With --attachable: how the threads of a process run [default: serial]
    #[arg(long, value_name = "MODE", value_enum, requires = "attachable")]
    pub mode: Option<RecordMode>,
    #[command(flatten)]
    pub stats: StatsArgs,
    #[command(flatten)]
    pub guest: Guest,
}

// Arguments of the hidden `attempt`.
#[derive(Debug, Args)]
pub struct AttemptArgs {
    #[arg(long)]
    pub trace: PathBuf,
    #[arg(long, value_enum, default_value_t = HuntMode::Serial)]
    pub mode: HuntMode,
    #[arg(long)]
    pub seed: Option<Seed>,
    #[arg(long)]
    pub timeout_ms: Option<u64>,
    #[arg(long)]
    pub stats: bool,
    #[arg(long, value_delimiter = ',')]
    pub sites: Vec<u64>,
    #[arg(long, value_delimiter = ',')]
    pub flips: Vec<FlipArg>,
    #[arg(long, default_value_t = 0)]
    pub flipped_process: u32,
    #[command(flatten)]
    pub guest: Guest,
}
