//! The schedule tape of a process: the holders of the baton, in order.

use relive_trace::{Event, Kind, TapeId, TapeMark};

use crate::failure::Result;
use crate::ids;
use crate::shm::Shm;
use crate::tape::TapeOut;

/// The schedule of a recording process; its tape is made at the first switch. It belongs to
/// the address space: a vfork child takes its parent's turns.
pub struct Schedule {
    shm: Shm,
    pub(super) process: u32,
    /// The kernel's id of that process: a lodger may log the first turn, and end long before it.
    pid: u32,
    tape: Option<TapeOut>,
}

impl Schedule {
    /// Logs a turn. Behind a turn that is on no tape nothing may follow.
    pub(super) fn put(&mut self, kind: Kind<'_>) -> Result<()> {
        if self.tape.is_none() {
            let id = TapeId {
                process: self.process,
                thread: TapeId::SCHEDULE,
            };
            self.tape = Some(TapeOut::create_for(self.shm, id, self.pid)?);
        }
        if let Some(tape) = &mut self.tape {
            tape.put(&Event {
                ticks: 0,
                digest: 0,
                kind,
            })?;
        }
        Ok(())
    }

    /// No switch has happened yet in this process.
    #[must_use]
    pub fn new(shm: Shm, process: u32) -> Self {
        Self::attach(process, None, shm)
    }

    /// The ring to go on with after exec.
    #[must_use]
    pub fn ring(&self) -> Option<u32> {
        self.tape.as_ref().map(|t| t.ring)
    }

    /// How far its tape is, if there is one.
    #[must_use]
    pub fn mark(&self) -> Option<TapeMark> {
        self.tape.as_ref().map(TapeOut::mark)
    }

    /// Goes on in a ring after exec.
    #[must_use]
    pub fn attach(process: u32, ring: Option<u32>, shm: Shm) -> Self {
        Self {
            shm,
            process,
            pid: ids::process(),
            tape: ring.map(|ring| TapeOut::attach(shm, ring, 0)),
        }
    }

    /// No turn will follow.
    pub fn close(&self) {
        if let Some(t) = &self.tape {
            t.close();
        }
    }
}
