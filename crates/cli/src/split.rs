//! `relive split`: a part of a recording as a recording of its own.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;
use relive_engine::timeline::{Excerpted, Spot, Timeline, follow, make_excerpt, refuse_sharing};
use relive_gdb::At;
use relive_trace::Trace;
use serde_json::json;

use crate::args::SplitArgs;
use crate::format::{count, size};
use crate::place::Place;
use crate::unfinished::Unfinished;
use crate::{output, traces};

/// Splits a part off a recording, which stays as it is.
///
/// # Errors
/// There is nothing between the two places, the recording cannot be cut there, or the new one cannot be
/// written.
pub fn execute(args: &SplitArgs) -> Result<EndStatus, Failure> {
    let trace = traces::open_to_replay(args.trace.trace.as_deref())?;
    if traces::is_cut_off(&trace) && args.to.is_none() {
        return Err(Failure::setup(
            "the recording was cut off before its end: say with --to up to where a part of it goes",
        ));
    }
    let mut timeline = open(args, &trace)?;
    let end = match args.to {
        None | Some(At::End) => None,
        Some(to) => {
            traces::go(&mut timeline, to)?;
            timeline.end_place()?
        }
    };
    traces::go(&mut timeline, args.from)?;
    let wanted = timeline.status();
    let begin = timeline.cut_place()?;
    drop(timeline);
    if end
        .as_ref()
        .is_some_and(|end| !begin.status.point.is_before(&end.status.point))
    {
        return Err(Failure::setup(
            "nothing lies between --from and --to, or the recording cannot be cut at two places there",
        ));
    }
    let exactly = begin.status.point == wanted.point;
    let (from, to) = (
        Spot::of(&begin.status),
        end.as_ref().map(|end| Spot::of(&end.status)),
    );
    let (place, unfinished) = Unfinished::begin(|| place(args, &trace), Place::path)?;
    let made = match make_excerpt(&trace, begin, end.as_ref(), place.path()) {
        Ok(made) => made,
        Err(failure) => {
            // Half of a part is of no use; the first failure counts.
            let _ = std::fs::remove_dir_all(place.path());
            place.withdraw();
            return Err(failure);
        }
    };
    drop(unfinished);
    place.make_latest()?;
    output::print(|out| {
        if args.json {
            let object = json!({
                "path": place.path().to_string_lossy(),
                "from": from.to_string(),
                "to": to.map(|to| to.to_string()),
                "processes": made.processes,
                "events": made.events,
                "image_bytes": made.images,
                "tape_bytes": made.tapes,
                "files": made.files,
            });
            return Ok(writeln!(out, "{object}")?);
        }
        Ok(writeln!(
            out,
            "{}",
            text(&place, &made, &from, to.as_ref(), exactly)
        )?)
    })
}

/// The timeline of the process by which the places are named.
fn open(args: &SplitArgs, trace: &Trace) -> Result<Timeline, Failure> {
    let given = [Some(args.from), args.to].into_iter().flatten();
    let named = given.clone().find_map(|at| match at {
        At::Spot(spot) => spot.process,
        _ => None,
    });
    let crash = given.clone().find(|at| *at == At::Crash);
    let process = traces::process(trace, args.process.or(named), crash.unwrap_or(At::Start))?;
    let way = follow(trace, process)?;
    way.chain
        .iter()
        .try_for_each(|process| refuse_sharing(trace, *process))?;
    Timeline::open(trace.directory(), &way)
}

/// A new folder: existing files stay unchanged.
fn place(args: &SplitArgs, trace: &Trace) -> Result<Place, Failure> {
    let Some(path) = &args.output else {
        let program = trace.manifest().command.first();
        return Place::numbered(OsStr::from_bytes(program.map_or(b"program", |p| &p.0)));
    };
    let place = Place::named(path)?;
    let made = DirBuilder::new().mode(0o700).create(path);
    made.map_err(|e| Failure::setup(format!("{} cannot be made: {e}", path.display())))?;
    Ok(place)
}

fn text(place: &Place, made: &Excerpted, from: &Spot, to: Option<&Spot>, exactly: bool) -> String {
    let until = to.map_or("the end".to_owned(), |to| format!("{to}"));
    let early = match exactly {
        true => "",
        false => " (the last place before --from at which it can begin)",
    };
    format!(
        "split off as {}: from {from}{early} to {until}, {} of {}; images {}, events {}, {}",
        place.name(),
        count(made.events, "event"),
        count(made.processes, "process"),
        size(made.images),
        size(made.tapes),
        count(made.files, "file"),
    )
}
