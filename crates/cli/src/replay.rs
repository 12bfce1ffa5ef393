//! `relive replay`.

use std::io::{self, Write};

use relive_engine::supervisor::{self, EndStatus, ReplayOptions};
use relive_engine::timeline::{
    Ended, Point, Stopped, Timeline, Uninterrupted, follow, replay_in_parts,
};
use relive_engine::{Failure, FailureClass};
use relive_gdb::At;
use relive_trace::Trace;

use crate::args::ReplayArgs;
use crate::stats::Stats;
use crate::{output, traces};

/// Replays a recording; ends as the program ended.
///
/// # Errors
/// Divergence, a recording without its end, or any other failure of Relive.
pub fn execute(args: &ReplayArgs) -> Result<EndStatus, Failure> {
    let trace = match args.parallel {
        true => traces::open_recorded(args.trace.trace.as_deref())?,
        false => traces::open_to_replay(args.trace.trace.as_deref())?,
    };
    if let Some(window) = traces::window(&trace) {
        let before = match trace.manifest().excerpt {
            Some(_) => ": output before it is not repeated",
            None => "",
        };
        output::complain(&format!("this is a part of a recording, {window}{before}"));
    }
    if args.from.is_some() || args.to.is_some() || args.process.is_some() {
        return part(args, &trace);
    }
    if let Some(jobs) = args.jobs.filter(|jobs| *jobs > 1) {
        let replayed = replay_in_parts(&trace, jobs as usize, &mut write);
        if let Some(status) = judged(&trace, replayed)? {
            return Ok(status);
        }
        output::tell(WHOLE);
    }
    let replayed = supervisor::replay(&ReplayOptions {
        count: args.stats.stats.is_some(),
        parallel: args.parallel,
        ..ReplayOptions::of(trace.directory())
    });
    if let (Some(how), Ok(Some(totals))) = (args.stats.stats, replayed.as_ref().map(|r| &r.totals))
    {
        Stats::new(totals, None).tell(how);
    }
    judged(&trace, replayed).map(|replayed| replayed.status)
}

/// Why `--jobs` has no effect.
pub const WHOLE: &str = "the recording is replayed as a whole: it has no index (relive index makes one), several processes, or more memory than there is room for twice";

/// Writes the guest's output.
fn write(stream: u8, bytes: &[u8]) -> Result<(), Failure> {
    let written = match stream {
        1 => {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
        _ => io::stderr().write_all(bytes),
    };
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => FailureClass::Closed.into(),
        _ => Failure::setup(format!("the output cannot be written: {error}")),
    })
}

/// Replays a part of one process; ends as the process did, if the part has its end.
fn part(args: &ReplayArgs, trace: &Trace) -> Result<EndStatus, Failure> {
    let given = [args.from, args.to].into_iter().flatten();
    let named = given.clone().find_map(|at| match at {
        At::Spot(spot) => spot.process,
        _ => None,
    });
    let crash = given.clone().find(|at| *at == At::Crash);
    let process = traces::process(trace, args.process.or(named), crash.unwrap_or(At::Start))?;
    let mut timeline = Timeline::open(trace.directory(), &follow(trace, process)?)?;
    let to = match args.to {
        None | Some(At::End) => None,
        Some(At::Event(n)) => Some(Point::behind_event(n)),
        Some(to) => {
            traces::go(&mut timeline, to)?;
            let there = timeline.status();
            there.ended.is_none().then_some(there.point)
        }
    };
    traces::go(&mut timeline, args.from.unwrap_or(At::Start))?;
    let from = timeline.status().point;
    if args.from.is_some() && to.is_some_and(|to| to.event < from.event || precedes(&to, &from)) {
        return Err(Failure::setup(
            "--to is before --from: nothing lies between",
        ));
    }
    timeline.show_output()?;
    let stopped = timeline.forward_to(to, &mut Uninterrupted)?;
    Ok(match stopped {
        Stopped::Ended(Ended::Code(code)) => EndStatus::Code(code),
        Stopped::Ended(Ended::Signal(sig)) => EndStatus::Signal(sig),
        _ => EndStatus::Code(0),
    })
}

/// Whether a position is before another one behind the same event.
fn precedes(one: &Point, other: &Point) -> bool {
    let behind = Point::behind_event(one.event);
    *one != behind && one.is_before(other)
}

/// The result of replaying a trace, given whether the trace has an end.
///
/// # Errors
/// The replay's own failure, and a recording without its end.
pub fn judged<T>(trace: &Trace, replayed: Result<T, Failure>) -> Result<T, Failure> {
    // A reader that has gone says nothing about the recording.
    if !traces::is_cut_off(trace)
        || matches!(&replayed, Err(failure) if failure.class() == FailureClass::Closed)
    {
        return replayed;
    }
    // The program's exit status is unknown, so no status of its own can be given. And where the
    // tapes end, a replay may well stop in the midst of an operation.
    let text = "the recording was cut off before its end: what was replayed is its beginning";
    Err(Failure::setup(match replayed {
        Ok(_) => text.to_owned(),
        Err(failure) => format!("{text}; the replay stopped with: {failure}"),
    }))
}
