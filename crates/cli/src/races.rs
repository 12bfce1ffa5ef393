//! `relive races`.

mod judge;
mod library;
mod places;
mod report;
mod suppressions;

use relive_engine::Failure;
use relive_engine::supervisor::{EndStatus, LearntPlaces, learn_places};
use relive_engine::timeline::{Race, RaceHints, Races, Timeline, follow, processes, races};
use relive_trace::Trace;
use serde_json::{Value, json};

use self::judge::Judge;
use self::report::Report;
use self::suppressions::Suppressions;
use crate::args::RacesArgs;
use crate::output::{self, Stop};
use crate::{format, progress, traces};

/// Exit status when there are races.
const FOUND: i32 = 1;

/// Replays of one process, at most: each may show more words that its threads synchronise by.
const MOST_ROUNDS: usize = 8;

/// Finds the races of a recording.
///
/// # Errors
/// Any failure of the replay, or of the file of suppressions.
pub fn execute(args: &RacesArgs) -> Result<EndStatus, Failure> {
    let suppressions = match &args.suppressions {
        Some(path) => Suppressions::read(path)?,
        None => Suppressions::default(),
    };
    let trace = traces::open_to_replay(args.trace.trace.as_deref())?;
    if args.learn {
        return learn(&trace, args.json);
    }
    let all = match args.process {
        Some(process) => vec![process],
        None => processes(&trace),
    };
    let mut found = FoundRaces::default();
    for process in all {
        // No replay is needed to know that one thread has no race.
        if args.process.is_some() || threads(&trace, process) > 1 {
            in_process(&trace, process, &suppressions, &mut found)?;
        }
    }
    output::print(|out| {
        if args.json {
            return writeln!(out, "{}", found.object()).map_err(Stop::from);
        }
        let name = args.trace.trace.as_ref();
        let name = name.map_or(String::new(), |path| format!("{} ", path.display()));
        for (n, report) in found.reports.iter().enumerate() {
            report.show(out, n + 1, &name)?;
        }
        writeln!(out, "{}", found.sum()).map_err(Stop::from)
    })?;
    Ok(EndStatus::Code(match found.reports.is_empty() {
        true => 0,
        false => FOUND,
    }))
}

/// Keeps the places of all races, for the sketches to come.
fn learn(trace: &Trace, json: bool) -> Result<EndStatus, Failure> {
    let learnt = learn_places(trace.directory())?;
    output::print(|out| {
        let LearntPlaces { all, new } = learnt;
        let line = match json {
            true => json!({ "places": all, "new": new }).to_string(),
            false => format!(
                "{} of races, {new} of them new: sketches that are recorded from now on order them",
                format::count(all as u64, "place")
            ),
        };
        writeln!(out, "{line}").map_err(Stop::from)
    })?;
    Ok(EndStatus::Code(0))
}

/// All that was found.
#[derive(Default)]
struct FoundRaces {
    reports: Vec<Report>,
    suppressed: usize,
    /// There were more than are kept.
    more: bool,
}

impl FoundRaces {
    /// Adds a race. One that has the places of another in its source is the same race.
    fn add(&mut self, report: Report) {
        let mut reports = self.reports.iter_mut();
        match reports.find(|other| other.places() == report.places()) {
            Some(same) => same.merge(&report),
            None => self.reports.push(report),
        }
    }

    fn sum(&self) -> String {
        let count = match self.reports.len() {
            0 => "no races".to_owned(),
            n => format::count(n as u64, "race"),
        };
        let suppressed = match self.suppressed {
            0 => String::new(),
            n => format!(", {n} suppressed"),
        };
        let more = match self.more {
            true => "; there are more, which are found when these are mended",
            false => "",
        };
        format!("{count}{suppressed}{more}")
    }

    fn object(&self) -> Value {
        let all: Vec<Value> = self.reports.iter().map(Report::object).collect();
        json!({ "races": all, "suppressed": self.suppressed, "more": self.more })
    }
}

/// Threads that a process had.
fn threads(trace: &Trace, process: u32) -> usize {
    let tapes = trace.tapes().iter();
    tapes
        .filter(|tape| tape.id.process == process && !tape.id.is_schedule())
        .count()
}

/// Finds the races of one process.
fn in_process(
    trace: &Trace,
    process: u32,
    suppressions: &Suppressions,
    found: &mut FoundRaces,
) -> Result<(), Failure> {
    let way = follow(trace, process)?;
    let search = |hints: &RaceHints| {
        let bar = progress::counter("events");
        let mut tell = |so_far: &Races| {
            bar.set_position(so_far.events);
            bar.set_message(format::count(so_far.races.len() as u64, "pair of places"));
            true
        };
        let races = races(trace.directory(), &way, hints, &mut tell);
        bar.finish_and_clear();
        races
    };
    let mut hints = RaceHints::default();
    let mut seen = search(&hints)?;
    if seen.races.is_empty() {
        return Ok(());
    }
    let mut timeline = Timeline::open(trace.directory(), &way)?;
    let mut judge = Judge::default();
    for _ in 1..MOST_ROUNDS {
        let new = judge.learn(&mut timeline, &seen, &mut hints)?;
        if !new || seen.races.iter().all(|race| judge.is_of_library(race)) {
            break;
        }
        seen = search(&hints)?;
    }
    found.more |= seen.more;
    let mut wanted: Vec<Race> = seen.races;
    wanted.retain(|race| !judge.is_of_library(race));
    wanted.sort_by_key(|race| (race.second.event, race.second.tick));
    let bar = progress::counter("races");
    for race in wanted {
        let report = Report::of(&mut timeline, &mut judge.modules, &race)?;
        bar.inc(1);
        match suppressions.cover(&report) {
            true => found.suppressed += 1,
            false => found.add(report),
        }
    }
    bar.finish_and_clear();
    Ok(())
}
