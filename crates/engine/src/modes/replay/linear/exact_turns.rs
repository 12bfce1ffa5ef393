//! The exact schedule of a process: turns that are found, and behind them those that the recording has, of a
//! process that has gone over to turns. On the tapes a turn is named by its number, and those that were found
//! come first.

use std::sync::atomic::Ordering;

use relive_trace::{Event, Kind, TapeId};

use super::wanted::{is_wanted, is_written};
use crate::failure::Result;
use crate::machine::Machine;
use crate::sharing::processes::PROCESSES;
use crate::shm::Shm;
use crate::tape::TapeOut;

/// An exact schedule that is written.
pub struct ExactTurns {
    shm: Shm,
    process: u32,
    /// The turns are written down.
    writes: bool,
    /// From its first turn on.
    tape: Option<TapeOut>,
    found: u32,
}

impl ExactTurns {
    /// Of a process, if this replay linearises.
    pub fn of(machine: &Machine, process: u32) -> Option<Self> {
        let shm = machine.shm.filter(|_| is_wanted())?;
        Some(Self {
            shm,
            process,
            writes: is_written(),
            tape: None,
            found: 0,
        })
    }

    /// A turn has been found.
    ///
    /// # Errors
    /// No room for the schedule.
    pub fn found(&mut self, thread: u32) -> Result<()> {
        self.found += 1;
        self.put(Kind::Turn { thread })
    }

    /// Says how many have been found, before others may name the recorded turn that is behind them: the first one
    /// of a program, or the end.
    pub fn tell_found(&self) {
        if let Some(slot) = PROCESSES.of(&self.shm).get(self.process) {
            slot.found.store(self.found, Ordering::Release);
        }
    }

    /// An event of the recorded schedule, whose turn has begun: those that it names are over.
    ///
    /// # Errors
    /// No room for the schedule.
    pub fn copy(&mut self, kind: Kind<'_>) -> Result<()> {
        let kind = match kind {
            Kind::Handover {
                thread,
                process,
                turn,
            } => Kind::Handover {
                thread,
                process,
                turn: turn.map(|turn| turn + self.found_by(process)),
            },
            Kind::After { process, turn } => Kind::After {
                process,
                turn: turn.map(|turn| turn + self.found_by(process)),
            },
            kind => kind,
        };
        self.put(kind)
    }

    fn found_by(&self, process: u32) -> u32 {
        let slot = PROCESSES.of(&self.shm).get(process);
        slot.map_or(0, |slot| slot.found.load(Ordering::Acquire))
    }

    fn put(&mut self, kind: Kind<'_>) -> Result<()> {
        if !self.writes {
            return Ok(());
        }
        let tape = match &mut self.tape {
            Some(tape) => tape,
            none => none.insert(TapeOut::create(self.shm, TapeId::schedule(self.process))?),
        };
        Ok(tape.put(&Event {
            ticks: 0,
            digest: 0,
            kind,
        })?)
    }
}
