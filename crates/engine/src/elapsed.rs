//! The past of a recorded process in numbers, as a replay counts it: by them positions are named.

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use crate::shm::Shm;
use crate::shm::ring::{RINGS, state};

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
    /// With the events and ticks of a ring.
    pub fn add_ring(&mut self, shm: Shm, ring: u32) {
        let ring = shm.ring(ring);
        let of = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
        self.events += of(&ring.events) - of(&ring.notes);
        self.ticks += of(&ring.ticks);
    }

    /// With those of all living threads of a process, but for that with the ring `but`.
    #[must_use]
    pub fn with_rings(mut self, shm: Shm, process: u32, but: Option<u32>) -> Self {
        let used = shm.header().rings_used.load(Ordering::Acquire);
        for ring in (0..used.min(RINGS as u32)).filter(|ring| Some(*ring) != but) {
            let id = shm.tape(ring);
            let lives = shm.ring(ring).state.load(Ordering::Acquire) == state::ACTIVE;
            let thread = !id.is_schedule() && !crate::image_stream::is_image(id);
            if lives && thread && id.process == process {
                self.add_ring(shm, ring);
            }
        }
        self
    }

    /// With what another thread or process has behind it.
    pub fn add(&mut self, other: Self) {
        self.events += other.events;
        self.ticks += other.ticks;
        self.turns += other.turns;
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
        self.events * 64 + self.ticks
    }
}
