//! The command line of the benchmark.

use std::path::{Path, PathBuf};

use clap::Parser;

/// Measures native, translated, recorded and replayed runs of all workloads.
#[derive(Debug, Parser)]
#[command(name = "cargo bench -p relive-bench --", max_term_width = 90)]
pub struct Options {
    /// Only workloads whose name contains one of these words
    #[arg(value_name = "WORD")]
    pub words: Vec<String>,
    /// The same as a word
    #[arg(long, value_name = "WORD")]
    pub filter: Vec<String>,
    /// Repetitions
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub reps: u32,
    /// One repetition, without other tools
    #[arg(long)]
    pub quick: bool,
    /// Repetitions for other tools (qemu-user, valgrind, gdb), which are slow
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub peer_reps: u32,
    /// Also run `relive verify` once on a trace of each workload
    #[arg(long)]
    pub verify: bool,
    /// Write all samples and figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Put the figures into this page, between its marks
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Measure this build and the command FILE by turns, and print the ratios of their CPU times
    #[arg(long, value_name = "FILE", conflicts_with_all = ["page", "verify", "list"])]
    pub against: Option<PathBuf>,
    /// Measure sketches beside serial recordings instead, on the programs that have a limit for them
    #[arg(long, conflicts_with_all = ["against", "verify", "list"])]
    pub sketches: bool,
    /// The same for recordings with all accesses to memory in order
    #[arg(long, conflicts_with_all = ["against", "verify", "list", "sketches"])]
    pub coherence: bool,
    /// The same for recordings of which each epoch is run again meanwhile
    #[arg(long, conflicts_with_all = ["against", "verify", "list", "sketches", "coherence"])]
    pub uniparallel: bool,
    /// Compute what spare cores give those recordings, from measured times of epochs
    #[arg(long, conflicts_with_all = ["against", "verify", "list", "sketches", "coherence", "uniparallel"])]
    pub spare_cores: bool,
    /// Only list the workloads
    #[arg(long)]
    pub list: bool,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// Reads the command line; a wrong one ends the process.
pub fn parse() -> Options {
    let mut options = Options::parse();
    if options.quick {
        options.reps = 1;
        options.peer_reps = 0;
    }
    options.words.append(&mut options.filter);
    options
}

/// The path of a file that was given relative to the folder of the whole project, where cargo was
/// called: cargo runs a benchmark in the folder of its crate.
pub fn named(path: &Path) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

impl Options {
    /// Whether a workload of this name is wanted.
    pub fn wants(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }
}
