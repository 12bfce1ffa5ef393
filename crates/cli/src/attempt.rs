//! One run of a hunt, in a process of its own: so that a hunt can be interrupted, and that
//! whatever a recording leaves in a process is gone with it.
//!
//! The hunting process starts it with a pipe as standard output, where one line of JSON
//! says how the run ended. A failure of Relive goes to standard error, as anywhere.

use std::time::Duration;

use relive_engine::Failure;
use relive_engine::supervisor::{self, RecordOptions, Status};
use serde::{Deserialize, Serialize};

use crate::args::AttemptArgs;
use crate::output;

/// How a run ended.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Outcome {
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Signal, if one killed it.
    pub signal: Option<i32>,
    /// It was killed because it did not end in time.
    pub timed_out: bool,
}

impl Outcome {
    /// Whether this is what a hunt looks for.
    pub fn failed(&self) -> bool {
        self.timed_out || self.code != Some(0)
    }
}

/// Records one run silently and says how it ended.
///
/// # Errors
/// Whatever stops Relive.
pub fn execute(args: &AttemptArgs) -> Result<Status, Failure> {
    let recording = supervisor::record(&RecordOptions {
        program: args.guest.program(),
        args: args.guest.args(),
        trace: &args.trace,
        seed: args.seed.map(|seed| (seed.0, true)),
        timeout: args.timeout_ms.map(Duration::from_millis),
        silent: true,
    })?;
    let timed_out = recording.timed_out;
    let outcome = match recording.status {
        Status::Code(code) => Outcome {
            code: Some(code),
            signal: None,
            timed_out,
        },
        Status::Signal(signal) => Outcome {
            code: None,
            signal: Some(signal),
            timed_out,
        },
    };
    let line = serde_json::to_string(&outcome).map_err(Failure::internal)?;
    output::print(|out| Ok(writeln!(out, "{line}")?))
}
