//! The course of a thread that is recorded while others run: *moments*, that is when it came to an event or to a
//! tick. They are no part of the program's history, but a hint at how the histories of its threads lay beside
//! each other. Must never be needed for a replay to be exact.

use std::sync::atomic::{AtomicBool, Ordering};

use relive_host::order::now;
use relive_trace::Kind;

/// When a thread was where.
pub struct Course {
    /// Whether the process has, or has had, more than one thread.
    company: &'static AtomicBool,
    /// The end of the last moment.
    last: u64,
    /// When the call at hand began; 0: none has.
    began: u64,
    /// Ticks have moments too.
    ticks: bool,
}

impl Course {
    /// Of a thread that begins; `ticks`: whether there are moments of ticks.
    pub fn new(company: &'static AtomicBool, ticks: bool) -> Self {
        Self {
            ticks,
            company,
            last: 0,
            began: 0,
        }
    }

    /// The end of the last moment.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// A call begins.
    pub fn begin(&mut self) {
        if self.company.load(Ordering::Relaxed) {
            self.began = now();
        }
    }

    /// The thread has come to a call that may never end; nothing if that is not to be said.
    pub fn arrived(&mut self) -> Option<Kind<'static>> {
        if !self.company.load(Ordering::Relaxed) {
            return None;
        }
        if self.began == 0 {
            self.began = now();
        }
        let since = self.began.wrapping_sub(self.last);
        self.last = self.began;
        Some(Kind::Moment {
            event: true,
            since,
            took: 0,
        })
    }

    /// The moment of the thread's next event (`event`), or of the tick that it stands at; none while there is
    /// no other thread.
    pub fn moment(&mut self, event: bool) -> Option<Kind<'static>> {
        if !(event || self.ticks) || !self.company.load(Ordering::Relaxed) {
            return None;
        }
        let end = now();
        let begin = match std::mem::take(&mut self.began) {
            0 => end,
            began => began,
        };
        let since = begin.wrapping_sub(self.last);
        self.last = end;
        Some(Kind::Moment {
            event,
            since,
            took: end.wrapping_sub(begin),
        })
    }
}

/// An entry of a tape between two events, about the course of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// When the thread was at its next event, or at a tick.
    Moment {
        event: bool,
        ticks: u64,
        begin: u64,
        end: u64,
    },
    /// The sum of the bytes that its next event, a call, wrote from guest memory.
    Written { sum: u64 },
    /// Its operation `at` came after operation `op` of another thread. The operation is its next event, or an
    /// instruction behind the tick.
    Edge {
        event: bool,
        ticks: u64,
        at: u64,
        thread: u32,
        op: u64,
    },
    /// It gives lines of memory up in front of its next event, or of the instruction at `pc` behind the tick.
    Mark { event: bool, ticks: u64, pc: u64 },
    /// Its next event, or what it does behind the tick, comes after a mark of another thread; 0: after its end.
    Behind {
        event: bool,
        ticks: u64,
        thread: u32,
        mark: u64,
    },
}

impl Note {
    /// The tick that it names.
    pub fn ticks(&self) -> Option<u64> {
        match *self {
            Self::Moment { ticks, .. }
            | Self::Edge { ticks, .. }
            | Self::Mark { ticks, .. }
            | Self::Behind { ticks, .. } => Some(ticks),
            Self::Written { .. } => None,
        }
    }
}

/// An operation of a thread, and the one of another thread that comes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Following {
    /// The number of the thread's operation.
    pub at: u64,
    /// The other thread.
    pub thread: u32,
    /// The number of its operation.
    pub op: u64,
}

/// Reads notes off a tape.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    last: u64,
}

impl Clock {
    /// Behind a moment that ended then.
    #[must_use]
    pub fn at(last: u64) -> Self {
        Self { last }
    }

    /// The end of the last moment.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The note of an entry; `None` if it is an event.
    pub fn read(&mut self, ticks: u64, kind: &Kind<'_>) -> Option<Note> {
        Some(match *kind {
            Kind::Moment { event, since, took } => {
                let begin = self.last.wrapping_add(since);
                let end = begin.wrapping_add(took);
                self.last = end;
                Note::Moment {
                    event,
                    ticks,
                    begin,
                    end,
                }
            }
            Kind::Edge {
                at,
                event,
                thread,
                op,
            } => Note::Edge {
                event,
                ticks,
                at,
                thread,
                op,
            },
            Kind::Mark { event, pc } => Note::Mark { event, ticks, pc },
            Kind::Behind {
                event,
                thread,
                mark,
            } => Note::Behind {
                event,
                ticks,
                thread,
                mark,
            },
            Kind::Checksum { value, .. } => Note::Written { sum: value },
            _ => return None,
        })
    }
}
