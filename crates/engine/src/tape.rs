//! One thread's tape, as its task sees it: written while recording, read in replay.

use std::sync::atomic::Ordering::Relaxed;

use relive_host::Context;
use relive_trace::{Encoder, Event, Kind, Outline, TapeId, TapeReader};

use crate::failure::{Failure, Result};
use crate::shm::{Shm, state};

/// The tape of a task.
pub enum Tape {
    /// `relive run` keeps none.
    None,
    /// Being recorded.
    Out(TapeOut),
    /// Being replayed.
    In(TapeReader),
    /// Of a thread that ended with its process before it logged anything.
    Blank,
}

/// A tape being written into its ring.
pub struct TapeOut {
    shm: Shm,
    /// Index of the ring.
    pub ring: u32,
    /// Ticks of the last event, which the next one is coded against.
    pub last: u64,
    encoder: Encoder,
    scratch: Vec<u8>,
    events: u32,
}

/// After so many events the recorder is looked for: unrecorded, the program must not go on.
const LOOK_UP: u32 = 256;

impl TapeOut {
    /// Starts a tape in a ring of its own.
    ///
    /// # Errors
    /// All rings are in use.
    pub fn create(shm: Shm, id: TapeId, pid: u32) -> Result<Self> {
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
            events: 0,
        }
    }

    /// Appends an event.
    pub fn put(&mut self, event: &Event<'_>) {
        crate::stats::logged(&event.kind);
        self.scratch.clear();
        self.last = event.ticks;
        self.encoder.encode(event, &mut self.scratch);
        self.shm.push(self.ring, &self.scratch);
        let ring = self.shm.ring(self.ring);
        // Only this thread writes them.
        ring.events.store(ring.events.load(Relaxed) + 1, Relaxed);
        ring.ticks.store(event.ticks, Relaxed);
        self.events = self.events.wrapping_add(1);
        if self.events.is_multiple_of(LOOK_UP) {
            self.shm.need_supervisor();
        }
        if self.scratch.capacity() > 1 << 20 {
            self.scratch = Vec::with_capacity(4096);
        }
    }

    /// Says that no event will follow.
    pub fn close(&self) {
        self.shm
            .ring(self.ring)
            .state
            .store(state::CLOSED, std::sync::atomic::Ordering::Release);
    }
}

impl Tape {
    /// Whether this is a recording.
    #[must_use]
    pub fn recording(&self) -> bool {
        matches!(self, Self::Out(_))
    }

    /// The next event in replay; `None` at the end of the tape.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn peek(&mut self) -> Result<Option<Event<'_>>> {
        match self {
            Self::In(r) => r.peek().map_err(Failure::setup),
            Self::Blank => Ok(None),
            _ => Err(Failure::internal("only a replay reads tapes")),
        }
    }

    /// What the next event is, in short; `None` at the end of the tape.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn outline(&mut self) -> Result<Option<Outline>> {
        match self {
            Self::In(r) => r.outline().map_err(Failure::setup),
            Self::Blank => Ok(None),
            _ => Err(Failure::internal("only a replay reads tapes")),
        }
    }

    /// Whether no event follows.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn at_end(&mut self) -> Result<bool> {
        Ok(self.outline()?.is_none())
    }

    /// Goes past the next event.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn skip(&mut self) -> Result<()> {
        match self {
            Self::In(r) => {
                if crate::stats::wanted()
                    && let Some(event) = r.peek().map_err(Failure::setup)?
                {
                    crate::stats::logged(&event.kind);
                }
                r.skip().map(drop).map_err(Failure::setup)
            }
            _ => Err(Failure::internal("only a replay reads tapes")),
        }
    }
}

/// Hash of a thread's general registers and pc; never 0. `rcx` and `r11` are left out at
/// system calls by the caller's choice of moment: it hashes before they are overwritten.
#[must_use]
pub fn digest(ctx: &Context) -> u32 {
    let mut h = ctx.rip ^ 0x9e37_79b9_7f4a_7c15;
    for &r in &ctx.gpr {
        h = (h.rotate_left(23) ^ r).wrapping_mul(0xff51_afd7_ed55_8ccd);
    }
    ((h ^ (h >> 32)) as u32).max(1)
}
