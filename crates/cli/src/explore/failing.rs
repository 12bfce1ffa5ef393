//! `relive explore --failing`: the program of a passing recording is recorded again, each time with other orders
//! of the recording turned around, until a run fails.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use indicatif::ProgressBar;
use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;
use relive_sched::{Flip, Seed};
use relive_trace::{ExitStatus, Trace};
use serde_json::json;

use super::orders::FoundOrders;
use super::plan::{Attempt, Plan};
use crate::args::{ExploreArgs, HuntMode};
use crate::attempts::{AttemptStart, Surroundings, attempt};
use crate::hunt::found::FoundRun;
use crate::place::Place;
use crate::{format, interrupt, output, progress, traces};

/// Attempts, if nothing else is said.
const ATTEMPTS: u32 = 500;
/// The seed, if nothing else is said: the same recording is explored in the same way.
const SEED: Seed = Seed(1);

/// A search for a failing neighbour of a recording.
struct Neighbours<'a> {
    args: &'a ExploreArgs,
    command: Vec<OsString>,
    surroundings: Surroundings,
    orders: FoundOrders,
    plan: Plan,
    seed: Seed,
    most: u32,
    until: Option<Instant>,
    /// Attempts that were begun.
    begun: AtomicU32,
    over: AtomicBool,
    gathered: Mutex<GatheredRuns>,
}

#[derive(Default)]
struct GatheredRuns {
    /// The instructions by which threads met in all runs so far.
    sites: BTreeSet<u64>,
    /// Attempts that did not fail.
    passed: u32,
    end: Option<NeighboursEnd>,
}

enum NeighboursEnd {
    Found(Box<FoundRun>),
    Interrupted,
    Failed(Failure),
}

/// Looks for a failing run near a recording.
///
/// # Errors
/// Any failure of Relive; the recording failed itself.
pub fn execute(args: &ExploreArgs) -> Result<EndStatus, Failure> {
    let trace = traces::open_to_replay(args.trace.trace.as_deref())?;
    traces::refuse_excerpt(&trace, "relive explore --failing")?;
    let manifest = trace.manifest();
    let ended = manifest.summary.as_ref().map(|s| s.exit);
    if ended != Some(ExitStatus::Code(0)) {
        let how = ended.map_or("has no end".to_owned(), |exit| {
            format!("failed itself ({})", format::status(format::ended(exit)))
        });
        return Err(Failure::setup(format!(
            "this recording {how}: --failing looks for a failing neighbour of one that passed"
        )));
    }
    if manifest.command.is_empty() {
        return Err(Failure::setup("the recording names no program"));
    }
    let orders = FoundOrders::of(&trace, args.process, None)?;
    let seed = args.seed.unwrap_or(SEED);
    let search = Neighbours {
        args,
        command: manifest
            .command
            .iter()
            .map(|w| w.as_os_str().to_owned())
            .collect(),
        surroundings: surroundings(&trace),
        plan: Plan::new(seed, &orders.all),
        orders,
        seed,
        most: args.attempts.unwrap_or(ATTEMPTS),
        until: args
            .time
            .filter(|t| !t.is_zero())
            .and_then(|t| Instant::now().checked_add(t)),
        begun: AtomicU32::new(0),
        over: AtomicBool::new(false),
        gathered: Mutex::default(),
    };
    interrupt::watch();
    let bar = progress::spinner("attempt", search.most.into());
    thread::scope(|scope| {
        for _ in 0..args.jobs.unwrap_or(1) {
            scope.spawn(|| search.work(&bar));
        }
    });
    bar.finish_and_clear();
    search.finish()
}

/// The working folder and the environment of a recording.
fn surroundings(trace: &Trace) -> Surroundings {
    let manifest = trace.manifest();
    let variables = manifest.environment.iter().filter_map(|variable| {
        let bytes = variable.as_os_str().as_bytes();
        let at = bytes.iter().skip(1).position(|&b| b == b'=')? + 1;
        let part = |bytes| OsStr::from_bytes(bytes).to_owned();
        Some((part(&bytes[..at]), part(&bytes[at + 1..])))
    });
    Surroundings {
        directory: PathBuf::from(manifest.directory.as_os_str()),
        environment: variables.collect(),
    }
}

