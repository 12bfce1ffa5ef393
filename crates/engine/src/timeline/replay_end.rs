//! The end of a process as one replay has it, which replays that begin with session images must come to as well.

use super::replay_process::{ReplayProcess, Uninterrupted};
use crate::failure::{Failure, Result};
use crate::guide::point::Point;
use crate::guide::protocol::{ReplayStatus, RunRequest, StopSet};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayEnd {
    /// Where it is.
    pub status: ReplayStatus,
    /// The checksum of memory and registers there.
    pub checksum: u64,
}

impl ReplayEnd {
    /// Goes to the end.
    ///
    /// # Errors
    /// Divergence.
    pub fn of(host: &mut ReplayProcess) -> Result<Self> {
        let run = RunRequest::to_the_end();
        let ran = host.run(&run, &StopSet::default(), &mut Uninterrupted)?;
        Ok(Self {
            status: ran.status,
            checksum: host.checksum()?,
        })
    }

    /// It is that of a replay from the image at `from`, and not the one from the beginning.
    pub fn is_other(&self, from: &Point, whole: &Self) -> Failure {
        Failure::divergence(format!(
            "a replay from a session image comes to another end\n  from the image at {from}: {:?}, memory and registers {:016x}\n  from the beginning: {:?}, memory and registers {:016x}",
            self.status, self.checksum, whole.status, whole.checksum
        ))
    }
}
