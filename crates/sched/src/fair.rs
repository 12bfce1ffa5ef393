//! The default: close to a kernel's schedule, with enough variation that two recordings of a racy
//! program differ.

use crate::policy::Policy;
use crate::rng::Rng;
use crate::seed::Seed;

/// Mostly first come, first served, with slices of very different lengths.
///
/// A thread waits for at most [`Fair::PATIENCE`] calls of [`Policy::choose`] for each place
/// in the line.
#[derive(Debug, Clone)]
pub struct Fair {
    rng: Rng,
    /// Choices since the first in line was last chosen.
    passed_over: u32,
    /// Slices given, up to [`Fair::EAGER`].
    slices: u32,
    /// Switches made, up to [`Fair::EAGER`].
    switches: u32,
}

impl Fair {
    /// See [`Fair`].
    pub const PATIENCE: u32 = 4;
    /// This many slices are short, and this many switches may fall between any two instructions,
    /// before they become rarer: a program that runs for milliseconds only would show no race.
    pub const EAGER: u32 = 64;

    /// One of so many wakers gives way soon: a switch costs as much as some calls.
    pub const SOON: u64 = 16;

    /// From a seed.
    pub fn new(seed: Seed) -> Self {
        Self {
            rng: Rng::new(seed.0),
            passed_over: 0,
            slices: 0,
            switches: 0,
        }
    }
}

impl Policy for Fair {
    fn slice(&mut self, _alone: bool) -> u64 {
        // The longest slices last as long as a kernel's: threads that take turns often drive each
        // other's data out of the cache (xz -T2 costs 1.45 times native with 20, 1.2 with 22).
        let high = if self.slices < Self::EAGER { 18 } else { 22 };
        self.slices = (self.slices + 1).min(Self::EAGER);
        self.rng.octaves(8, high)
    }

    fn steps(&mut self) -> u32 {
        // Each step costs as much as hundreds of instructions: a quarter of the switches pays
        // for all races that no tick separates.
        let eager = self.switches < Self::EAGER;
        self.switches = (self.switches + 1).min(Self::EAGER);
        if eager || self.rng.one_in(4) {
            self.rng.steps()
        } else {
            0
        }
    }

    fn woke(&mut self) -> Option<u64> {
        // A kernel lets a woken thread run soon, on another core or in place of its waker. One that runs behind the waker's slice
        // only may always come too late: Go's spinning threads find the world stopped again.
        (self.rng.one_in(Self::SOON)).then(|| self.rng.octaves(6, 14))
    }

    fn choose(&mut self, waiting: &[u32]) -> usize {
        assert!(!waiting.is_empty(), "there is nobody to choose");
        let jump = self.rng.one_in(8) && self.passed_over + 1 < Self::PATIENCE;
        let index = if jump {
            self.rng.below(waiting.len() as u64) as usize
        } else {
            0
        };
        self.passed_over = if index == 0 { 0 } else { self.passed_over + 1 };
        index
    }
}
