//! A replay that is guided from outside, for a timeline (`crate::timeline`): it goes where it
//! is told, stops where it is told, answers questions about its guest, and forks copies of
//! itself, which are the timeline's snapshots.
//!
//! Nothing here may change the course of the recorded program or the count of its ticks: a
//! replay that was stopped, stepped and looked at ends as an undisturbed one. Only a copy
//! that is to be thrown away may be written to, and it can never return to the recording.

mod begin;
mod channel;
mod condition;
mod drive;
mod goal;
mod guard;
mod guidance;
mod hits;
mod inferior_call;
mod look;
mod one_run;
mod sandbox;
pub mod serve;
mod shared;
mod threads;
pub mod track;
mod trial;
mod write_watch;
