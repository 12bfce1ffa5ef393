//! The one loop of a replay: a stepper brings a process to its next event or stop.
//!
//! [`Stops`](stops::Stops) says where a run ends. Plain replay is the stepper without stops, `relive
//! verify` looks at memory behind events, a guided replay ([`super::guided`]) may stop between any two
//! instructions, and an inferior call is the stepper with a task of another mode. Stops must never change
//! the course of the process: every event is brought about, and checked, in the same way with and
//! without them. They are known at compile time, so that a plain replay has no trace of them.

mod call_series;
mod consequence;
pub mod execute;
mod main_loop;
pub mod process;
pub mod stops;

#[cfg(test)]
mod tests;
