//! One run of a hunt, in a process of its own: so that a hunt can be interrupted, and that all
//! state which a recording leaves in a process is gone with it.
//!
//! The hunting process starts it with a pipe as standard output, where one line of JSON
//! says how the run ended. A failure of Relive goes to standard error, as anywhere.

use std::time::Duration;

use relive_engine::Failure;
use relive_engine::supervisor::{self, EndStatus, RecordOptions};
use relive_sched::Flip;
use serde::{Deserialize, Serialize};

use crate::args::AttemptArgs;
use crate::output;
use crate::stats::Stats;

/// Outcome of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Signal, if one killed it.
    pub signal: Option<i32>,
    /// It was killed because it did not end in time.
    pub timed_out: bool,
    /// It was killed because its threads waited for each other: a sentence that says how.
    pub deadlock: Option<String>,
    /// Addresses of instructions by which threads met, in this run or those before.
    pub sites: Vec<u64>,
    /// The counters, if they were requested.
    pub stats: Option<Stats>,
}

impl Outcome {
    /// Whether it did not end by itself.
    pub fn stopped(&self) -> bool {
        self.timed_out || self.deadlock.is_some()
    }

    /// Whether a hunt looks for this outcome.
    pub fn failed(&self) -> bool {
        self.stopped() || self.code != Some(0)
    }
}

/// Records one run silently and reports its outcome.
///
/// # Errors
/// Any failure of Relive.
pub fn execute(args: &AttemptArgs) -> Result<EndStatus, Failure> {
    let flips: Vec<Flip> = args.flips.iter().map(|flip| flip.0).collect();
    let recording = supervisor::record(&RecordOptions {
        recorder: args.mode.recorder(),
        program: args.guest.program(),
        args: args.guest.args(),
        trace: &args.trace,
        seed: args.seed.map(|seed| (seed.0, true)),
        deadlocks: true,
        timeout: args.timeout_ms.map(Duration::from_millis),
        silent: true,
        count: args.stats,
        promotes: true,
        sites: &args.sites,
        flight: None,
        images: None,
        epochs: None,
        flips: (args.flipped_process, &flips),
    })?;
    let (code, signal) = match recording.status {
        EndStatus::Code(code) => (Some(code), None),
        EndStatus::Signal(signal) => (None, Some(signal)),
    };
    let counted = recording.totals.as_ref();
    let outcome = Outcome {
        code,
        signal,
        timed_out: recording.timed_out,
        deadlock: recording.deadlock.as_ref().map(ToString::to_string),
        sites: recording.sites.clone(),
        stats: counted.map(|totals| Stats::new(totals, Some(&recording.summary))),
    };
    let line = serde_json::to_string(&outcome).map_err(Failure::internal)?;
    output::print(|out| Ok(writeln!(out, "{line}")?))
}
