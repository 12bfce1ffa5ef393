//! The search itself: the next attempt follows from the known results. Must never believe an order that a replay from the
//! beginning has not written.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use relive_trace::Trace;

use super::epoch_state::image_state;
use super::explored::{Explored, FailedTrial};
use super::pool::{self, Pool, Purpose, Running, While};
use crate::failure::{Failure, FailureClass, Result};
use crate::guide::races::Race;
use crate::modes::replay::epoch::Epoch;
use crate::modes::replay::linear::hints::Hints;
use crate::modes::replay::linear::path::{self, Paths};
use crate::modes::replay::linear::search::Search;
use crate::modes::replay::linear::wanted::TurnLength;
use crate::supervisor::{ExactLock, Stretch, try_order, waits_for_others};
use crate::timeline::{ReplayProcess, follow, processes};

/// Work before a disagreement that is looked at for races, which takes many times as long as to replay it.
const RACES_WITHIN: u64 = 1 << 20;

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

/// The next result that a search needs.
enum Need {
    /// How an order fares in the process that is searched.
    Trial(Hints),
    /// The last races of one.
    Races(Hints),
    /// How an order fares in all processes.
    Whole(Hints),
    /// There is nothing left.
    Nothing,
}

pub(super) struct Exploration<'a> {
    stretch: &'a Stretch,
    recording: Trace,
    /// All processes of the recording.
    processes: Vec<u32>,
    pub(super) explored: Explored,
    /// The process whose order is searched; not known before all of them have been replayed once.
    process: Option<u32>,
    /// Decisions that agree with the processes that were searched before.
    base: Hints,
    pub(super) search: Search,
    paths: Paths,
    /// Most events that an attempt agreed with.
    best: u64,
    /// The attempt whose races are to be turned around.
    looks: Option<Hints>,
    /// Copies of the process make the attempts, from snapshots; one that shares memory with others is replayed with
    /// all of them, from the beginning.
    forks: bool,
    /// No attempt of this search has left snapshots.
    fresh: bool,
    pool: Option<Pool>,
    running: Vec<Running>,
    /// Snapshots of attempts whose turn in the search has not come.
    brought: Vec<(Hints, Vec<pool::TrialSnapshot>)>,
    first: Option<String>,
    /// Attempts of this run whose turn in the search has not come.
    made: HashSet<Hints>,
    /// Those whose turn has come: jobs that try what may come next make no difference.
    new: u32,
    /// The caller has the [`ExactLock`].
    pub(super) locked: bool,
}

impl<'a> Exploration<'a> {
    pub(super) fn of(stretch: &'a Stretch) -> Result<Self> {
        let recording = Trace::open_recorded(&stretch.trace).map_err(Failure::setup)?;
        let processes = processes(&recording);
        Ok(Self {
            stretch,
            explored: Explored::open(&stretch.notes)?,
            recording,
            processes,
            process: None,
            base: Hints::default(),
            search: Search::default(),
            paths: Paths::new(),
            best: 0,
            looks: None,
            forks: false,
            fresh: false,
            pool: None,
            running: Vec::new(),
            brought: Vec::new(),
            first: None,
            made: HashSet::new(),
            new: 0,
            locked: false,
        })
    }

    /// All processes of the recording.
    pub(super) fn processes(&self) -> &[u32] {
        &self.processes
    }

    /// Attempts that are known.
    pub(super) fn attempts(&self) -> u32 {
        self.explored.count()
    }

    /// Searches the order of this process from here on; the decisions agree with those before.
    fn turn_to(&mut self, process: u32, base: Hints) -> Result<()> {
        self.end_trials();
        self.search = Search::with(self.first_orders(process, &base)?);
        self.looks = None;
        (self.process, self.base) = (Some(process), base);
        let mut alone = true;
        for process in follow(&self.recording, process)?.chain {
            alone &= !waits_for_others(&self.recording, process)?;
        }
        (self.forks, self.fresh) = (alone, alone);
        Ok(())
    }

