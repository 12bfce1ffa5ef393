//! Scheduling policies for the serial recorder, pure.
//!
//! While a program is recorded, one of its threads at a time holds the *baton*. A policy decides
//! how long the holder keeps it and which thread gets it next; the recorder asks and obeys.
//! Policies exist to be varied: the recorded interleaving of a program depends on nothing else.
//!
//! A policy must never look at a clock, a thread or any other state of the system: the same seed
//! and the same questions always give the same answers. It must never starve a thread for ever:
//! each states how many calls of [`Policy::choose`] a thread can wait.

#![forbid(unsafe_code)]

mod chaos;
mod fair;
mod flipping;
mod policy;
mod rng;
mod round_robin;
mod sampling;
mod seed;

pub use chaos::Chaos;
pub use fair::Fair;
pub use flipping::{Flip, Flipping};
pub use policy::{Policy, SLICE_MAX, STEPS_MAX, SharedAccess};
pub use rng::Rng;
pub use round_robin::RoundRobin;
pub use sampling::Sampling;
pub use seed::{Seed, SeedError};
