//! `relive verify`.

use std::time::Instant;

use relive_engine::Failure;
use relive_engine::supervisor::{self, ChecksumInterval, EndStatus};
use relive_engine::timeline::verify_in_parts;
use relive_trace::Trace;

use crate::args::VerifyArgs;
use crate::format::{self, count};
use crate::progress::Bar;
use crate::stats::Stats;
use crate::{output, replay, traces};

/// Replays a recording twice, quietly, checked all the way.
///
/// # Errors
/// Divergence, a damaged trace, a recording without its end, or any other failure of Relive.
pub fn execute(args: &VerifyArgs) -> Result<EndStatus, Failure> {
    let trace = traces::open_to_replay(args.trace.trace.as_deref())?;
    let files = trace.verify_files().map_err(Failure::setup)?;
    let counting = args.stats.stats.is_some();
    let started = Instant::now();
    let every = args.every.unwrap_or_else(|| interval(&trace));
    let jobs = match counting {
        true => 1,
        false => traces::jobs(args.jobs),
    };
    let bar = Bar::parts("verifying");
    let in_parts = verify_in_parts(&trace, jobs, every, &mut |done, all| bar.of(done, all));
    drop(bar);
    let (events, checksums, how) = match replay::judged(&trace, in_parts)? {
        Some(all) => {
            let how = format!(", in {} parts, {} at a time", all.parts, all.jobs);
            (all.events, all.checksums, how)
        }
        None => {
            if args.jobs.is_some_and(|jobs| jobs > 1) {
                output::tell(replay::WHOLE);
            }
            let interval = ChecksumInterval {
                events: every,
                by_memory: args.every.is_none(),
            };
            let verified = supervisor::verify(trace.directory(), interval, counting);
            let verified = replay::judged(&trace, verified)?;
            if let (Some(how), Some(totals)) = (args.stats.stats, &verified.totals) {
                Stats::new(totals, None).tell(how);
            }
            (verified.events, verified.checksums, String::new())
        }
    };
    let took = started.elapsed();
    output::print(|out| {
        writeln!(
            out,
            "verified {}{}: {} with their registers, {} of memory, {}; replayed twice in {}{how}",
            trace.directory().display(),
            traces::window(&trace).map_or(String::new(), |window| format!(" ({window})")),
            count(events, "event"),
            count(checksums, "checksum"),
            count(files as u64, "file"),
            format::duration(took),
        )?;
        Ok(())
    })
}

/// Events between two checksums by default: checksums must not cost more than the replay itself.
fn interval(trace: &Trace) -> u64 {
    const LEAST: u64 = 500;
    const CHECKSUMS: u64 = 256;
    let events = trace.manifest().summary.as_ref().map_or(0, |s| s.events);
    LEAST.max(events / CHECKSUMS)
}