    /// The orders that are tried before others: turns as in the decisions at hand, and long ones. Those that are known to agree for longest come
    /// first, as what follows from the others is worth less. A search that goes on begins with the same ones.
    fn first_orders(&mut self, process: u32, base: &Hints) -> Result<Vec<Hints>> {
        if let Some(begun) = self.explored.begun(base, process) {
            return Ok(begun.to_vec());
        }
        self.read_paths(process)?;
        let mut orders = vec![base.clone(), base.with_long_turns(process, 0)];
        let known = self.explored.all_failed();
        orders.extend(known.filter_map(|(hints, _)| {
            let near = hints.long_turns(process).filter(|&near| near > 0)?;
            (base.with_long_turns(process, near) == *hints).then(|| hints.clone())
        }));
        let threads = self.paths.get(&process);
        let agreed = |hints: &Hints| {
            let at = self.explored.failed(hints)?.at;
            let path = threads?.get(&at.thread).filter(|_| at.process == process)?;
            Some(path.way(at.moments).until.1)
        };
        orders.sort_by_cached_key(|hints| (Reverse(agreed(hints)), hints.long_turns(process)));
        self.explored.begin(base, process, &orders)?;
        Ok(orders)
    }

    fn end_trials(&mut self) {
        self.running.clear();
        self.brought.clear();
        self.pool = None;
    }

