//! Arguments of `explore`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use relive_sched::Seed;

use super::traces::TraceArgs;
use super::values::duration;

// Arguments of `explore`.
#[derive(Debug, Args)]
pub struct ExploreArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Record the program again, with orders of this passing recording turned around, until a run fails
    #[arg(long)]
    pub failing: bool,
    /// Give up after so many attempts [default: 5000; with --failing 500]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts: Option<u32>,
    /// Give up after this time: seconds, or with unit (500ms, 10s, 5m)
    #[arg(long, value_name = "T", value_parser = duration)]
    pub time: Option<Duration>,
    /// So many attempts at the same time [default: as many as there are cores; with --failing 1]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: Option<u32>,
    /// With --failing, which process: its index in the recording [default: the one with the most orders]
    #[arg(short, long, value_name = "N", requires = "failing")]
    pub process: Option<u32>,
    /// With --failing, the seed of all attempts
    #[arg(long, value_name = "SEED", requires = "failing")]
    pub seed: Option<Seed>,
    /// With --failing: a run that takes longer has failed, as one has whose threads wait for each other; 0 for no limit
    #[arg(long, value_name = "T", default_value = "60s", value_parser = duration)]
    pub timeout: Duration,
    /// Say on standard error what each attempt tries, and how it ends
    #[arg(long)]
    pub explain: bool,
    /// Print an object
    #[arg(long)]
    pub json: bool,
}

// Arguments of the hidden `epoch`.
#[derive(Debug, Args)]
pub struct EpochArgs {
    #[arg(long)]
    pub trace: PathBuf,
    #[arg(long)]
    pub epoch: String,
    #[arg(long)]
    pub attempts: u32,
}

// Arguments of the hidden `epochs`.
#[derive(Debug, Args)]
pub struct EpochsArgs {
    #[arg(long)]
    pub trace: PathBuf,
    #[arg(long)]
    pub jobs: usize,
}
