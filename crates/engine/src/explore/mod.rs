//! The search for an order of threads that a sketch does not say, on from where its first replay gave up: attempts
//! go on from snapshots, several at the same time, their results are kept in the trace, and races are turned
//! around first. The next attempt follows from the known results; snapshots, the number of attempts at the same time
//! and interruptions change the time alone. **An order is believed once a replay from the beginning has
//! gone its way to the end and has written it.**

mod explored;
mod pool;

use std::path::Path;
use std::time::{Duration, Instant};

use relive_trace::{Trace, exact_folder};

use self::explored::{Explored, FailedTrial};
use self::pool::{Pool, Purpose, Running, While};
use crate::failure::{Failure, FailureClass, Result};
use crate::guide::races::Race;
use crate::logging;
use crate::modes::replay::linear::hints::Hints;
use crate::modes::replay::linear::path::{self, Paths};
use crate::modes::replay::linear::search::Search;
use crate::supervisor::{ExactLock, keep_keyboard, try_order};
use crate::timeline::ReplayProcess;

/// The bounds of a search.
#[derive(Clone, Copy, Debug)]
pub struct ExploreOptions {
    /// Most new attempts.
    pub attempts: u32,
    /// Most time.
    pub time: Option<Duration>,
    /// Attempts at the same time.
    pub jobs: usize,
}

/// How a search ended.
#[derive(Debug)]
pub enum ExploreEnd {
    /// The recording is exact now.
    Exact,
    /// No order agrees, of those that were tried. Both sides of the first attempt.
    NotFound(String),
    /// It was interrupted.
    Interrupted,
}

/// An attempt, as a search tells of it.
#[derive(Debug)]
pub struct Attempted<'a> {
    /// Attempts so far, those of earlier searches included.
    pub attempts: u32,
    /// Its decisions, as words.
    pub hints: &'a str,
    /// Events of the process that it agreed with.
    pub events: u64,
    /// The most of all.
    pub best: u64,
    /// Time that it took; `None`: it was known.
    pub time: Option<Duration>,
    /// Why it failed; `None`: it agrees.
    pub why: Option<&'a str>,
}

/// Watches a search.
pub trait ExploreWatcher {
    /// Whether to go on.
    fn goes_on(&mut self) -> bool;

    /// An attempt is over.
    fn attempted(&mut self, attempted: &Attempted<'_>);

    /// These races came last in the attempt that is furthest, the last one last; `at` is a replay of the program.
    fn races(&mut self, races: &[Race], at: Option<&mut ReplayProcess>);
}

/// Searches for an order of the threads of a sketch, and keeps it in the trace. How it ended, and how many attempts
/// are known now.
///
/// # Errors
/// A damaged trace, or the state of the search cannot be kept.
pub fn explore(
    trace: &Path,
    options: &ExploreOptions,
    watcher: &mut dyn ExploreWatcher,
) -> Result<(ExploreEnd, u32)> {
    logging::init();
    keep_keyboard();
    let recording = Trace::open(trace).map_err(Failure::setup)?;
    let processes = recording.manifest().summary.as_ref().map(|s| s.processes);
    let mut exploration = Exploration {
        trace,
        explored: Explored::open(trace)?,
        recording,
        search: Search::default(),
        paths: Paths::new(),
        best: 0,
        looks: None,
        // A copy of a replay has one process.
        forks: processes == Some(1),
        pool: None,
        running: Vec::new(),
        brought: Vec::new(),
        first: None,
        new: 0,
    };
    let end = exploration.run(options, watcher)?;
    let attempts = exploration.search.attempts();
    if matches!(end, ExploreEnd::Exact) {
        exploration.explored.forget();
    }
    Ok((end, attempts))
}

/// The next result that a search needs.
enum Need {
    /// How an order fares.
    Trial(Hints),
    /// The last races of one.
    Races(Hints),
    /// There is nothing left.
    Nothing,
}

struct Exploration<'a> {
    trace: &'a Path,
    recording: Trace,
    explored: Explored,
    search: Search,
    paths: Paths,
    /// Most events that an attempt agreed with.
    best: u64,
    /// The attempt whose races are to be turned around.
    looks: Option<Hints>,
    forks: bool,
    pool: Option<Pool>,
    running: Vec<Running>,
    /// Snapshots of attempts whose turn in the search has not come.
    brought: Vec<(Hints, Vec<pool::TrialSnapshot>)>,
    first: Option<String>,
    /// Attempts of this search.
    new: u32,
}

