//! A tape that is written, into a ring of the memory shared with the supervisor.

use std::sync::atomic::Ordering::Relaxed;

use relive_host::Context;
use relive_trace::{Bare, Encoder, Event, Kind, Short, TapeId, TapeMark};

use crate::course::Course;
use crate::failure::Result;
use crate::ids;
use crate::readings::Kept;
use crate::shm::ring::state;
use crate::shm::{Logged, Shm};

/// `steps` of a signal that a fault raised: its position is its instruction.
pub const SYNCHRONOUS: u32 = u32::MAX;

/// A tape being written into its ring.
pub struct TapeOut {
    shm: Shm,
    /// Index of the ring.
    pub ring: u32,
    /// Ticks of the last event, which the next one is coded against.
    pub last: u64,
    encoder: Encoder,
    scratch: Vec<u8>,
    short: Short,
    events: u32,
    /// The thread's readings of clocks since its last event.
    pub readings: Kept,
    /// Operations that the thread had made when its last call began.
    pub ops_before_call: u64,
    /// When it was where, where threads run at the same time.
    pub course: Option<Course>,
    /// Junctures of the process that the thread knew of when it stood still last.
    pub junctures: u64,
    /// It stands still, behind a mark.
    pub stands: bool,
    /// The call at hand is a juncture, and not logged yet.
    pub at_juncture: bool,
}

/// After so many events the recorder is looked for: unrecorded, the program must not go on.
const LOOK_UP: u32 = 256;

impl TapeOut {
    /// Starts a tape in a ring of its own.
    ///
    /// # Errors
    /// All rings are in use.
    pub fn create(shm: Shm, id: TapeId) -> Result<Self> {
        Self::create_for(shm, id, ids::process())
    }

    /// The same, for the process with this kernel id: the tape ends with it, if not before.
    ///
    /// # Errors
    /// All rings are in use.
    pub fn create_for(shm: Shm, id: TapeId, pid: u32) -> Result<Self> {
        let ring = shm.claim(id, pid)?;
        Ok(Self::attach(shm, ring, 0))
    }

    /// Goes on writing into a ring (after exec), whose last event was at tick `last`.
    #[must_use]
    pub fn attach(shm: Shm, ring: u32, last: u64) -> Self {
        let (mut encoder, mut scratch) = (Encoder::new(), Vec::with_capacity(4096));
        // Brings the delta coding to where a reader is; these bytes are not written.
        encoder.encode(
            &Event {
                ticks: last,
                digest: 0,
                kind: Kind::Turn { thread: 0 },
            },
            &mut scratch,
        );
        Self {
            shm,
            ring,
            last,
            encoder,
            scratch,
            short: Short::new(),
            events: 0,
            readings: Kept::default(),
            ops_before_call: 0,
            course: None,
            junctures: 0,
            stands: false,
            at_juncture: false,
        }
    }

