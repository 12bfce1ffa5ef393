//! Questions about a whole recording that are answered by replaying it.

use serde::Serialize;

use super::back::Found;
use super::host::{Host, Wanted};
use super::point::Point;
use super::protocol::{Ended, OTHERS, Run, Search, Status, Stops, Watching, Watchpoint, What};
use super::travel::{Stopped, Timeline};
use crate::failure::Result;

/// Where something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Events of the process before it.
    pub event: u64,
    /// Ticks of the thread.
    pub tick: u64,
    /// Index of the process in the recording.
    pub process: u32,
    /// Index of the thread in the process.
    pub thread: u32,
    /// Its recorded id.
    pub tid: u32,
    /// Guest address of the instruction.
    pub pc: u64,
}

impl Place {
    pub(super) fn of(status: &Status) -> Self {
        Self {
            event: status.point.event,
            tick: status.point.ticks,
            process: status.process,
            thread: status.thread,
            tid: status.tid,
            pc: status.pc,
        }
    }
}

/// A write to memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastWrite {
    /// The instruction that writes, or the system call.
    pub place: Place,
    /// The system call by whose result the memory was written, `u32::MAX` for a signal frame,
    /// [`OTHERS`] for another process.
    pub call: Option<u32>,
    /// The asked bytes right before.
    pub before: Vec<u8>,
    /// And right behind.
    pub after: Vec<u8>,
    /// The position right before.
    #[serde(skip)]
    pub point: Point,
}

/// A call of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Call {
    /// Its first instruction.
    pub place: Place,
    /// The first six integer arguments, by the System V calling convention.
    pub arguments: [u64; 6],
    /// Where it returns to.
    pub return_to: u64,
    /// The integer result; `None` if the function never returned.
    pub result: Option<u64>,
}

/// A call that has not returned.
struct Open {
    call: usize,
    slot: u32,
    /// The stack pointer behind the return.
    rsp: u64,
    return_to: u64,
}

const ARGUMENTS: [usize; 6] = [7, 6, 2, 1, 8, 9];
const RSP: usize = 4;

impl Timeline {
    /// The last write to `len` bytes at `addr` before the present position, which stays.
    /// `None`: there was none since the process began (or it was interrupted).
    ///
    /// # Errors
    /// Divergence.
    pub fn last_write(
        &mut self,
        addr: u64,
        len: u64,
        wanted: &mut dyn Wanted,
    ) -> Result<Option<LastWrite>> {
        self.last_write_seen(addr, len, wanted, &mut |_| {})
    }

    /// The same; `look` sees the process twice, right before the write and right behind it.
    ///
    /// # Errors
    /// Divergence.
    pub fn last_write_seen(
        &mut self,
        addr: u64,
        len: u64,
        wanted: &mut dyn Wanted,
        look: &mut dyn FnMut(&mut Host),
    ) -> Result<Option<LastWrite>> {
        let stops = Stops {
            watchpoints: vec![Watchpoint {
                addr,
                len,
                kind: Watching::Writes,
            }],
            ..Stops::default()
        };
        let Found::Hit(found) = self.last_hit(&stops, self.status, wanted)? else {
            return Ok(None);
        };
        let (hit, mut host, status) = *found;
        let before = host.read(addr, len)?;
        look(&mut host);
        let call = match hit.what {
            What::Watchpoint { call, .. } => call,
            _ => None,
        };
        // Others write while the thread waits, and one step of it would lead on to its next turn.
        let by_others = call == Some(OTHERS);
        let step = Run {
            until: None,
            step: (!by_others).then_some((hit.slot, 1)),
            search: if by_others {
                Search::Stop
            } else {
                Search::Count
            },
            leave: true,
            work: None,
            output: false,
        };
        let until = if by_others { stops } else { Stops::default() };
        host.run(&step, &until, wanted)?;
        let after = host.read(addr, len)?;
        look(&mut host);
        Ok(Some(LastWrite {
            place: Place::of(&status),
            call,
            before,
            after,
            point: hit.before,
        }))
    }

    /// The calls of the function at `addr`, from the present position on, at most `most`.
    /// Afterwards the timeline is behind the last of them, or at the end.
    ///
    /// # Errors
    /// Divergence.
    pub fn calls(&mut self, addr: u64, most: usize, wanted: &mut dyn Wanted) -> Result<Vec<Call>> {
        let old = std::mem::take(&mut self.stops);
        let found = self.collect_calls(addr, most, wanted);
        self.stops = old;
        found
    }

    fn collect_calls(
        &mut self,
        addr: u64,
        most: usize,
        wanted: &mut dyn Wanted,
    ) -> Result<Vec<Call>> {
        let mut calls: Vec<Call> = Vec::new();
        let mut open: Vec<Open> = Vec::new();
        loop {
            let mut breakpoints: Vec<u64> = open.iter().map(|o| o.return_to).collect();
            if calls.len() < most {
                breakpoints.push(addr);
            } else if open.is_empty() {
                return Ok(calls);
            }
            breakpoints.sort_unstable();
            breakpoints.dedup();
            self.stops.breakpoints = breakpoints;
            let stopped = self.forward_only(wanted)?;
            let Stopped::Hit(hit) = stopped else {
                return Ok(calls);
            };
            let status = self.status;
            let Some(registers) = self.guest().registers(hit.slot)? else {
                continue;
            };
            let rsp = registers.gpr[RSP];
            if let Some(i) = open
                .iter()
                .rposition(|o| o.slot == hit.slot && o.return_to == hit.pc && o.rsp == rsp)
            {
                calls[open[i].call].result = Some(registers.gpr[0]);
                open.remove(i);
            }
            if hit.pc == addr && calls.len() < most {
                let return_to = word(self.guest(), rsp)?;
                open.push(Open {
                    call: calls.len(),
                    slot: hit.slot,
                    rsp: rsp.wrapping_add(8),
                    return_to,
                });
                calls.push(Call {
                    place: Place::of(&status),
                    arguments: ARGUMENTS.map(|r| registers.gpr[r]),
                    return_to,
                    result: None,
                });
            }
        }
    }

    /// Goes to the place where the process died of a signal: right before the signal.
    ///
    /// # Errors
    /// Divergence.
    pub fn goto_crash(&mut self, wanted: &mut dyn Wanted) -> Result<Stopped> {
        let end = self.goto_end(wanted)?;
        if !matches!(end, Stopped::Ended(Ended::Signal(_))) {
            return Ok(end);
        }
        let old = std::mem::replace(
            &mut self.stops,
            Stops {
                signals: true,
                ..Stops::default()
            },
        );
        let stopped = self.backward(wanted);
        self.stops = old;
        stopped
    }
}

fn word(host: &mut Host, addr: u64) -> Result<u64> {
    let bytes = host.read(addr, 8)?;
    Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
}