impl Exploration<'_> {
    fn run(
        &mut self,
        options: &ExploreOptions,
        watcher: &mut dyn ExploreWatcher,
    ) -> Result<ExploreEnd> {
        let until = options.time.and_then(|t| Instant::now().checked_add(t));
        loop {
            let need = self.fold(watcher)?;
            if !watcher.goes_on() {
                return Ok(ExploreEnd::Interrupted);
            }
            let over = self.new >= options.attempts || until.is_some_and(|t| Instant::now() >= t);
            if over || matches!(need, Need::Nothing) {
                return Ok(ExploreEnd::NotFound(self.first.clone().unwrap_or_default()));
            }
            let agrees = match self.forks {
                true => self.fork_trials(need, options.jobs, watcher)?,
                false => self.try_whole(need)?,
            };
            if let Some(hints) = agrees
                && self.confirm(hints, watcher)?
            {
                return Ok(ExploreEnd::Exact);
            }
        }
    }

    /// Takes in all that is known, in the order of the search. Returns the next result that it needs.
    fn fold(&mut self, watcher: &mut dyn ExploreWatcher) -> Result<Need> {
        loop {
            if let Some(hints) = &self.looks {
                let Some(races) = self.explored.raced(hints) else {
                    return Ok(Need::Races(hints.clone()));
                };
                watcher.races(races, self.pool.as_mut().map(Pool::last));
                self.search.raced(races, &self.paths);
                self.looks = None;
            }
            let next = match self.search.attempts() {
                0 => Some(Hints::default()),
                _ => self.search.ahead(1).pop(),
            };
            let Some(hints) = next else {
                return Ok(Need::Nothing);
            };
            let Some(failed) = self.explored.failed(&hints) else {
                return Ok(Need::Trial(hints));
            };
            let (at, events) = (failed.at, failed.events);
            self.best = self.best.max(events);
            self.first.get_or_insert_with(|| failed.why.clone());
            path::read(&self.recording, at.process, &mut self.paths)?;
            let looks = self.search.failed(hints.clone(), &at, events, &self.paths);
            let brought = self.brought.iter().position(|(other, _)| *other == hints);
            let held = brought.map(|place| self.brought.swap_remove(place).1);
            if looks {
                if let (Some(pool), Some(held)) = (&mut self.pool, held) {
                    pool.add(held);
                }
                self.looks = Some(hints);
            }
        }
    }

    /// An attempt has failed.
    fn failed(
        &mut self,
        hints: Hints,
        failed: FailedTrial,
        time: Duration,
        watcher: &mut dyn ExploreWatcher,
    ) -> Result<()> {
        self.new += 1;
        watcher.attempted(&Attempted {
            attempts: self.search.attempts() + 1,
            hints: &hints.to_text(),
            events: failed.events,
            best: self.best.max(failed.events),
            time: Some(time),
            why: Some(&failed.why),
        });
        self.explored.add_failed(hints, failed)
    }

    /// Makes trials until one is over. The decisions of one that agrees.
    fn fork_trials(
        &mut self,
        need: Need,
        jobs: usize,
        watcher: &mut dyn ExploreWatcher,
    ) -> Result<Option<Hints>> {
        let mut pool = match self.pool.take() {
            Some(pool) => pool,
            None => Pool::new(self.trace)?,
        };
        let needed = match need {
            Need::Trial(hints) => (hints, Purpose::Agreement),
            Need::Races(hints) => (hints, Purpose::Races),
            Need::Nothing => return Ok(None),
        };
        let ahead = self.search.ahead(2 * jobs).into_iter();
        let wanted = std::iter::once(needed).chain(ahead.map(|h| (h, Purpose::Agreement)));
        for (n, (hints, purpose)) in wanted.enumerate() {
            let known = purpose == Purpose::Agreement && self.explored.failed(&hints).is_some();
            let mut running = self.running.iter();
            let runs = running.any(|r| r.hints == hints && r.purpose == purpose);
            // An attempt that is needed now waits for nobody.
            if !known && !runs && (n == 0 || self.running.len() < jobs) {
                self.running.push(pool.begin(&hints, purpose)?);
            }
        }
        self.pool = Some(pool);
        for place in pool::wait(&self.running)?.into_iter().rev() {
            let While::Over(trial) = self.running[place].answer()? else {
                continue;
            };
            let running = self.running.swap_remove(place);
            let (hints, time) = (running.hints.clone(), running.time());
            if running.purpose == Purpose::Races {
                self.explored.add_raced(hints, trial.races)?;
                continue;
            }
            let Some((failure, at)) = trial.failed else {
                return Ok(Some(hints));
            };
            let at = at.ok_or_else(|| failure.clone())?;
            self.brought.push((hints.clone(), running.into_held()));
            let failed = FailedTrial {
                at,
                events: trial.events,
                why: failure.to_string(),
            };
            self.failed(hints, failed, time, watcher)?;
        }
        Ok(None)
    }

    /// The same for recordings of several processes: each attempt is a replay of all from the beginning.
    fn try_whole(&mut self, need: Need) -> Result<Option<Hints>> {
        match need {
            Need::Trial(hints) => Ok(Some(hints)),
            Need::Races(hints) => self.explored.add_raced(hints, Vec::new()).map(|()| None),
            Need::Nothing => Ok(None),
        }
    }

    /// Replays an order from the beginning, and writes it; whether it agrees.
    fn confirm(&mut self, hints: Hints, watcher: &mut dyn ExploreWatcher) -> Result<bool> {
        // They are children of this process, which waits for those of that replay.
        self.running.clear();
        self.brought.clear();
        self.pool = None;
        let began = Instant::now();
        let _lock = ExactLock::take(self.trace, &mut || ())?;
        // By a replay that has tried the same orders meanwhile.
        if Trace::open(self.trace).map_err(Failure::setup)?.is_exact() {
            return Ok(true);
        }
        let failed = match try_order(self.trace, &exact_folder(self.trace), &hints) {
            Ok(replayed) => {
                watcher.attempted(&Attempted {
                    attempts: self.search.attempts() + 1,
                    hints: &hints.to_text(),
                    events: replayed.events,
                    best: replayed.events,
                    time: Some(began.elapsed()),
                    why: None,
                });
                return Ok(true);
            }
            Err(failed) => failed,
        };
        let (FailureClass::Divergence, Some(at)) = (failed.failure.class(), failed.at) else {
            return Err(failed.failure);
        };
        let failed = FailedTrial {
            at,
            events: at.events,
            why: failed.failure.to_string(),
        };
        self.failed(hints, failed, began.elapsed(), watcher)?;
        Ok(false)
    }
}
