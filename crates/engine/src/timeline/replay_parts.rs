//! Replaying a recording in parts at the same time, with its output in order. Must never hand out the output of a part
//! while one before may still diverge.

use relive_trace::Trace;

use super::at_once::{Results, in_order};
use super::parts::ReplayParts;
use super::replay_process::{Interrupter, Uninterrupted};
use crate::failure::{Failure, Result};
use crate::guide::protocol::{Ended, RunRequest};
use crate::supervisor::EndStatus;

/// What a part has to say.
enum PartOutput {
    /// Bytes that the guest wrote to a standard stream.
    Output(u8, Vec<u8>),
    /// The process ended.
    End(Ended),
}

/// Hands output on.
struct Forward<'r, 'a> {
    results: &'r mut Results<'a, PartOutput>,
    gone: bool,
}

impl Interrupter for Forward<'_, '_> {
    fn wanted(&mut self) -> bool {
        self.gone || self.results.wanted()
    }

    fn output(&mut self, stream: u8, bytes: &[u8]) {
        self.gone |= !self.results.put(PartOutput::Output(stream, bytes.to_vec()));
    }
}

/// Replays a recording, up to `jobs` parts of it at a time; `out` gets the number of a standard stream and bytes. How the
/// process ended, which its manifest
/// knows also where it was killed from outside. `None`: it cannot be replayed in parts.
///
/// # Errors
/// Divergence, or that of `out`.
pub fn replay_in_parts(
    trace: &Trace,
    jobs: usize,
    out: &mut dyn FnMut(u8, &[u8]) -> Result<()>,
) -> Result<Option<EndStatus>> {
    let Some(parts) = ReplayParts::of(trace, jobs)? else {
        return Ok(None);
    };
    let work = |part: usize, results: &mut Results<'_, PartOutput>| {
        let (mut host, _) = parts.begin(part, None)?;
        let mut forward = Forward {
            results,
            gone: false,
        };
        // A run with a limit of work ends early where there is much output.
        let run = RunRequest {
            work: Some(u64::MAX),
            output: true,
            ..RunRequest::to_the_end()
        };
        while !forward.wanted() {
            if let Some(end) = parts.go(part, &mut host, &run, &mut forward)? {
                if let Some(ended) = end.ended {
                    results.put(PartOutput::End(ended));
                }
                return Ok(());
            }
        }
        Ok(())
    };
    let mut ended = None;
    let mut take = |_: usize, told: PartOutput| {
        match told {
            PartOutput::Output(stream, bytes) => out(stream, &bytes)?,
            PartOutput::End(how) => ended = Some(how),
        }
        Ok(true)
    };
    in_order(
        parts.count(),
        parts.jobs,
        &work,
        &mut Uninterrupted,
        &mut take,
    )?;
    let summary = trace.manifest().summary.as_ref();
    match (ended, summary.map(|summary| EndStatus::from(summary.exit))) {
        (None, _) => Err(Failure::internal("the last part has no end")),
        (Some(_), Some(status)) => Ok(Some(status)),
        (Some(Ended::Code(code)), None) => Ok(Some(EndStatus::Code(code))),
        (Some(Ended::Signal(signal)), None) => Ok(Some(EndStatus::Signal(signal))),
        // The caller knows that it was cut off.
        (Some(Ended::CutOff), None) => Ok(Some(EndStatus::Code(0))),
    }
}
