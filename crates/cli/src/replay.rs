//! `relive replay`.

use relive_engine::Failure;
use relive_engine::supervisor::{self, ReplayOptions, Status};
use relive_engine::timeline::{Ended, Patient, Stopped, Timeline, follow};
use relive_trace::Trace;

use crate::args::ReplayArgs;
use crate::place;
use crate::stats::Stats;

/// Replays a recording; ends as the program ended.
///
/// # Errors
/// Divergence, a recording without its end, or whatever else stops Relive.
pub fn execute(args: &ReplayArgs) -> Result<Status, Failure> {
    let trace = place::open_to_replay(args.trace.trace.as_deref())?;
    if args.from.is_some() || args.to.is_some() || args.process.is_some() {
        return part(args, &trace);
    }
    let replayed = supervisor::replay(&ReplayOptions {
        count: args.stats.stats.is_some(),
        ..ReplayOptions::of(trace.directory())
    });
    if let (Some(how), Ok(Some(totals))) = (args.stats.stats, replayed.as_ref().map(|r| &r.totals))
    {
        Stats::new(totals, None).tell(how);
    }
    judged(&trace, replayed).map(|replayed| replayed.status)
}

/// Replays a part of one process; ends as the process did, if the part has its end.
fn part(args: &ReplayArgs, trace: &Trace) -> Result<Status, Failure> {
    let way = follow(trace, args.process.unwrap_or(0))?;
    let mut timeline = Timeline::open(trace.directory(), &way)?;
    if let Some(from) = args.from {
        if let Some(to) = args.to.filter(|to| *to < from) {
            return Err(Failure::setup(format!(
                "--to {to} is before --from {from}: nothing lies between"
            )));
        }
        timeline.goto_event(from, &mut Patient)?;
        place::tell_if_beyond(from, &timeline);
    }
    timeline.show_output()?;
    let stopped = timeline.forward_to_event(args.to.unwrap_or(u64::MAX), &mut Patient)?;
    Ok(match stopped {
        Stopped::Ended(Ended::Code(code)) => Status::Code(code),
        Stopped::Ended(Ended::Signal(sig)) => Status::Signal(sig),
        _ => Status::Code(0),
    })
}

/// What came of replaying a trace, in the light of whether it has an end.
///
/// # Errors
/// The replay's own failure, and a recording without its end.
pub fn judged<T>(trace: &Trace, replayed: Result<T, Failure>) -> Result<T, Failure> {
    if !place::is_cut_off(trace) {
        return replayed;
    }
    // How the program ended is not known, so no status of its own can be given. And where
    // the tapes end, a replay may well stop in the midst of something.
    let text = "the recording was cut off before its end: what was replayed is its beginning";
    Err(Failure::setup(match replayed {
        Ok(_) => text.to_owned(),
        Err(failure) => format!("{text}; the replay stopped with: {failure}"),
    }))
}
