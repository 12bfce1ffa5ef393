//! `relive explore` on a sketch: the engine's search, as it is shown.

use std::path::PathBuf;
use std::time::Duration;

use indicatif::ProgressBar;
use relive_engine::Failure;
use relive_engine::explore::{Attempted, ExploreEnd, ExploreOptions, ExploreWatcher, explore};
use relive_engine::supervisor::EndStatus;
use relive_engine::timeline::{Race, RaceAccess, ReplayProcess};
use relive_symbols::Space;
use relive_trace::Trace;
use serde_json::json;

use crate::args::ExploreArgs;
use crate::{format, interrupt, names, output, progress, traces};

/// New attempts, if nothing else is said.
const ATTEMPTS: u32 = 5000;
/// Exit status when no order was found.
const NOT_FOUND: i32 = 1;
/// Races that are explained.
const SHOWN_RACES: usize = 3;

/// Searches for the order of a sketch's threads.
///
/// # Errors
/// Any failure of Relive.
pub fn execute(args: &ExploreArgs) -> Result<EndStatus, Failure> {
    let trace = traces::open(args.trace.trace.as_deref())?;
    if trace.is_exact() && !trace.is_found_in_part() {
        return show(args, &SearchEnd::Was, 0, 0, None);
    }
    if traces::is_cut_off(&trace) {
        return Err(Failure::setup(
            "the recording was cut off before its end, so nothing says which order agrees with it",
        ));
    }
    let options = ExploreOptions {
        attempts: args.attempts.unwrap_or(ATTEMPTS),
        time: args.time,
        jobs: traces::jobs(args.jobs),
    };
    interrupt::watch();
    let mut shown = Shown::new(args, &trace);
    let searched = explore(trace.directory(), &options, &mut shown);
    shown.bar.finish_and_clear();
    let (end, attempts) = searched?;
    match end {
        ExploreEnd::Exact => show(args, &SearchEnd::Found, attempts, shown.new, None),
        ExploreEnd::NotFound(sides) => show(
            args,
            &SearchEnd::NotFound,
            attempts,
            shown.new,
            Some(&sides),
        ),
        ExploreEnd::Interrupted => {
            let attempts = format::count(attempts.into(), "attempt");
            output::complain(&format!(
                "interrupted after {attempts}; what they found out is kept: relive explore goes on"
            ));
            Ok(EndStatus::Signal(interrupt::first()))
        }
    }
}

enum SearchEnd {
    /// It was exact before.
    Was,
    Found,
    NotFound,
}

fn show(
    args: &ExploreArgs,
    end: &SearchEnd,
    attempts: u32,
    new: u32,
    sides: Option<&str>,
) -> Result<EndStatus, Failure> {
    let exact = !matches!(end, SearchEnd::NotFound);
    output::print(|out| {
        if args.json {
            let text = json!({
                "exact": exact, "attempts": attempts, "new": new, "disagreement": sides,
            });
            return Ok(writeln!(out, "{text}")?);
        }
        let attempts = format::count(attempts.into(), "attempt");
        match end {
            SearchEnd::Was => writeln!(out, "the recording is exact already")?,
            SearchEnd::Found => writeln!(
                out,
                "the order of the threads is found (after {attempts} that failed) and kept: the recording is exact"
            )?,
            SearchEnd::NotFound => {
                writeln!(out, "no order that agrees in {attempts}, which are kept")?;
                if let Some(sides) = sides {
                    writeln!(out, "the first one: {sides}")?;
                }
            }
        }
        Ok(())
    })?;
    Ok(EndStatus::Code(if exact { 0 } else { NOT_FOUND }))
}

/// The search as it is shown.
struct Shown<'a> {
    args: &'a ExploreArgs,
    bar: ProgressBar,
    trace: PathBuf,
    events: u64,
    /// Attempts of this search.
    new: u32,
    best: u64,
    race: String,
    space: Option<Space>,
}

impl<'a> Shown<'a> {
    fn new(args: &'a ExploreArgs, trace: &Trace) -> Self {
        let summary = trace.manifest().summary.as_ref();
        let bar = progress::counter("attempts");
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            args,
            bar,
            trace: trace.directory().to_owned(),
            events: summary.map_or(0, |s| s.events),
            new: 0,
            best: 0,
            race: String::new(),
            space: None,
        }
    }

    fn tell(&self) {
        let (best, events, race) = (self.best, self.events, &self.race);
        self.bar
            .set_message(format!("{best} of some {events} events agree; {race}"));
    }

    /// A race for people.
    fn name(&self, race: &Race) -> String {
        let place = |access: &RaceAccess| {
            let named = self.space.as_ref().map(|space| space.name(access.pc));
            let name = named.map(|named| super::orders::place_name(&named, access.pc));
            let name = name.unwrap_or_else(|| format!("{:#x}", access.pc));
            let how = if access.writes { "writes" } else { "reads" };
            format!("t{} {how} in {name}", access.thread)
        };
        format!("{}, then {}", place(&race.first), place(&race.second))
    }
}

impl ExploreWatcher for Shown<'_> {
    fn goes_on(&mut self) -> bool {
        !interrupt::came()
    }

    fn attempted(&mut self, attempted: &Attempted<'_>) {
        self.new += 1;
        self.best = attempted.best;
        self.bar.set_position(attempted.attempts.into());
        self.tell();
        if self.args.explain {
            let Attempted {
                events,
                hints,
                why,
                time,
                ..
            } = attempted;
            let (n, decisions) = (self.new, hints.split_ascii_whitespace().count());
            let decisions = format::count(decisions as u64, "decision");
            let time = time.map_or(String::new(), |t| format!(", {} us", t.as_micros()));
            let how = match why {
                None => "agrees".to_owned(),
                Some(why) => why.lines().next().unwrap_or_default().to_owned(),
            };
            output::complain(&format!(
                "attempt {n} ({decisions}: {}{time}): {events} events, {how}",
                hints.trim_end()
            ));
        }
    }

    fn races(&mut self, races: &[Race], at: Option<&mut ReplayProcess>) {
        if !self.args.explain && self.bar.is_hidden() {
            // Names take longer than an attempt.
            return;
        }
        if let Some(host) = at {
            self.space = Some(names::space_of(host, &self.trace));
        }
        let last: Vec<String> = races.iter().rev().map(|race| self.name(race)).collect();
        if self.args.explain {
            for race in last.iter().take(SHOWN_RACES) {
                output::complain(&format!("a race before the disagreement: {race}"));
            }
        }
        self.race = last.first().cloned().unwrap_or_default();
        self.tell();
    }
}
