//! A tape that is read, in a replay.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use relive_trace::{Bare, Event, Kind, Outline, Readings, TapeMark, TapeReader};
use serde::{Deserialize, Serialize};

use super::course_notes::CourseNotes;
use super::exact::ExactTape;
use super::upcoming::Upcoming;
use crate::course::{Clock, Following, Note};
use crate::failure::{Failure, Result};
use crate::readings::{Batch, BatchState};
use crate::shm::Logged;

/// A tape being read.
pub struct TapeIn {
    reader: TapeReader,
    /// The thread's readings of clocks before its next event.
    pub readings: Batch,
    /// The next event is one of readings, which have been loaded.
    loaded: bool,
    /// Of the next readings on the tape, so many have been made.
    made: u32,
    /// Of the next edges on the tape, so many are of operations that have been made, where it begins in an image.
    edges: u32,
    /// What the next event says of turns, once that has been asked for.
    upcoming: Option<Upcoming>,
    /// Notes of its course up to the next event.
    pub notes: CourseNotes,
    clock: Clock,
    /// The last moment behind the thread: its tick, and when it was.
    pub behind: (u64, u64),
    /// The tick up to which a search lets the thread go early, as decided for its last way.
    pub early: Option<u64>,
    /// Moments behind the thread, from the beginning of its tape.
    pub moments: u64,
    /// The sum of the bytes that the last event wrote from guest memory.
    pub written: Option<u64>,
    /// The operations of the last event that follow those of other threads, which come before them.
    pub follows: Vec<Following>,
    /// The marks of events that the thread has passed, and what they come behind, as far as that was not yet there.
    pub late: VecDeque<Note>,
    /// The exact tape that is written meanwhile.
    pub exact: Option<ExactTape>,
}

/// Where a thread stands on its tape, as plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TapeState {
    /// The position of the reader.
    pub mark: TapeMark,
    readings: BatchState,
    loaded: bool,
    /// What the tape counts from here on, if threads ran at the same time.
    pub order: OrderState,
}

/// What a tape of threads that ran at the same time counts from a place on, as plain data; zeros on other tapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderState {
    /// Operations that the thread has made.
    pub ops: u64,
    /// Its marks.
    pub marks: u64,
    /// The end of the last moment on the tape, by the time stamp counter.
    pub clock: u64,
    /// When the thread was there, by the same.
    pub moment: u64,
    /// Readings of clocks that it has made since its last event: the tape has them later, with those that follow.
    pub readings: u32,
    /// Its operations behind those of others that the tape has later.
    pub edges: u32,
}

impl OrderState {
    /// Whether the tape has later what the thread did before.
    #[must_use]
    pub fn owes(&self) -> bool {
        self.readings > 0 || self.edges > 0
    }
}

impl TapeState {
    /// At a mark, without readings that have been looked at.
    #[must_use]
    pub fn at(mark: TapeMark) -> Self {
        Self {
            mark,
            readings: BatchState::default(),
            loaded: false,
            order: OrderState::default(),
        }
    }

    /// The same on a tape of threads that ran at the same time.
    #[must_use]
    pub fn in_order(mark: TapeMark, order: OrderState) -> Self {
        Self {
            order,
            ..Self::at(mark)
        }
    }
}

impl TapeIn {
    /// The description of the position, `made` operations and marks behind the thread's first; `None` where there is more
    /// to it than that: behind the place where a tape of threads that ran at the same time begins.
    #[must_use]
    pub fn capture(&self, (ops, marks): (u64, u64)) -> Option<TapeState> {
        let plain = self.notes.is_empty() && self.exact.is_none() && self.moments == 0;
        plain.then(|| TapeState {
            mark: self.reader.mark(),
            readings: self.readings.capture(),
            loaded: self.loaded,
            order: OrderState {
                ops,
                marks,
                clock: self.clock.last(),
                moment: self.behind.1,
                readings: self.made,
                edges: self.edges,
            },
        })
    }

    /// The tape at a position, to which the reader has been brought, of a thread at tick `ticks`; `None`: it can be none.
    #[must_use]
    pub fn restore(reader: TapeReader, state: &TapeState, ticks: u64) -> Option<Self> {
        Some(Self {
            readings: Batch::restore(&state.readings)?,
            loaded: state.loaded,
            clock: Clock::at(state.order.clock),
            behind: match state.order.moment {
                0 => (0, 0),
                moment => (ticks, moment),
            },
            made: state.order.readings,
            edges: state.order.edges,
            ..Self::new(reader)
        })
    }

    /// A tape at the reader's position.
    #[must_use]
    pub fn new(reader: TapeReader) -> Self {
        Self {
            reader,
            readings: Batch::default(),
            loaded: false,
            made: 0,
            edges: 0,
            upcoming: None,
            notes: CourseNotes::default(),
            clock: Clock::default(),
            behind: (0, 0),
            early: None,
            moments: 0,
            written: None,
            follows: Vec::new(),
            late: VecDeque::new(),
            exact: None,
        }
    }

