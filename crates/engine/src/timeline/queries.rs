//! Questions about a whole recording that are answered by replaying it.

use serde::Serialize;

use super::back::SearchResult;
use super::present::{Stopped, Timeline};
use super::replay_process::{Interrupter, ReplayProcess};
use super::route::Noted;
use super::spot::{Fine, Spot};
use crate::failure::Result;
use crate::guide::point::Point;
use crate::guide::protocol::{
    AtStop, Ended, OTHERS, ReplayStatus, RunRequest, StopEvent, StopSet, Watching, Watchpoint,
};

/// Where something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EventPlace {
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

impl EventPlace {
    /// As a position to go to.
    #[must_use]
    pub fn spot(&self) -> Spot {
        Spot {
            event: self.event,
            tick: self.tick,
            fine: Fine::Pc(self.pc),
            thread: Some(self.thread),
            process: Some(self.process),
        }
    }

    pub(super) fn of(status: &ReplayStatus) -> Self {
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
    pub place: EventPlace,
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

fn writes(addr: u64, len: u64) -> StopSet {
    StopSet {
        watchpoints: vec![Watchpoint {
            addr,
            len,
            kind: Watching::Writes,
        }],
        ..StopSet::default()
    }
}

impl Timeline {
    /// Announces, at the start, a query for the last write to this memory: then writes are noted on
    /// the way, if that is cheap.
    pub fn note_writes(&mut self, addr: u64, len: u64) {
        if self.status.point == self.start {
            self.noted = Some(Noted {
                stops: writes(addr, len),
                to: self.start,
                last: None,
            });
        }
    }

    /// The last write to `len` bytes at `addr` before the present position, which stays.
    /// `None`: there was none since the process began (or it was interrupted).
    ///
    /// # Errors
    /// Divergence.
    pub fn last_write(
        &mut self,
        addr: u64,
        len: u64,
        wanted: &mut dyn Interrupter,
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
        wanted: &mut dyn Interrupter,
        look: &mut dyn FnMut(&mut ReplayProcess),
    ) -> Result<Option<LastWrite>> {
        let stops = writes(addr, len);
        let noted = self.noted.as_ref();
        let noted = noted.filter(|n| n.to == self.status.point && n.stops == stops);
        let found = match noted.map(|n| n.last) {
            Some(Some(hit)) => self.stand_before(hit, wanted)?,
            Some(None) => SearchResult::Nothing,
            None => self.last_hit(&stops, self.status, wanted)?,
        };
        let SearchResult::Hit(found) = found else {
            return Ok(None);
        };
        let (hit, mut host, status) = *found;
        let before = host.read(addr, len)?;
        look(&mut host);
        let call = match hit.what {
            StopEvent::Watchpoint { call, .. } => call,
            _ => None,
        };
        // Others write while the thread waits, and one step of it would lead on to its next turn.
        let by_others = call == Some(OTHERS);
        let step = RunRequest {
            until: None,
            with_end: false,
            step: (!by_others).then_some((hit.slot, 1)),
            search: if by_others {
                AtStop::Stop
            } else {
                AtStop::Last
            },
            leave: true,
            work: None,
            output: false,
            fast: false,
        };
        let until = if by_others { stops } else { StopSet::default() };
        host.run(&step, &until, wanted)?;
        let after = host.read(addr, len)?;
        look(&mut host);
        Ok(Some(LastWrite {
            place: EventPlace::of(&status),
            call,
            before,
            after,
            point: hit.before,
        }))
    }

    /// Goes to the place where the process died of a signal: right before the signal.
    ///
    /// # Errors
    /// Divergence.
    pub fn goto_crash(&mut self, wanted: &mut dyn Interrupter) -> Result<Stopped> {
        let end = self.goto_end(wanted)?;
        if !matches!(end, Stopped::Ended(Ended::Signal(_))) {
            return Ok(end);
        }
        let old = std::mem::replace(
            &mut self.stops,
            StopSet {
                signals: true,
                ..StopSet::default()
            },
        );
        let stopped = self.backward(wanted);
        self.stops = old;
        stopped
    }
}
