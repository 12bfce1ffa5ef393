//! `relive verify`.

use std::time::Instant;

use relive_engine::Failure;
use relive_engine::supervisor::{self, ReplayOptions, Status};

use crate::args::TraceArgs;
use crate::format::{self, count};
use crate::scan::Scan;
use crate::{output, place, replay};

/// Replays a recording quietly, checked all the way.
///
/// # Errors
/// Divergence, a damaged trace, a recording without its end, or whatever else stops Relive.
pub fn execute(args: &TraceArgs) -> Result<Status, Failure> {
    let trace = place::open(args.trace.as_deref())?;
    let files = trace.verify_files().map_err(Failure::setup)?;
    let started = Instant::now();
    supervisor::replay(&ReplayOptions {
        trace: trace.directory(),
        quiet: true,
    })?;
    let took = started.elapsed();
    let scan = Scan::of(&trace)?;
    if place::is_cut_off(&trace) {
        return Err(replay::cut_off());
    }
    output::print(|out| {
        writeln!(
            out,
            "verified {}: {} in {} and {}, {} with their registers, {}; replayed in {}",
            trace.directory().display(),
            count(scan.events(), "event"),
            count(scan.threads(), "thread"),
            count(scan.processes().len() as u64, "process"),
            scan.digests(),
            count(files as u64, "file"),
            format::duration(took),
        )?;
        Ok(())
    })
}
