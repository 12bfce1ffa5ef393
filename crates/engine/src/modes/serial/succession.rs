//! The succession of turns, and the events that go with them, on the schedule tape. The caller
//! holds the baton.

use std::sync::atomic::Ordering::{self, Relaxed};

use relive_trace::{Kind, Writes};

use super::Serial;
use super::baton::Predecessor;
use super::schedule::Schedule;
use crate::failure::Result;
use crate::machine::Machine;
use crate::sharing::changes::Since;
use crate::sharing::processes::PROCESSES;
use crate::task::Task;

impl Serial {
    /// Logs that `task` has taken the baton from another thread, of this process or, if `before`
    /// says so, of another one. The caller holds the baton.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub(super) fn turn(&self, task: &Task, before: Option<Predecessor>) -> Result<()> {
        tracing::debug!(target: "sched", "turn of {} at tick {}, after {before:?}", task.id(), task.ctx.ticks());
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.progress().turns();
        }
        let thread = task.slot;
        let mut schedule = self.schedule();
        schedule.put(match before {
            None => Kind::Turn { thread },
            Some(Predecessor { process, turn }) => Kind::Handover {
                thread,
                process,
                turn,
            },
        })?;
        if let Some(slot) = PROCESSES.of(&self.shm).get(schedule.process) {
            // Only this process counts its turns.
            slot.turns
                .store(slot.turns.load(Relaxed) + 1, Ordering::Release);
        }
        if before.is_some() {
            task.machine().memory().forget_common_code()?;
            self.log_news(task.machine(), &mut schedule)?;
        }
        Ok(())
    }

    /// The turn at hand also follows turn `turn` of process `process`, or its end.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub(super) fn after(&self, process: u32, turn: Option<u32>) -> Result<()> {
        self.schedule().put(Kind::After { process, turn })
    }

    /// Logs changes of shared memory that are on no tape of another process.
    fn log_news(&self, machine: &Machine, schedule: &mut Schedule) -> Result<()> {
        let news = self.baton.news();
        if self.baton.lost_a_holder() {
            return log_memory(machine, schedule);
        }
        let parts = match news {
            Since::Parts(parts) if parts.is_empty() => return Ok(()),
            Since::Parts(parts) => parts,
            Since::Anything => machine.memory().space.shared_files(),
        };
        let memory = machine.memory();
        for (start, end) in memory.space.views_of(&parts) {
            let bytes = memory.content(start, end)?;
            schedule.put(Kind::Memory(Writes::new(&[(start, &bytes)])))?;
        }
        Ok(())
    }
}

/// Logs all shared memory, after a process has died with the group's baton: its last writes are on
/// no tape.
fn log_memory(machine: &Machine, schedule: &mut Schedule) -> Result<()> {
    let contents: Vec<(u64, Vec<u8>)> = machine.memory().common_contents();
    for (at, bytes) in &contents {
        schedule.put(Kind::Memory(Writes::new(&[(*at, bytes)])))?;
    }
    Ok(())
}
