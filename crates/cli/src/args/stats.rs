//! The argument of commands that can count the work they do.

use clap::{Args, ValueEnum};

// Whether and how to report the work done.
#[derive(Debug, Clone, Copy, Args)]
pub struct StatsArgs {
    /// At the end, say on standard error what was done: fragments translated, exits by reason,
    /// system calls, events, bytes; as text or json
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text", hide_possible_values = true)]
    pub stats: Option<StatsFormat>,
}

/// How statistics are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatsFormat {
    /// One number in a line.
    Text,
    /// One object in one line.
    Json,
}
