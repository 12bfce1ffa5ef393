//! A trial of a search for the order of threads: a guided replay that decides the turns itself, by the
//! decisions that it is given. It writes nothing down: an order that leads to the end is believed only once another
//! replay, from the beginning, has gone the same way and written it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use relive_dbt::Stop;

use super::drive::Driver;
use crate::failure::{Failure, FailureClass, Result};
use crate::guide::races::Race;
use crate::guide::trials::{Disagreement, ThreadPlace, Trial, TrialOrder, TrialStanding};
use crate::modes::replay::hook_state;
use crate::modes::replay::linear::disagreement;
use crate::modes::replay::linear::hints::Hints;
use crate::modes::replay::races::racing::{self, Racing};
use crate::modes::replay::races::tracking;
use crate::modes::replay::stepper::process::Stepper;
use crate::modes::replay::stepper::stops::{Pace, Stops};
use crate::tape::Tape;

/// How long a trial goes on before it tells how far it is.
const WHILE: Duration = Duration::from_millis(10);
/// How long a look for races goes on without the thread that has left the recording.
const BEYOND: Duration = Duration::from_millis(50);
/// The last accesses of a thread that are taken for those by which it went on too long.
const LATEST: usize = 6;
/// Looks between two looks at the clock.
const LOOKS: u32 = 16;
/// Ticks between two looks, at most.
const SLICE: u64 = 1 << 20;

impl Driver {
    /// Carries out an order of a search.
    ///
    /// # Errors
    /// Any failure but a divergence, which is an answer.
    pub fn trial(&mut self, order: TrialOrder) -> Result<Trial> {
        let mut failed = None;
        match order {
            TrialOrder::Decide(text) => self.decide(&text)?,
            TrialOrder::Watch => self.watch()?,
            TrialOrder::Go => failed = self.disagrees_until(u64::MAX)?,
            TrialOrder::Approach(work) => failed = self.disagrees_until(work)?,
        }
        let at = failed.as_ref().and_then(|(_, at)| at.as_ref());
        let races = self.last_races(at);
        Ok(Trial {
            events: hook_state::events(),
            ended: self.at.ended.is_some(),
            failed,
            standing: self.standing(),
            work: self.guide.track.work,
            races,
        })
    }

    /// The last races, the most telling ones last. A thread that comes to its event too late has found something else on its way: where it
    /// should have come to it, or as many ticks before one of its last accesses, as in a loop that it should have left sooner.
    fn last_races(&self, at: Option<&Disagreement>) -> Vec<Race> {
        let races = tracking::with(|t| {
            let mut races = t.detector.last_races();
            if let Some(at) = at.filter(|at| at.recorded < at.ticks) {
                let both = races
                    .iter()
                    .rev()
                    .flat_map(|race| [race.first, race.second]);
                let own = both.filter(|access| access.thread == at.thread);
                let by = at.ticks - at.recorded;
                let sooner = own.filter_map(|access| access.tick.checked_sub(by));
                let ticks: BTreeSet<u64> = sooner.take(LATEST).chain([at.recorded]).collect();
                for tick in ticks {
                    races.extend(t.detector.races_at(at.thread, tick));
                }
            }
            races
        });
        races.unwrap_or_default()
    }

    fn decide(&mut self, text: &str) -> Result<()> {
        let hints = Hints::from_text(text);
        let (Some(hints), Some(linear)) = (hints, &mut self.at.session.linear) else {
            return Err(Failure::internal("decisions for a replay that has none"));
        };
        linear.follow(hints);
        Ok(())
    }

    /// Looks for races from here on; all threads that there are have been seen.
    fn watch(&mut self) -> Result<()> {
        tracking::look_for_pairs()?;
        racing::meets_all(&mut self.at)
    }

    /// Goes on; why and where it leaves the recording, if it does.
    fn disagrees_until(&mut self, most: u64) -> Result<Option<(Failure, Option<Disagreement>)>> {
        match self.go_on(most) {
            Err(failure) if failure.class() == FailureClass::Divergence => {
                let at = disagreement::in_replay(&mut self.at);
                self.look_beyond();
                Ok(Some((failure, at)))
            }
            other => other.map(|()| None),
        }
    }

    /// Looks for races without the thread that has left the recording, for a while: what it has read too soon, another one may store behind
    /// that. The others find what that thread has left, which need not be what was recorded: the next disagreement is the end, and says nothing.
    fn look_beyond(&mut self) {
        if tracking::with(|_| ()).is_none() {
            return;
        }
        disagreement::abandon(&mut self.at);
        let until = Instant::now() + BEYOND;
        while self.at.ended.is_none() && Instant::now() < until {
            if self.at.run(&mut Racing::new(WHILE)).is_err() {
                return;
            }
        }
    }

    fn go_on(&mut self, most: u64) -> Result<()> {
        if self.at.ended.is_some() {
            return Ok(());
        }
        match tracking::with(|_| ()) {
            Some(()) => drop(self.at.run(&mut Racing::new(WHILE))?),
            None => {
                let work = &mut self.guide.track.work;
                self.at.run(&mut TrialRun::new(work, most))?;
            }
        }
        Ok(())
    }

    fn standing(&self) -> Option<TrialStanding> {
        let linear = self.at.session.linear.as_ref()?;
        let tasks = self.tasks().filter_map(|task| match &task.tape {
            Tape::In(tape) => Some(ThreadPlace {
                thread: task.index,
                moments: tape.moments,
                ops: task.ctx.ops,
                ticks: task.ctx.ticks(),
            }),
            _ => None,
        });
        Some(TrialStanding {
            threads: tasks.collect(),
            born: self.at.task.process.next_thread(),
            executed: linear.executed,
        })
    }
}

/// A run, for a while.
struct TrialRun<'w> {
    until: Instant,
    looks: u32,
    /// See [`Trial::work`].
    work: &'w mut u64,
    /// It ends there.
    most: u64,
}

impl<'w> TrialRun<'w> {
    fn new(work: &'w mut u64, most: u64) -> Self {
        Self {
            until: Instant::now() + WHILE,
            looks: 0,
            work,
            most,
        }
    }
}

impl Stops for TrialRun<'_> {
    type Why = ();

    fn look(&mut self, _: &mut Stepper) -> Result<Option<()>> {
        self.looks += 1;
        let over = self.looks.is_multiple_of(LOOKS) && Instant::now() >= self.until;
        Ok((over || *self.work >= self.most).then_some(()))
    }

    fn before_code(&mut self, _: &mut Stepper, _: bool) -> Result<Pace<()>> {
        Ok(Pace::Within(SLICE))
    }

    fn takes(&mut self, _: &mut Stepper, _: &Stop, ticks: u64) -> Result<bool> {
        *self.work += ticks;
        Ok(false)
    }
}