    /// Number of events behind the thread, readings of clocks that it is about to make
    /// included.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.reader.position()
    }

    /// The reader, to go on without the thread.
    #[must_use]
    pub fn into_reader(self) -> TapeReader {
        self.reader
    }

    /// What the next event says of turns; `None` at the end of the tape.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn upcoming(&mut self) -> Result<Option<Upcoming>> {
        if self.upcoming.is_none() {
            self.upcoming = self.peek()?.as_ref().map(Upcoming::of);
        }
        Ok(self.upcoming)
    }

    /// The next event. Readings of clocks that come before it are loaded on the way, so that
    /// the thread can make them when it runs.
    pub(super) fn peek(&mut self) -> Result<Option<Event<'_>>> {
        while !self.loaded && self.load()? {}
        self.reader.peek().map_err(Failure::setup)
    }

    /// The same, in short.
    pub(super) fn outline(&mut self) -> Result<Option<Outline>> {
        if let Some(outline) = self.glance() {
            return Ok(Some(outline));
        }
        while !self.loaded && self.load()? {}
        self.reader.outline().map_err(Failure::setup)
    }

    /// The same, if it is a system call and costs nothing to see.
    #[inline]
    pub(super) fn glance(&self) -> Option<Outline> {
        self.reader.glance().filter(|_| !self.loaded)
    }

    /// Goes past this system call, if it comes next and nothing but its result is told of it: that.
    #[inline]
    pub fn bare(&mut self, call: &Bare<'_>) -> Option<i64> {
        let more = self.loaded || self.readings.left() > 0 || !self.notes.is_empty();
        match more || self.exact.is_some() {
            true => None,
            false => {
                self.upcoming = None;
                self.reader.bare(call)
            }
        }
    }

    /// Loads the readings or the note that come next; `false` if an event comes next.
    fn load(&mut self) -> Result<bool> {
        let outline = self.reader.outline().map_err(Failure::setup)?;
        if outline.is_none_or(|o| o.syscall) {
            return Ok(false);
        }
        let Some(event) = self.reader.peek().map_err(Failure::setup)? else {
            return Ok(false);
        };
        if let Some(note) = self.clock.read(event.ticks, &event.kind) {
            self.notes.push_back(note);
            return self.pass();
        }
        let Kind::Readings {
            full,
            since,
            readings,
        } = event.kind
        else {
            return Ok(false);
        };
        let first = event.ticks.wrapping_sub(since);
        self.readings.load(&readings, first, self.exact.is_some());
        if !self.readings.pass(std::mem::take(&mut self.made)) {
            return Err(Failure::setup(
                "the trace is damaged: fewer readings of clocks than had been made",
            ));
        }
        if full {
            self.loaded = true;
            return Ok(false);
        }
        self.pass()
    }

    /// Goes past an entry that is no event of the thread.
    fn pass(&mut self) -> Result<bool> {
        self.advance()?;
        // No event of the thread, but one of the tree.
        if let Some(shm) = crate::shm::shared() {
            shm.header().events.fetch_add(1, Relaxed);
        }
        Ok(true)
    }

    /// Goes past the next event, which has happened.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.written = None;
        self.follows.clear();
        for note in self.notes.take() {
            match note {
                Note::Moment { ticks, end, .. } => {
                    self.behind = (ticks, end);
                    self.early = None;
                    self.moments += 1;
                }
                Note::Written { sum } => self.written = Some(sum),
                Note::Edge {
                    event: true,
                    at,
                    thread,
                    op,
                    ..
                } => self.follows.push(Following { at, thread, op }),
                Note::Mark { event: true, .. } | Note::Behind { event: true, .. } => {
                    self.late.push_back(note);
                }
                Note::Edge { .. } | Note::Mark { .. } | Note::Behind { .. } => {}
            }
        }
        self.copy()?;
        self.advance()
    }

    /// Writes the next event, with the readings before it, onto the exact tape.
    fn copy(&mut self) -> Result<()> {
        let Some(exact) = &mut self.exact else {
            return Ok(());
        };
        let Some(event) = self.reader.peek().map_err(Failure::setup)? else {
            return Ok(());
        };
        let (since, readings) = self.readings.settle(event.ticks);
        match event.kind {
            Kind::Readings { full: true, .. } => exact.copy(&Event {
                kind: Kind::Readings {
                    full: true,
                    since,
                    readings: Readings::new(&readings),
                },
                ..event
            })?,
            _ => {
                exact.readings(event.ticks, since, &readings)?;
                exact.copy(&event)?;
            }
        }
        Ok(())
    }

    /// The thread gives its turn up at a position.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub fn switch(&mut self, ticks: u64, digest: u32, steps: u32) -> Logged {
        if let Some(exact) = &mut self.exact {
            let (since, readings) = self.readings.settle(ticks);
            exact.readings(ticks, since, &readings)?;
            exact.switch(ticks, digest, steps)?;
        }
        Ok(())
    }

    /// The thread stays in a call behind the last event of its tape, at tick `ticks`: the readings that it has made go onto the
    /// exact tape, as no event follows with which they would. What it did with them others have seen.
    ///
    /// # Errors
    /// The trace is damaged, or no supervisor stores them.
    pub fn stays(&mut self, ticks: u64) -> Result<()> {
        let Some(exact) = &mut self.exact else {
            return Ok(());
        };
        if self.reader.peek().map_err(Failure::setup)?.is_none() {
            let (since, readings) = self.readings.settle(ticks);
            exact.readings(ticks, since, &readings)?;
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        if crate::stats::wanted()
            && let Some(event) = self.reader.peek().map_err(Failure::setup)?
        {
            crate::stats::logged(&event.kind);
        }
        self.loaded = false;
        self.upcoming = None;
        self.reader.skip().map(drop).map_err(Failure::setup)
    }
}