    pub(super) fn run(
        &mut self,
        options: &ExploreOptions,
        watcher: &mut dyn ExploreWatcher,
    ) -> Result<ExploreEnd> {
        let until = options.time.and_then(|t| Instant::now().checked_add(t));
        if let (None, &[one]) = (self.process, &self.processes[..]) {
            self.turn_to(one, Hints::default())?;
        }
        loop {
            let need = self.fold(watcher)?;
            if !watcher.goes_on() {
                return Ok(ExploreEnd::Interrupted);
            }
            if !self.locked && Stretch::whole(&self.stretch.trace).is_found() {
                // By another process, meanwhile.
                return Ok(ExploreEnd::Exact);
            }
            let over = self.new >= options.attempts || until.is_some_and(|t| Instant::now() >= t);
            if over || matches!(need, Need::Nothing) {
                return Ok(ExploreEnd::NotFound(self.first.clone().unwrap_or_default()));
            }
            let agrees = match (need, self.forks) {
                (Need::Whole(hints), _) | (Need::Trial(hints), false) => Some(hints),
                (Need::Races(hints), false) => {
                    self.explored.add_raced(hints, Vec::new())?;
                    None
                }
                (need, _) => match self.fork_trials(need, options.jobs, watcher) {
                    Err(failure) if failure.class() != FailureClass::Internal => {
                        tracing::info!(target: "linear", "no trials of one process by itself: {failure}");
                        self.end_trials();
                        (self.forks, self.fresh) = (false, false);
                        None
                    }
                    tried => tried?,
                },
            };
            if let Some(hints) = agrees
                && self.confirm(hints, watcher)?
            {
                self.explored.forget();
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
            let next = match self.process {
                None => Some(self.base.clone()),
                Some(_) => self.search.ahead(1).pop(),
            };
            let Some(hints) = next else {
                return Ok(Need::Nothing);
            };
            let failed = self.explored.failed(&hints).filter(|_| !self.fresh);
            // What is kept may be a stranger's.
            let failed = failed.filter(|failed| self.processes.contains(&failed.at.process));
            let Some(failed) = failed.cloned() else {
                return Ok(match self.process {
                    Some(_) => Need::Trial(hints),
                    None => Need::Whole(hints),
                });
            };
            self.take_in(hints, &failed)?;
        }
    }

    /// The next attempt of the search has failed.
    fn take_in(&mut self, hints: Hints, failed: &FailedTrial) -> Result<()> {
        let (at, events) = (failed.at, failed.events);
        self.new += u32::from(self.made.remove(&hints));
        self.first.get_or_insert_with(|| failed.why.clone());
        if self.process != Some(at.process) && (self.forks || self.process.is_none()) {
            // It agrees with all of the process, or none was known.
            return self.turn_to(at.process, hints);
        }
        self.best = self.best.max(events);
        self.read_paths(at.process)?;
        let looks = self.search.failed(hints.clone(), &at, events, &self.paths);
        let brought = self.brought.iter().position(|(other, _)| *other == hints);
        let held = brought.map(|place| self.brought.swap_remove(place).1);
        if looks {
            if let (Some(pool), Some(held)) = (&mut self.pool, held) {
                pool.add(held);
            }
            self.looks = Some(hints);
        }
        Ok(())
    }

    /// Reads the paths of the threads of a process, if they are not known.
    fn read_paths(&mut self, process: u32) -> Result<()> {
        if self.paths.contains_key(&process) {
            return Ok(());
        }
        let Epoch { begin, end } = self.stretch.epoch;
        let state = |work: Option<u64>| work.map(|work| image_state(&self.recording, work));
        let (begin, end) = (state(begin).transpose()?, state(end).transpose()?);
        let ends = (begin.as_ref(), end.as_ref());
        let threads = path::read(&self.recording, process, ends)?;
        self.paths.insert(process, threads);
        Ok(())
    }

    /// An attempt has failed.
    fn failed(
        &mut self,
        hints: Hints,
        failed: FailedTrial,
        time: Duration,
        watcher: &mut dyn ExploreWatcher,
    ) -> Result<()> {
        self.made.insert(hints.clone());
        let (attempts, text, at) = (self.attempts() + 1, hints.to_text(), failed.at);
        tracing::info!(target: "linear", "attempt {attempts} with {} decisions ({text}): {at:?}: {}", hints.count(), failed.why);
        watcher.attempted(&Attempted {
            attempts,
            hints: &text,
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
        let needed = match need {
            Need::Trial(hints) => (hints, Purpose::Agreement),
            Need::Races(hints) => (hints, Purpose::Races),
            Need::Whole(_) | Need::Nothing => return Ok(None),
        };
        let pool = match self.pool.take() {
            Some(pool) => Some(pool),
            None => self.begin_pool()?,
        };
        let Some(mut pool) = pool else {
            // Its threads took turns all the time.
            (self.forks, self.fresh) = (false, false);
            return Ok(None);
        };
        let ahead = self.search.ahead(2 * jobs).into_iter();
        let wanted = std::iter::once(needed).chain(ahead.map(|h| (h, Purpose::Agreement)));
        for (n, (hints, purpose)) in wanted.enumerate() {
            let failed = self.explored.failed(&hints);
            let mut running = self.running.iter();
            let runs = running.any(|r| r.hints == hints && r.purpose() == purpose);
            // An attempt that is needed now waits for nobody.
            if !runs && (n == 0 || failed.is_none() && self.running.len() < jobs) {
                let races = failed.filter(|_| purpose == Purpose::Races);
                let from = races.map(|failed| failed.work.saturating_sub(RACES_WITHIN));
                self.running.push(pool.begin(&hints, from)?);
            }
        }
        self.pool = Some(pool);
        for place in pool::wait(&self.running)?.into_iter().rev() {
            let While::Over(trial) = self.running[place].answer()? else {
                continue;
            };
            let running = self.running.swap_remove(place);
            let (hints, time) = (running.hints.clone(), running.time());
            if running.purpose() == Purpose::Races {
                self.explored.add_raced(hints, trial.races)?;
                continue;
            }
            self.fresh = false;
            let Some((failure, at)) = trial.failed else {
                return Ok(Some(hints));
            };
            let at = at.ok_or_else(|| failure.clone())?;
            self.brought.push((hints.clone(), running.into_held()));
            let failed = FailedTrial {
                at,
                events: trial.events,
                work: trial.work,
                why: failure.to_string(),
            };
            match self.explored.failed(&hints) {
                // It was made once more for its snapshots.
                Some(known) if *known == failed => {}
                Some(_) => self.explored.add_failed(hints, failed)?,
                None => self.failed(hints, failed, time, watcher)?,
            }
        }
        Ok(None)
    }

    /// A copy of the process at its beginning.
    fn begin_pool(&self) -> Result<Option<Pool>> {
        let process = self.process.unwrap_or(0);
        let chain = follow(&self.recording, process)?.chain;
        Pool::new(self.stretch, &chain, &self.base)
    }

    /// Replays an order from the beginning, and writes it; whether it agrees.
    fn confirm(&mut self, hints: Hints, watcher: &mut dyn ExploreWatcher) -> Result<bool> {
        // They are children of this process, which waits for those of that replay.
        self.end_trials();
        let began = Instant::now();
        let lock = || ExactLock::take(&self.stretch.trace, &mut || ());
        let _lock = (!self.locked).then(lock).transpose()?;
        // By a replay that has tried the same orders meanwhile.
        if self.stretch.is_found() {
            return Ok(true);
        }
        let failed = match try_order(self.stretch, TurnLength::Close, &hints) {
            Ok(replayed) => {
                watcher.attempted(&Attempted {
                    attempts: self.attempts() + 1,
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
        let failed = FailedTrial::of_whole(at, &failed.failure);
        self.failed(hints.clone(), failed, began.elapsed(), watcher)?;
        if self.forks && self.process != Some(at.process) {
            self.turn_to(at.process, hints)?;
        }
        Ok(false)
    }
}
