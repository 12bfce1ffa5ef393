//! The turns of a replaying process: its own schedule, and where that waits for others.
//!
//! Processes that share memory replay side by side; before a turn that followed one of
//! another process, this one waits until that is over. So all accesses to the memory happen
//! in the recorded order, however the processes run otherwise.

use std::sync::atomic::Ordering;

use relive_trace::{Kind, TapeId, TapeMark, TapeReader, Writes};

use super::hook_state::{alone, with};
use super::linear::exact_turns::ExactTurns;
use super::other_writers::{self, ForeignWrites};
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::memory::Memory;
use crate::sharing::processes::PROCESSES;
use crate::sharing::processes::ProcessSlot;
use crate::stats;

/// The schedule of one process.
pub struct TurnSchedule {
    machine: &'static Machine,
    process: u32,
    tape: Option<TapeReader>,
    /// The turn at hand; 0 = before the first one on the tape.
    turn: u32,
    /// The last turn of this process that others wait for, once it has been looked up.
    awaited: Option<Option<u32>>,
    /// Replay of one process alone: the changes of others.
    other_writers: ForeignWrites,
    /// Linearising: where the turns are copied to.
    exact: Option<ExactTurns>,
}

impl TurnSchedule {
    /// From the beginning.
    ///
    /// # Errors
    /// The changes of others cannot be read.
    pub fn of(machine: &'static Machine, process: u32) -> Result<Self> {
        if let Some(slot) = slot(machine, process) {
            slot.pid.store(std::process::id(), Ordering::Release);
        }
        Ok(Self {
            machine,
            process,
            tape: with(|s| s.trace.tape(TapeId::schedule(process))).ok(),
            turn: 0,
            awaited: None,
            other_writers: match alone() {
                true => ForeignWrites::of(process)?,
                false => ForeignWrites::default(),
            },
            exact: ExactTurns::of(machine, process),
        })
    }

    /// At a turn, and a position on the schedule tape: see [`TurnSchedule::capture`].
    ///
    /// # Errors
    /// The trace has no such position.
    pub fn restore(
        machine: &'static Machine,
        process: u32,
        turn: u32,
        mark: Option<TapeMark>,
    ) -> Result<Self> {
        let at = |mark: TapeMark| with(|s| s.trace.tape_at(TapeId::schedule(process), &mark));
        // The turns before the one at hand: another process may wait for one of them.
        if let Some(slot) = slot(machine, process) {
            slot.over(turn, false);
        }
        Ok(Self {
            tape: mark.map(at).transpose().map_err(Failure::setup)?,
            turn,
            ..Self::of(machine, process)?
        })
    }

    /// The turn at hand, and the position on the schedule tape, if there is one.
    pub fn capture(&self) -> (u32, Option<TapeMark>) {
        (self.turn, self.tape.as_ref().map(TapeReader::mark))
    }

    /// The machine that replays the process.
    pub fn machine(&self) -> &'static Machine {
        self.machine
    }

    /// The process whose turns these are.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// The turns behind those that were found.
    pub fn goes_on(&mut self, found: ExactTurns) {
        self.exact = Some(found);
    }

    /// Whether a turn follows in this process.
    ///
    /// # Errors
    /// The trace is damaged.
    pub fn more(&mut self) -> Result<bool> {
        match &mut self.tape {
            Some(t) => Ok(t.outline().map_err(Failure::setup)?.is_some()),
            None => Ok(false),
        }
    }

    /// Ends the turn at hand and waits for the next one. Returns the thread whose turn it is;
    /// `None` when the recording of this process ends here, or that of one it waits for.
    ///
    /// # Errors
    /// The trace is damaged.
    pub fn next(&mut self) -> Result<Option<u32>> {
        if let Some(tape) = &mut self.tape
            && let Some(Kind::Handover { process, .. }) =
                tape.peek().map_err(Failure::setup)?.map(|e| e.kind)
            && process != self.process
        {
            other_writers::leaves(self.machine, self.process)?;
        }
        self.over();
        let Some(tape) = &mut self.tape else {
            return Ok(None);
        };
        let event = tape.next().map_err(Failure::setup)?;
        if let Some(event) = &event {
            stats::logged(&event.kind);
        }
        let exact = &mut self.exact;
        let mut copy = |kind: Kind<'_>| exact.as_mut().map_or(Ok(()), |exact| exact.copy(kind));
        let thread = match event.map(|e| e.kind) {
            None => return Ok(None),
            Some(kind @ Kind::Turn { thread }) => {
                copy(kind)?;
                thread
            }
            Some(
                kind @ Kind::Handover {
                    thread,
                    process,
                    turn,
                },
            ) => {
                let others = process != self.process;
                if alone() && others {
                    if !self.other_writers.apply(self.machine, self.turn + 1)? {
                        return Ok(None);
                    }
                } else {
                    if !reached(self.machine, process, turn)? {
                        return Ok(None);
                    }
                    if others {
                        other_writers::returns(self.process, self.turn + 1)?;
                    }
                }
                copy(kind)?;
                self.machine.memory().forget_common_code()?;
                thread
            }
            Some(other) => {
                return Err(Failure::setup(format!(
                    "the trace is damaged: {other:?} on a schedule"
                )));
            }
        };
        self.turn += 1;
        Ok(self.rest()?.then_some(thread))
    }

    /// Consumes the events that belong to a turn: other turns to wait for, and the content of
    /// shared memory. `false`: the recording of a process to wait for ends here.
    fn rest(&mut self) -> Result<bool> {
        let Some(tape) = &mut self.tape else {
            return Ok(true);
        };
        loop {
            match tape.peek().map_err(Failure::setup)?.map(|e| e.kind) {
                // Earlier changes of others are in the content of the file.
                Some(Kind::After { .. }) if alone() => {}
                Some(Kind::After { process, turn }) => {
                    if !reached(self.machine, process, turn)? {
                        return Ok(false);
                    }
                }
                Some(Kind::Memory(writes)) => apply(self.machine, self.process, &writes)?,
                _ => return Ok(true),
            }
            if let Some(event) = tape.next().map_err(Failure::setup)? {
                stats::logged(&event.kind);
                if let Some(exact) = &mut self.exact {
                    exact.copy(event.kind)?;
                }
            }
        }
    }

    /// The turn at hand is over: others may see its effects.
    pub fn over(&self) {
        if let Some(slot) = self.slot(self.process) {
            slot.over(self.turn + 1, false);
        }
    }

    /// A new program begins a turn of its own.
    pub fn begin_program(&mut self) {
        self.over();
        self.turn += 1;
    }

    fn slot(&self, process: u32) -> Option<&'static ProcessSlot> {
        slot(self.machine, process)
    }

    /// The process has no further turn.
    pub fn end(&self) {
        if let Some(slot) = self.slot(self.process) {
            slot.over(self.turn + 1, true);
        }
    }

    /// Whether another process waits for the turn at hand, so that all its work must be
    /// done, even work without an event.
    ///
    /// # Errors
    /// The trace is damaged.
    pub fn awaited(&mut self) -> Result<bool> {
        let last = match self.awaited {
            Some(last) => last,
            None => *self.awaited.insert(last_awaited(self.process)?),
        };
        Ok(last.is_some_and(|last| last >= self.turn))
    }
}

