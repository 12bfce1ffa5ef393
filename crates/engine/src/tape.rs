//! One thread's tape, as its task sees it: written while recording, read in replay.

use std::sync::atomic::Ordering::Relaxed;

use relive_host::Context;
use relive_host::reading::Window;
use relive_trace::{Bare, Encoder, Event, Kind, Outline, Short, TapeId, TapeReader};

use crate::course::Course;
use crate::failure::{Failure, Result};
use crate::readings::{Batch, Kept};
use crate::shm::Shm;
use crate::shm::ring::state;

/// `steps` of a signal that a fault raised: its position is its instruction.
pub const SYNCHRONOUS: u32 = u32::MAX;

/// The tape of a task.
pub enum Tape {
    /// `relive run` keeps none.
    None,
    /// Being recorded.
    Out(TapeOut),
    /// Being replayed.
    In(TapeIn),
    /// The tape of a thread that ended with its process before it logged an event.
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
    short: Short,
    events: u32,
    /// The thread's readings of clocks since its last event.
    pub readings: Kept,
    /// When it was where, where threads run at the same time.
    pub course: Option<Course>,
}

/// A tape being read.
pub struct TapeIn {
    reader: TapeReader,
    /// The thread's readings of clocks before its next event.
    pub readings: Batch,
    /// The next event is one of readings, which have been loaded.
    loaded: bool,
}

/// The recorder's life is checked once in so many events: unrecorded, the program must not go on.
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
        // Brings the delta coding to a reader's state; these bytes are not written.
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
            course: None,
        }
    }

    /// Notes the moment of the next event (`event`), or of tick `ticks`, at which the thread stands.
    pub fn moment(&mut self, ticks: u64, event: bool) {
        if let Some(kind) = self.course.as_mut().and_then(|c| c.moment(event)) {
            self.note(ticks, kind);
        }
    }

    /// Notes something that is no event and no position.
    pub fn note(&mut self, ticks: u64, kind: Kind<'_>) {
        self.append(&Event {
            ticks,
            digest: 0,
            kind,
        });
    }

    /// Appends an event, and before it what has been read from clocks.
    pub fn put(&mut self, event: &Event<'_>) {
        self.moment(event.ticks, true);
        self.flush(event.ticks);
        self.append(event);
    }

    /// Writes the readings of clocks. The thread stands at tick `ticks`, and must not run before its
    /// next event.
    pub fn flush(&mut self, ticks: u64) {
        self.put_readings(ticks, 0, false);
    }

    /// Makes room for more readings by an event of its own.
    pub fn put_full(&mut self, ticks: u64, digest: u32) {
        self.put_readings(ticks, digest, true);
    }

    fn put_readings(&mut self, ticks: u64, digest: u32, full: bool) {
        let mut readings = std::mem::take(&mut self.readings);
        if let Some(kind) = readings.take(ticks, full) {
            self.append(&Event {
                ticks,
                digest,
                kind,
            });
        }
        self.readings = readings;
    }

    /// As [`TapeOut::put`], for a system call whose only effect is its result. The counters do not
    /// count it.
    #[inline]
    pub fn put_bare(&mut self, call: &Bare<'_>, result: i64) {
        if self.course.is_some() {
            self.moment(call.ticks, true);
        }
        if self.readings.any() {
            self.flush(call.ticks);
        }
        self.encoder.bare(call, result, &mut self.short);
        self.shm.push_short(self.ring, &self.short);
        self.pushed(call.ticks);
    }

    fn append(&mut self, event: &Event<'_>) {
        crate::stats::logged(&event.kind);
        self.scratch.clear();
        self.encoder.encode(event, &mut self.scratch);
        self.shm.push(self.ring, &self.scratch);
        self.pushed(event.ticks);
        if self.scratch.capacity() > 1 << 20 {
            self.scratch = Vec::with_capacity(4096);
        }
    }

    /// Notes that an event at this tick has gone into the ring.
    #[inline]
    fn pushed(&mut self, ticks: u64) {
        self.last = ticks;
        let ring = self.shm.ring(self.ring);
        // Only this thread writes them.
        ring.events.store(ring.events.load(Relaxed) + 1, Relaxed);
        ring.ticks.store(ticks, Relaxed);
        self.events = self.events.wrapping_add(1);
        if self.events.is_multiple_of(LOOK_UP) {
            self.shm.need_supervisor_or_die();
        }
    }

    /// Notes that no event follows.
    pub fn close(&self) {
        self.shm
            .ring(self.ring)
            .state
            .store(state::CLOSED, std::sync::atomic::Ordering::Release);
    }
}