impl Neighbours<'_> {
    fn gathered(&self) -> MutexGuard<'_, GatheredRuns> {
        self.gathered
            .lock()
            .expect("no thread panics: panics abort")
    }

    fn work(&self, bar: &ProgressBar) {
        let in_time = || self.until.is_none_or(|until| Instant::now() < until);
        while !self.over.load(Ordering::Relaxed) && in_time() {
            let n = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
            if n > self.most {
                return;
            }
            bar.set_position(n.into());
            match self.run(n) {
                Ok(None) => self.gathered().passed += 1,
                Ok(Some(end)) => self.end(end),
                Err(failure) => self.end(NeighboursEnd::Failed(failure)),
            }
        }
    }

    fn run(&self, n: u32) -> Result<Option<NeighboursEnd>, Failure> {
        let attempted = self.plan.attempt(n);
        let (flips, schedule): (&[Flip], String) = match &attempted {
            Attempt::Flips(flips) => (flips, self.orders.show_all(flips)),
            Attempt::Samples => (&[], format!("chaos seed {}", self.seed.nth(n))),
        };
        let mut sites = self.gathered().sites.clone();
        sites.extend(self.orders.sites());
        let sites: Vec<u64> = sites.into_iter().collect();
        let place = Place::numbered(&self.command[0])?;
        let start = AttemptStart {
            program: &self.command[0],
            args: &self.command[1..],
            surroundings: Some(&self.surroundings),
            mode: HuntMode::Serial,
            timeout: self.args.timeout,
            count: false,
            seed: Some(self.seed.nth(n)),
            sites: &sites,
            flips: (self.orders.process, flips),
        };
        let outcome = match attempt(&place, &start, &self.over) {
            Ok(outcome) => outcome,
            Err(failure) => {
                place.remove()?;
                return Err(failure);
            }
        };
        if interrupt::came() {
            place.remove()?;
            return Ok(Some(NeighboursEnd::Interrupted));
        }
        let Some(outcome) = outcome.filter(|_| !self.over.load(Ordering::Relaxed)) else {
            place.remove()?;
            return Ok(None);
        };
        self.gathered().sites.extend(&outcome.sites);
        if self.args.explain {
            let how = if outcome.failed() { "failed" } else { "passed" };
            output::complain(&format!("attempt {n} {how}: {schedule}"));
        }
        if !outcome.failed() {
            place.remove()?;
            return Ok(None);
        }
        Ok(Some(NeighboursEnd::Found(Box::new(FoundRun {
            place,
            run: n,
            schedule,
            outcome,
        }))))
    }

    /// Notes the end, unless another thread has: of two runs that failed one is kept.
    fn end(&self, end: NeighboursEnd) {
        self.over.store(true, Ordering::Relaxed);
        let mut gathered = self.gathered();
        let end = match end {
            NeighboursEnd::Found(found) => {
                match found.settle(gathered.end.is_none(), self.args.timeout) {
                    Ok(Some(found)) => NeighboursEnd::Found(Box::new(found)),
                    Ok(None) => return,
                    Err(failure) => NeighboursEnd::Failed(failure),
                }
            }
            other => other,
        };
        gathered.end.get_or_insert(end);
    }

    fn finish(self) -> Result<EndStatus, Failure> {
        let gathered = self.gathered.into_inner().unwrap_or_default();
        let attempts = format::count(gathered.passed.into(), "attempt");
        match gathered.end {
            Some(NeighboursEnd::Failed(failure)) => Err(failure),
            Some(NeighboursEnd::Interrupted) => {
                output::complain(&format!("interrupted; no run failed in {attempts}"));
                Ok(EndStatus::Signal(interrupt::first()))
            }
            Some(NeighboursEnd::Found(found)) if self.args.json => {
                let status = FoundRun::status();
                let text = json!({
                    "failed": true, "attempts": found.run, "how": found.how(self.args.timeout),
                    "schedule": found.schedule, "recording": found.place.name(),
                    "orders": self.orders.all.len(),
                });
                output::print(|out| Ok(writeln!(out, "{text}")?))?;
                Ok(status)
            }
            Some(NeighboursEnd::Found(found)) => found.show(self.args.timeout),
            None => output::print(|out| {
                let orders = self.orders.all.len();
                match self.args.json {
                    true => {
                        let attempts = gathered.passed;
                        let text =
                            json!({ "failed": false, "attempts": attempts, "orders": orders });
                        writeln!(out, "{text}")?;
                    }
                    false => {
                        let orders = format::count(orders as u64, "order");
                        writeln!(out, "no failure in {attempts} around {orders} of accesses")?;
                    }
                }
                Ok(())
            }),
        }
    }
}
