//! Snapshots that a user keeps by number, to come back to.

use super::present::{Stopped, Timeline};
use super::replay_process::ReplayProcess;
use super::snapshots::Snapshot;
use crate::failure::{Failure, Result};
use crate::guide::protocol::ReplayStatus;

/// Most snapshots that may be kept: each is a process.
const MOST_KEPT: usize = 100;

impl Timeline {
    /// Keeps a snapshot of the present position until it is dropped by its number.
    ///
    /// # Errors
    /// No copy can be made, or there are very many.
    pub fn keep(&mut self) -> Result<u32> {
        if self.kept.len() >= MOST_KEPT {
            return Err(Failure::setup(format!(
                "{MOST_KEPT} snapshots are kept already: drop one first"
            )));
        }
        let number = self.kept.last_key_value().map_or(1, |(n, _)| n + 1);
        let (status, host) = (self.status, self.current.fork()?);
        self.kept.insert(number, Snapshot { status, host });
        Ok(number)
    }

    /// The kept snapshots: number and position.
    pub fn kept(&self) -> impl Iterator<Item = (u32, ReplayStatus)> {
        self.kept.iter().map(|(n, s)| (*n, s.status))
    }

    /// A replay of its own from where a kept snapshot is, which others cannot disturb.
    ///
    /// # Errors
    /// There is none of that number, or no copy can be made.
    pub fn fork_kept(&mut self, number: u32) -> Result<(ReplayProcess, ReplayStatus)> {
        let snapshot = self.kept.get_mut(&number);
        let snapshot = snapshot.ok_or_else(|| no_such(number))?;
        Ok((snapshot.host.fork()?, snapshot.status))
    }

    /// Goes to where a kept snapshot is.
    ///
    /// # Errors
    /// As [`Timeline::fork_kept`].
    pub fn goto_kept(&mut self, number: u32) -> Result<Stopped> {
        let (host, status) = self.fork_kept(number)?;
        self.forget_changes();
        (self.current, self.status) = (host, status);
        Ok(Stopped::There)
    }

    /// Drops a kept snapshot.
    ///
    /// # Errors
    /// There is none of that number.
    pub fn drop_kept(&mut self, number: u32) -> Result<()> {
        let dropped = self.kept.remove(&number).map(drop);
        dropped.ok_or_else(|| no_such(number))
    }
}

fn no_such(number: u32) -> Failure {
    Failure::setup(format!("there is no kept snapshot {number}"))
}
