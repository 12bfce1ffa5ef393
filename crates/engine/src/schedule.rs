//! The schedule tape of a process: who held the baton, in order.

use relive_trace::{Event, Kind, TapeId};

use crate::failure::{Failure, Result, die};
use crate::machine::{machine, shm};
use crate::shm::Shm;
use crate::tape::TapeOut;
use crate::task::Task;

/// The schedule of a recording process; its tape is made at the first switch. It belongs to
/// the address space: a vfork child takes its parent's turns.
pub struct Schedule {
    process: u32,
    tape: Option<TapeOut>,
}

/// Logs that `task` has taken the baton from another thread. The caller holds the baton.
pub fn turn(task: &Task) {
    if !task.tape.recording() {
        return;
    }
    tracing::debug!(target: "sched", "turn of {} at tick {}", task.id(), task.ctx.ticks());
    let mut schedule = machine().schedule();
    if schedule.tape.is_none() {
        match create(schedule.process) {
            Ok(tape) => schedule.tape = Some(tape),
            Err(e) => die(&e),
        }
    }
    if let Some(tape) = &mut schedule.tape {
        tape.put(&Event {
            ticks: 0,
            digest: 0,
            kind: Kind::Turn { thread: task.slot },
        });
    }
}

impl Schedule {
    /// No switch has happened yet in this process.
    #[must_use]
    pub fn new(process: u32) -> Self {
        Self {
            process,
            tape: None,
        }
    }

    /// The ring to go on with after exec.
    #[must_use]
    pub fn ring(&self) -> Option<u32> {
        self.tape.as_ref().map(|t| t.ring)
    }

    /// Goes on in a ring after exec.
    #[must_use]
    pub fn attach(process: u32, ring: Option<u32>, shm: Option<Shm>) -> Self {
        let tape = ring
            .zip(shm)
            .map(|(ring, shm)| TapeOut::attach(shm, ring, 0));
        Self { process, tape }
    }

    /// No turn will follow.
    pub fn close(&self) {
        if let Some(t) = &self.tape {
            t.close();
        }
    }
}

fn create(process: u32) -> Result<TapeOut> {
    let shm = *shm().ok_or_else(|| Failure::internal("a recording has shared memory"))?;
    TapeOut::create(
        shm,
        TapeId {
            process,
            thread: TapeId::SCHEDULE,
        },
        std::process::id(),
    )
}