impl Tape {
    /// The next event in replay; `None` at the end of the tape.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn peek(&mut self) -> Result<Option<Event<'_>>> {
        match self {
            Self::In(t) => t.peek(),
            Self::Blank => Ok(None),
            _ => Err(Failure::internal("only a replay reads tapes")),
        }
    }

    /// The outline of the next event; `None` at the end of the tape.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn outline(&mut self) -> Result<Option<Outline>> {
        match self {
            Self::In(t) => t.outline(),
            Self::Blank => Ok(None),
            _ => Err(Failure::internal("only a replay reads tapes")),
        }
    }

    /// Ticks of the next event in replay, if it is a system call and visible without decoding it in full.
    #[inline]
    #[must_use]
    pub fn next_call(&self) -> Option<u64> {
        match self {
            Self::In(t) => t.glance().map(|outline| outline.ticks),
            _ => None,
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
            Self::In(t) => t.skip(),
            _ => Err(Failure::internal("only a replay reads tapes")),
        }
    }

    /// Lets the thread's translated code read clocks into or out of this tape, until
    /// [`Tape::take_back`].
    pub fn lend(&mut self, ctx: &mut Context) {
        ctx.readings = match self {
            Self::Out(t) => t.readings.lend(),
            Self::In(t) => t.readings.lend(),
            Self::None | Self::Blank => Window::default(),
        };
    }

    /// Takes the thread's readings over from its context.
    pub fn take_back(&mut self, ctx: &Context) {
        match self {
            Self::Out(t) => t.readings.take_back(&ctx.readings),
            Self::In(t) => t.readings.take_back(&ctx.readings),
            Self::None | Self::Blank => {}
        }
    }

    /// In replay: the readings that the thread has yet to make before its next event.
    #[must_use]
    pub fn unread(&self) -> Option<&Batch> {
        match self {
            Self::In(t) if t.readings.left() > 0 => Some(&t.readings),
            _ => None,
        }
    }
}

impl TapeIn {
    /// A tape at the reader's position.
    #[must_use]
    pub fn new(reader: TapeReader) -> Self {
        Self {
            reader,
            readings: Batch::default(),
            loaded: false,
        }
    }

    /// The number of events behind the thread, including loaded readings of clocks that it has not
    /// made yet.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.reader.position()
    }

    /// The reader, to go on without the thread.
    #[must_use]
    pub fn into_reader(self) -> TapeReader {
        self.reader
    }

    /// The next event. Readings of clocks that come before it are loaded on the way, so that
    /// the thread can make them when it runs.
    fn peek(&mut self) -> Result<Option<Event<'_>>> {
        while !self.loaded && self.load()? {}
        self.reader.peek().map_err(Failure::setup)
    }

    /// The outline of the next event, as [`TapeIn::peek`].
    fn outline(&mut self) -> Result<Option<Outline>> {
        if let Some(outline) = self.glance() {
            return Ok(Some(outline));
        }
        while !self.loaded && self.load()? {}
        self.reader.outline().map_err(Failure::setup)
    }

    /// The same, if it is a system call and visible without decoding it in full.
    #[inline]
    fn glance(&self) -> Option<Outline> {
        self.reader.glance().filter(|_| !self.loaded)
    }

    /// Goes past this system call, if it comes next and the tape has only its result. Returns the result.
    #[inline]
    pub fn bare(&mut self, call: &Bare<'_>) -> Option<i64> {
        match self.loaded || self.readings.left() > 0 {
            true => None,
            false => self.reader.bare(call),
        }
    }

    /// Loads the readings that come next; `false` if an event comes next.
    fn load(&mut self) -> Result<bool> {
        let outline = self.reader.outline().map_err(Failure::setup)?;
        if outline.is_none_or(|o| o.syscall) {
            return Ok(false);
        }
        let Some(event) = self.reader.peek().map_err(Failure::setup)? else {
            return Ok(false);
        };
        let Kind::Readings {
            full,
            since,
            readings,
        } = event.kind
        else {
            return Ok(false);
        };
        if self.readings.left() > 0 {
            return Err(Failure::setup(
                "the trace is damaged: readings of clocks follow others",
            ));
        }
        self.readings
            .load(&readings, event.ticks.wrapping_sub(since));
        if full {
            self.loaded = true;
            return Ok(false);
        }
        self.skip()?;
        // No event of the thread, but one of the tree.
        if let Some(shm) = crate::shm::shared() {
            shm.header().events.fetch_add(1, Relaxed);
        }
        Ok(true)
    }

    fn skip(&mut self) -> Result<()> {
        if crate::stats::wanted()
            && let Some(event) = self.reader.peek().map_err(Failure::setup)?
        {
            crate::stats::logged(&event.kind);
        }
        self.loaded = false;
        self.reader.skip().map(drop).map_err(Failure::setup)
    }
}

/// Hash of a thread's general registers and pc; never 0. `rcx` and `r11` are left out at
/// system calls by the caller's choice of moment: it hashes before they are overwritten.
#[inline]
#[must_use]
pub fn digest(ctx: &Context) -> u32 {
    digest_with(ctx.rip, &ctx.gpr)
}

/// The same of registers that are not in a context.
#[inline]
#[must_use]
pub fn digest_with(rip: u64, gpr: &[u64; 16]) -> u32 {
    let mut h = rip ^ 0x9e37_79b9_7f4a_7c15;
    for &r in gpr {
        h = (h.rotate_left(23) ^ r).wrapping_mul(0xff51_afd7_ed55_8ccd);
    }
    ((h ^ (h >> 32)) as u32).max(1)
}
