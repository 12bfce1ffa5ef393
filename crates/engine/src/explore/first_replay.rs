//! What a first replay by epochs is given: data for those that make one.

use std::process::Command;

use crate::modes::replay::epoch::Epoch;

/// How a first replay is made.
pub struct FirstReplay<'a> {
    /// Attempts, or epochs, at the same time; while the recording runs none, if it is 0.
    pub jobs: usize,
    /// Most attempts for an epoch.
    pub attempts: u32,
    /// Where an epoch is not found the order of the whole recording is searched.
    pub goes_as_a_whole: bool,
    /// Starts a process that searches this epoch, by so many attempts at most behind the first ones, and writes an
    /// [`EpochAnswer`](super::EpochAnswer) as a line of JSON.
    pub searcher: &'a dyn Fn(Epoch, u32) -> Command,
}
