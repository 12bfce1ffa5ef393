//! A run that failed: how it is shown, here and by other parts of the hunt.

use std::time::Duration;

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;
use relive_trace::Manifest;

use super::exchange::{Announced, Exchange};
use crate::attempt::Outcome;
use crate::place::Place;
use crate::shard::Shard;
use crate::{command_line, escape, format, output};

/// Exit status when a failing run was found, as a test command would say.
const FOUND: i32 = 1;

/// A run that failed.
pub struct FoundRun {
    pub place: Place,
    pub run: u32,
    /// How its threads ran.
    pub schedule: String,
    pub outcome: Outcome,
}

impl FoundRun {
    /// How it failed.
    pub fn how(&self, timeout: Duration) -> String {
        let outcome = &self.outcome;
        match (&outcome.deadlock, outcome.code, outcome.signal) {
            (Some(deadlock), _, _) => deadlock.clone(),
            _ if outcome.timed_out => format!("still running after {}", format::duration(timeout)),
            (None, Some(code), _) => format::status(EndStatus::Code(code)),
            (None, None, signal) => format::status(EndStatus::Signal(signal.unwrap_or(0))),
        }
    }

    /// Makes it the latest recording, which says how it failed; if another run failed first, it goes, as one is kept.
    ///
    /// # Errors
    /// The recording cannot be named or removed.
    pub fn settle(self, is_first: bool, timeout: Duration) -> Result<Option<Self>, Failure> {
        if !is_first {
            return self.place.remove().map(|()| None);
        }
        let failure = format!("{} ({})", self.how(timeout), self.schedule);
        Manifest::note_failure(self.place.path(), failure).map_err(Failure::setup)?;
        self.place.make_latest()?;
        Ok(Some(self))
    }

    /// The exit status that says so.
    pub fn status() -> EndStatus {
        EndStatus::Code(FOUND)
    }

    /// Sends it to where the other parts of the hunt find it. The failing run that ends the hunt may then
    /// be another part's, which was first.
    ///
    /// # Errors
    /// The store's; the recording is damaged.
    pub fn announce(
        &self,
        exchange: &Exchange,
        shard: Shard,
        timeout: Duration,
    ) -> Result<(), Failure> {
        let announced = Announced {
            run: self.run,
            shard: shard.index,
            how: self.how(timeout),
            schedule: self.schedule.clone(),
            file: format!("run-{}.tar.zst", self.run),
        };
        let first = exchange.announce(self.place.path(), &announced)?;
        output::complain(&match first {
            true => format!("sent to {}", exchange.shown(&announced)),
            false => "another part of the hunt was first: see its recording too".to_owned(),
        });
        Ok(())
    }

    /// Shows it, and the commands that come next.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn show(&self, timeout: Duration) -> Result<EndStatus, Failure> {
        let (place, outcome) = (&self.place, &self.outcome);
        let relive = command_line::own_name();
        let name = place.name();
        let (run, how, schedule) = (self.run, self.how(timeout), &self.schedule);
        output::print(|out| {
            writeln!(out, "run {run} failed: {how} ({schedule})")?;
            writeln!(out, "kept as {name}, in {}", place.path().display())?;
            writeln!(out, "next:")?;
            // Without a crash, one looks back from the end.
            let debug = match outcome.signal {
                Some(_) if !outcome.stopped() => "debug --at crash",
                _ => "debug --at end",
            };
            let rows = [
                ("replay", "the same failure again, with its output"),
                (debug, "gdb there, to go back from"),
                ("info", "its processes and threads"),
                ("dump", "all that happened to it"),
            ];
            let rows: Vec<Vec<String>> = rows
                .iter()
                .map(|(command, what)| {
                    vec![format!("  {relive} {command} {name}"), (*what).to_owned()]
                })
                .collect();
            format::table(out, &[], &rows)?;
            Ok(())
        })?;
        Ok(EndStatus::Code(FOUND))
    }
}

/// Shows the failing run of another part of the hunt.
///
/// # Errors
/// Standard output cannot be written.
pub fn show_announced(
    announced: &Announced,
    exchange: &Exchange,
    shard: Shard,
) -> Result<EndStatus, Failure> {
    let relive = command_line::own_name();
    let there = escape::line(exchange.shown(announced).as_bytes());
    let Announced {
        run, how, schedule, ..
    } = announced;
    // The text is another machine's.
    let [how, schedule] = [how, schedule].map(|text| escape::line(text.as_bytes()));
    output::print(|out| {
        let by = announced.shard;
        writeln!(
            out,
            "run {run} failed, in shard {by} of {}: {how} ({schedule})",
            shard.of
        )?;
        writeln!(out, "kept in {there}")?;
        writeln!(out, "next:")?;
        let here = there.strip_prefix("file://").unwrap_or(&there);
        match here.contains("://") {
            true => writeln!(out, "  fetch that file, and give it to {relive} unpack")?,
            false => writeln!(out, "  {relive} unpack {here}")?,
        }
        Ok(())
    })?;
    Ok(EndStatus::Code(FOUND))
}