fn apply(machine: &Machine, process: u32, writes: &Writes<'_>) -> Result<()> {
    let mut memory = machine.memory();
    for (at, bytes) in writes.iter() {
        if let Some((first, len)) = difference(&memory, at, bytes)? {
            super::watching::wrote(first, len);
        }
        memory.poke(at, bytes)?.map_err(|bad| {
            Failure::divergence(format!(
                "shared memory of process {process} was recorded at {at:#x}, and nothing is mapped at {} in the replay",
                bad.0
            ))
        })?;
    }
    Ok(())
}

/// Where the memory differs from its content to be: start and length.
fn difference(memory: &Memory, at: u64, bytes: &[u8]) -> Result<Option<(u64, u64)>> {
    let Some(end) = at.checked_add(bytes.len() as u64) else {
        return Ok(None);
    };
    let old = memory.content(at, end)?;
    let differs = |i: &usize| old[*i] != bytes[*i];
    let first = (0..bytes.len()).find(differs);
    let last = (0..bytes.len()).rfind(differs);
    let range = first.zip(last);
    Ok(range.map(|(first, last)| (at + first as u64, (last + 1 - first) as u64)))
}

fn damaged(process: u32) -> Failure {
    Failure::setup(format!(
        "the trace is damaged: a turn after one of process {process}"
    ))
}

fn slot(machine: &'static Machine, process: u32) -> Option<&'static ProcessSlot> {
    PROCESSES.of(machine.shm.as_ref()?).get(process)
}

/// Waits for a turn of a process, or (`None`) for its end. `false`: its recording ends before that. A process
/// that was over before an excerpt begins is none of its replay: nobody would tell of its end.
fn reached(machine: &'static Machine, process: u32, turn: Option<u32>) -> Result<bool> {
    let other = slot(machine, process).ok_or_else(|| damaged(process))?;
    Ok(with(|s| s.trace.begins_behind(process)) || other.await_turn(turn)?)
}

/// The last turn of a process that a turn of another one follows.
fn last_awaited(process: u32) -> Result<Option<u32>> {
    let tapes: Vec<TapeReader> = with(|s| {
        let schedules = s.trace.tapes().iter().map(|t| t.id);
        let others: Vec<TapeId> = schedules
            .filter(|id| id.is_schedule() && id.process != process)
            .collect();
        others
            .into_iter()
            .map(|id| s.trace.tape(id).map_err(Failure::setup))
            .collect::<Result<_>>()
    })?;
    let mut last = None;
    for mut tape in tapes {
        while let Some(e) = tape.next().map_err(Failure::setup)? {
            let (to, turn) = match e.kind {
                Kind::Handover { process, turn, .. } => (process, turn),
                Kind::After { process, turn } => (process, turn),
                _ => continue,
            };
            if to == process {
                last = last.max(turn);
            }
        }
    }
    Ok(last)
}
