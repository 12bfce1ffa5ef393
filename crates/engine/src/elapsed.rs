//! The past of a recorded process in numbers, as a replay counts it: by them positions are named.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::shm::Shm;

/// Work that an event counts for, in all measures of a way (`ReplayStatus::work`).
pub const EVENT_WORK: u64 = 64;

/// Numbers of a process, and of those that it comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elapsed {
    /// Events.
    pub events: u64,
    /// Ticks of all threads.
    pub ticks: u64,
    /// Turns.
    pub turns: u64,
}

impl Elapsed {
    /// What a ring counts.
    #[must_use]
    pub fn of_ring(shm: Shm, ring: u32) -> Self {
        let ring = shm.ring(ring);
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        Self {
            events: of(&ring.events).saturating_sub(of(&ring.notes)),
            ticks: of(&ring.ticks),
            turns: 0,
        }
    }

    /// With what has been added to a ring between two looks.
    #[must_use]
    pub fn with_growth(self, before: Self, now: Self) -> Self {
        Self {
            events: self.events + now.events.saturating_sub(before.events),
            ticks: self.ticks + now.ticks.saturating_sub(before.ticks),
            turns: self.turns,
        }
    }

    /// With a call that is not logged yet.
    #[must_use]
    pub fn with_call(self) -> Self {
        Self {
            events: self.events + 1,
            ..self
        }
    }

    /// The measure of the way up to here (`ReplayStatus::work`), about.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.events * EVENT_WORK + self.ticks
    }
}
