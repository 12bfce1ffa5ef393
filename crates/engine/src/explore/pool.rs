//! Trials from snapshots: copies of a replay that stand at different places of it. An attempt goes on from the
//! last one at which none of its decisions had been asked for. Which one that is changes the time of an attempt, and
//! nothing else.

use std::time::{Duration, Instant};

use crate::failure::{Failure, Result};
use crate::guide::trials::{Trial, TrialOrder, TrialStanding};
use crate::modes::replay::linear::hints::{Hints, InsnPlace, Place, What};
use crate::supervisor::Stretch;
use crate::timeline::ReplayProcess;

/// Most snapshots.
const MOST: usize = 24;
/// Most that an attempt brings along: its last ones.
const OF_ATTEMPT: usize = 6;
/// Least time between two snapshots of an attempt; and so many times as long as one took.
const LEAST: Duration = Duration::from_millis(4);
const COST: u32 = 12;
/// The longest look for races: where threads spin with atomic instructions it may take a thousand times as long as the replay.
/// Then the search goes on without them.
const LOOK: Duration = Duration::from_secs(10);

/// A replay that stands still.
pub struct TrialSnapshot {
    host: ReplayProcess,
    hints: Hints,
    standing: TrialStanding,
    /// See [`Trial::work`].
    work: u64,
}

impl TrialSnapshot {
    /// Whether a replay with these decisions would stand here too.
    fn is_on_way_of(&self, hints: &Hints) -> bool {
        let mut places = self.hints.differences(hints);
        let mut orders = self.hints.other_orders(hints);
        let is_order_ahead = |first: &InsnPlace, second: &InsnPlace| {
            [first, second]
                .iter()
                .all(|place| is_insn_ahead(&self.standing, place))
        };
        places.all(|place| is_ahead(&self.standing, &place))
            && orders.all(|order| is_order_ahead(&order.first, &order.second))
    }
}

/// Whether a thread has not come to the tick that an instruction lies behind.
fn is_insn_ahead(standing: &TrialStanding, place: &InsnPlace) -> bool {
    match standing.threads.iter().find(|t| t.thread == place.thread) {
        Some(at) => at.ticks < place.tick,
        // It is not there yet, or has ended.
        None => place.thread >= standing.born,
    }
}

/// Whether a decision has not been asked for.
fn is_ahead(standing: &TrialStanding, place: &Place) -> bool {
    let mut threads = standing.threads.iter();
    let Some(at) = threads.find(|t| t.thread == place.thread) else {
        // It is not there yet, or has ended.
        return place.thread >= standing.born;
    };
    match place.what {
        What::Way(moments) | What::Moment(moments) | What::Event(moments) => at.moments < moments,
        What::Operation(op) => !standing.executed && at.ops + 1 < op,
        What::Turns => false,
    }
}

/// The purpose of a trial.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To see whether it agrees.
    Agreement,
    /// To see which races come last before it does not.
    Races,
}

/// A look for races.
enum RaceLook {
    /// It begins at this work.
    At(u64),
    /// It has begun.
    Since(Instant),
}

/// A trial that runs.
pub struct Running {
    host: ReplayProcess,
    /// Its decisions.
    pub hints: Hints,
    /// Its look for races, if it makes one.
    look: Option<RaceLook>,
    held: Vec<TrialSnapshot>,
    /// When the last snapshot was taken, and how long it took.
    taken: (Instant, Duration),
    began: Instant,
}

/// The state behind a while of a trial.
pub enum While {
    /// It goes on.
    GoesOn,
    /// It is over.
    Over(Trial),
}

impl Running {
    /// The process, to wait for its answer.
    pub fn host(&self) -> &ReplayProcess {
        &self.host
    }

    /// Its purpose.
    pub fn purpose(&self) -> Purpose {
        match self.look {
            None => Purpose::Agreement,
            Some(_) => Purpose::Races,
        }
    }

    /// Time that it has taken.
    pub fn time(&self) -> Duration {
        self.began.elapsed()
    }

    /// Takes the answer, and lets it go on if it is not over.
    ///
    /// # Errors
    /// Any failure but a divergence.
    pub fn answer(&mut self) -> Result<While> {
        let trial = self.host.trial_answer()?;
        if trial.ended || trial.failed.is_some() {
            return Ok(While::Over(trial));
        }
        match self.look {
            Some(RaceLook::At(work)) if trial.work < work => {
                self.host.order_trial(&TrialOrder::Approach(work))?;
                return Ok(While::GoesOn);
            }
            Some(RaceLook::At(_)) => {
                self.host.order_trial(&TrialOrder::Watch)?;
                self.host.trial_answer()?;
                self.look = Some(RaceLook::Since(Instant::now()));
            }
            Some(RaceLook::Since(begun)) if begun.elapsed() > LOOK => {
                // Those of the way so far are not the last ones.
                let races = Vec::new();
                return Ok(While::Over(Trial { races, ..trial }));
            }
            _ => {}
        }
        let (last, cost) = self.taken;
        let due = self.look.is_none() && last.elapsed() > LEAST.max(cost * COST);
        if let Some(standing) = trial.standing.filter(|_| due) {
            let begin = Instant::now();
            let host = self.host.fork()?;
            self.held.push(TrialSnapshot {
                host,
                hints: self.hints.clone(),
                standing,
                work: trial.work,
            });
            if self.held.len() > OF_ATTEMPT {
                self.held.remove(0);
            }
            self.taken = (Instant::now(), begin.elapsed());
        }
        self.host.order_trial(&TrialOrder::Go)?;
        Ok(While::GoesOn)
    }

