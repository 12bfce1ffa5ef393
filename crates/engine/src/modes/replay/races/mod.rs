//! Looking for data races in a replay: guest code tells of its accesses ([`relive_host::track`]), the
//! stops of the run tell of calls, signals, threads and turns, and a detector finds accesses that
//! nothing orders. Must never change the course of the replay.
//!
//! A replay runs one thread at a time, so nothing here takes a lock or is atomic.

mod call_order;
mod clock;
mod clocks;
mod detector;
mod found_races;
pub mod learning;
mod learnt;
pub mod mark_check;
mod orders;
pub mod racing;
mod shadow;
mod shadow_cell;
mod touch;
pub mod tracking;
