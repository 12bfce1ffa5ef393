//! Unlikely schedules on purpose, to bring out bugs that a fair one hides.
//!
//! Threads have random priorities and the highest one always runs, so that some make no
//! progress while others race ahead. At change points the running thread drops to the
//! bottom, the idea of probabilistic concurrency testing (Burckhardt et al., "A randomized
//! scheduler with probabilistic guarantees of finding bugs", 2010): an order that takes a
//! few such drops is found with a known chance. Now and then all priorities are drawn anew,
//! and one thread is starved for a while. Slices come in phases: bursts of very short ones,
//! which would be too slow all the time, between long ones.

use std::collections::BTreeMap;

use crate::policy::Policy;
use crate::rng::Rng;
use crate::seed::Seed;

/// Random priorities, change points, starving, and slices from one tick to the longest.
///
/// A thread waits for at most [`Chaos::PATIENCE`] calls of [`Policy::choose`], and as many
/// more as there are threads waiting.
#[derive(Debug, Clone)]
pub struct Chaos {
    rng: Rng,
    threads: BTreeMap<u32, ChaosThread>,
    /// Priority of the thread that was demoted last; the next one gets a lower one.
    bottom: i64,
    /// The thread that got the baton last.
    running: Option<u32>,
    /// Choices until the next change point.
    until_change: u64,
    starved: Option<Starved>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy)]
struct ChaosThread {
    priority: i64,
    /// Choices of others since it began to wait.
    waited: u32,
}

#[derive(Debug, Clone, Copy)]
struct Starved {
    thread: u32,
    choices_left: u64,
}

/// A stretch of slices of similar length: from 2^`low` up to 2^`high` ticks.
#[derive(Debug, Clone, Copy)]
struct Phase {
    slices_left: u64,
    low: u32,
    high: u32,
}

/// Range of a phase's slices, as powers of two; each as likely as the others.
const PHASES: [(u32, u32); 4] = [(0, 6), (4, 12), (0, 20), (12, 20)];

impl Chaos {
    /// See [`Chaos`].
    pub const PATIENCE: u32 = 256;

    /// From a seed.
    pub fn new(seed: Seed) -> Self {
        let mut rng = Rng::new(seed.0);
        let until_change = change_distance(&mut rng);
        Self {
            rng,
            threads: BTreeMap::new(),
            bottom: 0,
            running: None,
            until_change,
            starved: None,
            phase: Phase {
                slices_left: 0,
                low: 0,
                high: 1,
            },
        }
    }

    fn demote(&mut self, thread: u32) {
        if let Some(state) = self.threads.get_mut(&thread) {
            self.bottom -= 1;
            state.priority = self.bottom;
        }
    }

    fn change(&mut self, waiting: &[u32]) {
        self.until_change = change_distance(&mut self.rng);
        match (self.rng.below(4), self.running) {
            (0, _) => {
                for state in self.threads.values_mut() {
                    state.priority = priority(&mut self.rng);
                }
            }
            (1, _) => {
                let index = self.rng.below(waiting.len() as u64) as usize;
                self.starved = Some(Starved {
                    thread: waiting[index],
                    choices_left: self.rng.octaves(3, 8),
                });
            }
            (_, Some(thread)) => self.demote(thread),
            (_, None) => {}
        }
    }

    /// Counts down the starved thread's time and returns which one it is.
    fn starved_now(&mut self) -> Option<u32> {
        let starved = self.starved.as_mut()?;
        if starved.choices_left == 0 {
            self.starved = None;
            return None;
        }
        starved.choices_left -= 1;
        Some(starved.thread)
    }
}

impl Policy for Chaos {
    fn slice(&mut self, _alone: bool) -> u64 {
        if self.phase.slices_left == 0 {
            let (low, high) = PHASES[self.rng.below(PHASES.len() as u64) as usize];
            self.phase = Phase {
                slices_left: self.rng.octaves(3, 8),
                low,
                high,
            };
        }
        self.phase.slices_left -= 1;
        self.rng.octaves(self.phase.low, self.phase.high)
    }

    fn steps(&mut self) -> u32 {
        self.rng.steps()
    }

    fn choose(&mut self, waiting: &[u32]) -> usize {
        assert!(!waiting.is_empty(), "there is nobody to choose");
        for thread in waiting {
            let rng = &mut self.rng;
            let state = self.threads.entry(*thread).or_insert_with(|| ChaosThread {
                priority: priority(rng),
                waited: 0,
            });
            state.waited += 1;
        }
        self.until_change -= 1;
        if self.until_change == 0 {
            self.change(waiting);
        }
        let starved = self.starved_now();
        let rank = |thread: &u32| {
            let state = self.threads[thread];
            // A thread that has waited too long comes before all others, the longest first.
            let overdue = state.waited.saturating_sub(Self::PATIENCE);
            (overdue, Some(*thread) != starved, state.priority)
        };
        let index = (0..waiting.len())
            .max_by_key(|index| rank(&waiting[*index]))
            .unwrap_or(0);
        let chosen = waiting[index];
        if let Some(state) = self.threads.get_mut(&chosen) {
            state.waited = 0;
        }
        self.running = Some(chosen);
        index
    }

    /// The thread that it waits for must get a chance, even if that is the starved one.
    fn spinning(&mut self, thread: u32) {
        self.demote(thread);
        self.starved = None;
    }
}

/// A priority that is not negative: above all demoted threads.
fn priority(rng: &mut Rng) -> i64 {
    (rng.word() >> 1) as i64
}

/// Choices until a change point: at least 1.
fn change_distance(rng: &mut Rng) -> u64 {
    rng.octaves(0, 9)
}