    /// Its snapshots.
    pub fn into_held(self) -> Vec<TrialSnapshot> {
        self.held
    }
}

/// All snapshots; the first one stands at the beginning.
pub struct Pool(Vec<TrialSnapshot>);

impl Pool {
    /// Of the last of these processes, with decisions that agree with the others. `None`: it runs in turns from its
    /// beginning on.
    ///
    /// # Errors
    /// It cannot be replayed.
    pub fn new(stretch: &Stretch, chain: &[u32], hints: &Hints) -> Result<Option<Self>> {
        let epoch = stretch.epoch;
        let mut host = ReplayProcess::start_trial(&stretch.trace, chain, hints, epoch)?;
        host.order_trial(&TrialOrder::Decide(hints.to_text()))?;
        let trial = host.trial_answer()?;
        let begin = |standing| TrialSnapshot {
            host,
            hints: hints.clone(),
            standing,
            work: trial.work,
        };
        Ok(trial.standing.map(|standing| Self(vec![begin(standing)])))
    }

    /// The last one, for a look at the program.
    pub fn last(&mut self) -> &mut ReplayProcess {
        let last = self.0.len() - 1;
        &mut self.0[last].host
    }

    /// Begins a trial, which looks for races from that work on, if it is to look for some.
    ///
    /// # Errors
    /// No processes, or a replaying one is gone.
    pub fn begin(&mut self, hints: &Hints, races_from: Option<u64>) -> Result<Running> {
        let began = Instant::now();
        let on_way = self.0.iter().enumerate().rev();
        let mut on_way = on_way.filter(|(_, held)| held.is_on_way_of(hints));
        let chosen = on_way.find(|(_, held)| races_from.is_none_or(|work| held.work < work));
        let place = chosen.map_or(0, |(place, _)| place);
        let mut host = self.0[place].host.fork()?;
        host.order_trial(&TrialOrder::Decide(hints.to_text()))?;
        host.trial_answer()?;
        host.order_trial(&races_from.map_or(TrialOrder::Go, TrialOrder::Approach))?;
        Ok(Running {
            host,
            hints: hints.clone(),
            look: races_from.map(RaceLook::At),
            held: Vec::new(),
            taken: (Instant::now(), Duration::ZERO),
            began,
        })
    }

    /// Adds the snapshots of an attempt that came further than others. They come last, as they stand on the way
    /// of those that are tried next.
    pub fn add(&mut self, held: Vec<TrialSnapshot>) {
        self.0.extend(held);
        let over = self.0.len().saturating_sub(MOST);
        self.0.drain(1..1 + over);
    }
}

/// Waits until one of these answers, or for a while.
///
/// # Errors
/// The kernel cannot wait.
pub fn wait(running: &[Running]) -> Result<Vec<usize>> {
    let hosts: Vec<&ReplayProcess> = running.iter().map(Running::host).collect();
    ReplayProcess::which_answer(&hosts)
        .map_err(|e| Failure::internal(format!("cannot wait for replays: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide::trials::ThreadPlace;

    #[test]
    fn decisions_are_ahead_until_they_are_asked_for() {
        let at = |thread| ThreadPlace {
            thread,
            moments: 5,
            ops: 7,
            ticks: 30,
        };
        // Thread 1 has ended, thread 3 has not begun.
        let mut standing = TrialStanding {
            threads: vec![at(0), at(2)],
            born: 3,
            executed: false,
        };
        let ahead = |standing: &TrialStanding, thread, what| {
            let process = 0;
            let place = Place {
                process,
                thread,
                what,
            };
            is_ahead(standing, &place)
        };
        for (thread, what, expected) in [
            (0, What::Way(5), false),
            (0, What::Way(6), true),
            (2, What::Event(5), false),
            (2, What::Event(6), true),
            (2, What::Operation(8), false),
            (2, What::Operation(9), true),
            (1, What::Way(9), false),
            (3, What::Way(0), true),
            (0, What::Turns, false),
        ] {
            let found = ahead(&standing, thread, what);
            assert_eq!(found, expected, "{thread} {what:?}");
        }
        let insn = |thread, tick| InsnPlace {
            thread,
            tick,
            pc: 1,
        };
        for (place, expected) in [
            (insn(0, 30), false),
            (insn(2, 31), true),
            (insn(1, 31), false),
            (insn(3, 0), true),
        ] {
            assert_eq!(is_insn_ahead(&standing, &place), expected, "{place:?}");
        }
        standing.threads.pop();
        assert!(!ahead(&standing, 2, What::Way(9)), "the last one has ended");
        standing.executed = true;
        assert!(
            !ahead(&standing, 0, What::Operation(9)),
            "another program's"
        );
    }
}
