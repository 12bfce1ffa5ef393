//! `relive hunt`.

mod run;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use indicatif::ProgressBar;
use relive_engine::Failure;
use relive_engine::supervisor::{self, EndStatus};
use relive_sched::Seed;

use crate::args::HuntArgs;
use crate::attempt::Outcome;
use crate::place::Place;
use crate::record::random_seed;
use crate::stats::Stats;
use crate::{command_line, format, interrupt, output, progress};

/// Exit status when a failing run was found, as a test command would say.
const FOUND: i32 = 1;

/// A hunt, whose runs are made by one thread or by several at the same time.
struct Hunt<'a> {
    args: &'a HuntArgs,
    /// Runs begun.
    begun: AtomicU32,
    /// No run is to begin, and those that were begun are to end.
    over: AtomicBool,
    results: Mutex<Results>,
}

#[derive(Default)]
struct Results {
    sum: Stats,
    /// The instructions by which threads met in all runs so far.
    sites: Vec<u64>,
    /// The first reason to end the hunt.
    end: Option<End>,
}

enum End {
    Found(Found),
    /// From the keyboard, in this run.
    Interrupted(u32),
    Failed(Failure),
}

/// A run that failed.
struct Found {
    place: Place,
    run: u32,
    seed: Option<Seed>,
    outcome: Outcome,
}

/// Records until a run fails.
///
/// # Errors
/// Any failure of Relive.
pub fn execute(args: &HuntArgs) -> Result<EndStatus, Failure> {
    supervisor::find_program(args.guest.program(), args.guest.args())?;
    interrupt::watch();
    let hunt = Hunt {
        args,
        begun: AtomicU32::new(0),
        over: AtomicBool::new(false),
        results: Mutex::default(),
    };
    let progress = progress::spinner("run", args.max.into());
    std::thread::scope(|scope| {
        for _ in 1..args.jobs {
            scope.spawn(|| hunt.work(&progress));
        }
        hunt.work(&progress);
    });
    progress.finish_and_clear();
    let results = std::mem::take(&mut *hunt.results());
    match results.end {
        Some(End::Failed(failure)) => return Err(failure),
        Some(End::Interrupted(run)) => {
            output::complain(&format!("interrupted in run {run}; no run failed before"));
            return Ok(EndStatus::Signal(libc::SIGINT));
        }
        Some(End::Found(_)) | None => {}
    }
    if let Some(how) = args.stats.stats {
        results.sum.tell(how);
    }
    match results.end {
        Some(End::Found(found)) => found.show(args.timeout),
        _ => output::print(|out| {
            Ok(writeln!(
                out,
                "no failure in {}",
                format::count(args.max.into(), "run")
            )?)
        }),
    }
}

impl Hunt<'_> {
    fn results(&self) -> MutexGuard<'_, Results> {
        self.results.lock().expect("no thread panics: panics abort")
    }

    /// Makes runs until the hunt is over.
    fn work(&self, progress: &ProgressBar) {
        while !self.over.load(Ordering::Relaxed) {
            let run = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
            if run > self.args.max {
                return;
            }
            progress.set_position(run.into());
            if let Some(end) = self.run(run).unwrap_or_else(|e| Some(End::Failed(e))) {
                self.over.store(true, Ordering::Relaxed);
                self.end(end);
            }
        }
    }

    /// Makes a run; returns the end of the hunt, if it is that.
    fn run(&self, run: u32) -> Result<Option<End>, Failure> {
        // A fair schedule first: a program that always fails needs no unlikely one.
        let seed = (run > 1).then(random_seed);
        let place = Place::numbered(self.args.guest.program())?;
        let sites = self.results().sites.clone();
        let outcome = match run::attempt(&place, self.args, seed, &sites, &self.over) {
            Ok(outcome) => outcome,
            Err(failure) => {
                place.remove()?;
                return Err(failure);
            }
        };
        if interrupt::came() {
            place.remove()?;
            return Ok(Some(End::Interrupted(run)));
        }
        // A run that was told to end tells nothing.
        let Some(outcome) = outcome.filter(|_| !self.over.load(Ordering::Relaxed)) else {
            place.remove()?;
            return Ok(None);
        };
        {
            let mut results = self.results();
            if let Some(stats) = &outcome.stats {
                results.sum.add(stats);
            }
            results.sites.extend(&outcome.sites);
            results.sites.sort_unstable();
            results.sites.dedup();
        }
        if !outcome.failed() {
            place.remove()?;
            return Ok(None);
        }
        Ok(Some(End::Found(Found {
            place,
            run,
            seed,
            outcome,
        })))
    }

    /// Notes the end of the hunt, unless another thread has: of two runs that failed one is kept.
    fn end(&self, end: End) {
        let mut results = self.results();
        let end = match end {
            End::Found(found) if results.end.is_some() => match found.place.remove() {
                Ok(()) => return,
                Err(failure) => End::Failed(failure),
            },
            End::Found(found) => match found.place.make_latest() {
                Ok(()) => End::Found(found),
                Err(failure) => End::Failed(failure),
            },
            other => other,
        };
        results.end.get_or_insert(end);
    }
}

impl Found {
    /// Shows it, and the commands that come next.
    fn show(&self, timeout: Duration) -> Result<EndStatus, Failure> {
        let Self {
            place,
            run,
            seed,
            outcome,
        } = self;
        let relive = command_line::own_name();
        let name = place.name();
        let how = match (&outcome.deadlock, outcome.code, outcome.signal) {
            (Some(deadlock), _, _) => deadlock.clone(),
            _ if outcome.timed_out => format!("still running after {}", format::duration(timeout)),
            (None, Some(code), _) => format::status(EndStatus::Code(code)),
            (None, None, signal) => format::status(EndStatus::Signal(signal.unwrap_or(0))),
        };
        let schedule = seed.map_or("fair schedule".to_owned(), |seed| {
            format!("chaos seed {seed}")
        });
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
