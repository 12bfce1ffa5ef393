//! Scheduling policies for the serial recorder, pure.
//!
//! While a program is recorded, one of its threads at a time holds the *baton*. A policy
//! says how long the holder keeps it and who gets it next; the recorder asks and obeys.
//! Policies exist to be varied: which of a program's interleavings is recorded depends on
//! nothing else.
//!
//! A policy must never look at a clock, a thread or any other state of the system: the same
//! seed and the same questions always give the same answers. And it must never starve a
//! thread for ever: each states how many calls of [`Policy::choose`] a thread can wait.

#![forbid(unsafe_code)]

mod chaos;
mod fair;
mod rng;
mod round_robin;
mod seed;

pub use chaos::Chaos;
pub use fair::Fair;
pub use round_robin::RoundRobin;
pub use seed::{Seed, SeedError};

/// Longest slice of any policy, in ticks.
pub const SLICE_MAX: u64 = 1 << 22;

/// Most guest instructions that a policy lets pass after a slice's last tick.
pub const STEPS_MAX: u32 = 1 << 12;

/// Decides who runs when. One instance serves all threads that share a baton.
pub trait Policy: Send {
    /// Ticks until the next preemption: 1 to [`SLICE_MAX`].
    fn slice(&mut self) -> u64;

    /// Extra guest instructions after that tick, so that a switch can fall between any two
    /// instructions: 0 to [`STEPS_MAX`].
    fn steps(&mut self) -> u32;

    /// Who gets the baton next: an index into `waiting`, the threads that want it in the
    /// order in which they began to wait.
    ///
    /// # Panics
    /// When `waiting` is empty.
    fn choose(&mut self, waiting: &[u32]) -> usize;

    /// This thread gave way because it only spun: it waits for another one.
    fn spinning(&mut self, _thread: u32) {}
}