    /// Notes the moment of the next event (`event`), or of tick `ticks`, which is the last one behind the
    /// thread.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub fn moment(&mut self, ticks: u64, event: bool) -> Logged {
        match self.course.as_mut().and_then(|c| c.moment(event)) {
            Some(kind) => self.note(ticks, kind),
            None => Ok(()),
        }
    }

    /// Notes that the thread has come to a call that may never end, at tick `ticks`.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub fn arrived(&mut self, ticks: u64) -> Logged {
        match self.course.as_mut().and_then(Course::arrived) {
            Some(kind) => self.note(ticks, kind),
            None => Ok(()),
        }
    }

    /// Takes in the edges that have been logged: by translated code, or (`event`) for the next event.
    ///
    /// # Errors
    /// No supervisor stores one.
    #[inline]
    pub fn take_edges(&mut self, ctx: &mut Context, event: bool) -> Logged {
        match ctx.edges().is_empty() {
            true => Ok(()),
            false => self.log_edges(ctx, event),
        }
    }

    fn log_edges(&mut self, ctx: &mut Context, event: bool) -> Logged {
        for edge in ctx.edges() {
            let kind = Kind::Edge {
                at: edge.at,
                event,
                thread: edge.from - 1,
                op: edge.from_op,
            };
            self.note(edge.ticks, kind)?;
        }
        ctx.clear_edges();
        Ok(())
    }

    /// Notes something that is no event and no position.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub fn note(&mut self, ticks: u64, kind: Kind<'_>) -> Logged {
        // A thread may be gone before its next event, and needs them on its way to here.
        if self.readings.any() {
            self.flush(ticks)?;
        }
        self.noted();
        self.append(&Event {
            ticks,
            digest: 0,
            kind,
        })
    }

    /// Appends an event, and before it the readings of clocks.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub fn put(&mut self, event: &Event<'_>) -> Logged {
        self.moment(event.ticks, true)?;
        self.flush(event.ticks)?;
        self.append(event)
    }

    /// Writes the readings of clocks. The thread stands at tick `ticks`, and does not
    /// run before its next event.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub fn flush(&mut self, ticks: u64) -> Logged {
        self.put_readings(ticks, 0, false)
    }

    /// Makes room for more readings: an event of its own, before the one that has no room.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub fn put_full(&mut self, ticks: u64, digest: u32) -> Logged {
        self.put_readings(ticks, digest, true)
    }

    fn put_readings(&mut self, ticks: u64, digest: u32, full: bool) -> Logged {
        let mut readings = std::mem::take(&mut self.readings);
        let logged = match readings.take(ticks, full) {
            Some(kind) => {
                if !full {
                    self.noted();
                }
                self.append(&Event {
                    ticks,
                    digest,
                    kind,
                })
            }
            None => Ok(()),
        };
        self.readings = readings;
        logged
    }

    /// As [`TapeOut::put`], for a system call of which nothing but the result is to be told. The
    /// counters do not see it.
    ///
    /// # Errors
    /// No supervisor stores it.
    #[inline]
    pub fn put_bare(&mut self, call: &Bare<'_>, result: i64) -> Logged {
        if self.course.is_some() {
            self.moment(call.ticks, true)?;
        }
        if self.readings.any() {
            self.flush(call.ticks)?;
        }
        self.encoder.bare(call, result, &mut self.short);
        self.shm.push_short(self.ring, &self.short)?;
        self.pushed(call.ticks)
    }

    /// Appends an event.
    pub(super) fn append(&mut self, event: &Event<'_>) -> Logged {
        crate::stats::logged(&event.kind);
        self.scratch.clear();
        self.encoder.encode(event, &mut self.scratch);
        self.shm.push(self.ring, &self.scratch)?;
        if self.scratch.capacity() > 1 << 20 {
            self.scratch = Vec::with_capacity(4096);
        }
        self.pushed(event.ticks)
    }

    /// The next entry is no event of the thread.
    fn noted(&self) {
        let notes = &self.shm.ring(self.ring).notes;
        // Only this thread writes it.
        notes.store(notes.load(Relaxed) + 1, Relaxed);
    }

    /// How far the tape is.
    #[must_use]
    pub fn mark(&self) -> TapeMark {
        let ring = self.shm.ring(self.ring);
        TapeMark {
            offset: ring.head.load(Relaxed),
            event: ring.events.load(Relaxed),
            ticks: ring.ticks.load(Relaxed),
        }
    }

    /// An event at this tick has gone into the ring.
    #[inline]
    fn pushed(&mut self, ticks: u64) -> Logged {
        self.last = ticks;
        let ring = self.shm.ring(self.ring);
        // Only this thread writes them.
        ring.events.store(ring.events.load(Relaxed) + 1, Relaxed);
        ring.ticks.store(ticks, Relaxed);
        self.events = self.events.wrapping_add(1);
        match self.events.is_multiple_of(LOOK_UP) {
            true => self.shm.need_supervisor(),
            false => Ok(()),
        }
    }

    /// This process writes it from now on, by the supervisor's id.
    pub fn is_of(&self, pid: u32) {
        self.shm.ring(self.ring).pid.store(pid, Relaxed);
    }

    /// Says that no event will follow.
    pub fn close(&self) {
        self.shm
            .ring(self.ring)
            .state
            .store(state::CLOSED, std::sync::atomic::Ordering::Release);
    }
}
