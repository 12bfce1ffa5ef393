//! One thread's tape, as its task sees it: written while recording, read in replay.

mod course_notes;
mod exact;
mod out;
mod read;
mod upcoming;

pub use course_notes::CourseNotes;
pub use exact::ExactTape;
pub use out::{SYNCHRONOUS, TapeOut};
pub use read::{OrderState, TapeIn, TapeState};
pub use upcoming::Upcoming;

use relive_host::Context;
use relive_host::reading::Window;
use relive_trace::{Event, Outline};

use crate::course::Note;
use crate::failure::{Failure, Result};
use crate::readings::Batch;
use crate::shm::Logged;

/// The tape of a task.
#[expect(
    clippy::large_enum_variant,
    reason = "a task has one, and most are of the same variant"
)]
pub enum Tape {
    /// `relive run` keeps none.
    None,
    /// Being recorded.
    Out(TapeOut),
    /// Being replayed.
    In(TapeIn),
    /// Of a thread that ended with its process before it logged anything.
    Blank,
}

impl Tape {
    /// Its thread has no event behind this one: the exact tape that is found for it is whole.
    pub fn close_exact(&self) {
        if let Self::In(tape) = self
            && let Some(exact) = &tape.exact
        {
            exact.close();
        }
    }

    /// The exact tape that is found for it is this host process's to write, by the supervisor's id.
    pub fn exact_is_of(&self, pid: u32) {
        if let Self::In(tape) = self
            && let Some(exact) = &tape.exact
        {
            exact.is_of(pid);
        }
    }

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

    /// The next event, in short; `None` at the end of the tape.
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

    /// The last tick that is noted behind the last event in replay, if one is.
    pub fn noted(&self) -> Option<u64> {
        match self {
            Self::In(t) => t.notes.iter().filter_map(Note::ticks).max(),
            _ => None,
        }
    }

    /// Ticks of the next event in replay, if that is a system call and costs nothing to see.
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

    /// The thread was in the host between two pieces of guest code: notes when.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub fn sample(&mut self, ctx: &mut Context) -> Logged {
        if let Self::Out(tape) = self
            && tape.course.is_some()
        {
            tape.readings.take_back(&ctx.readings);
            tape.take_edges(ctx, false)?;
            tape.moment(ctx.ticks(), false)?;
            ctx.readings = tape.readings.lend();
        }
        Ok(())
    }

    /// Takes over the readings and edges that the thread's translated code has made since
    /// [`Tape::lend`].
    ///
    /// # Errors
    /// No supervisor stores an edge.
    #[inline]
    pub fn take_back(&mut self, ctx: &mut Context) -> Logged {
        match self {
            Self::Out(t) => {
                t.readings.take_back(&ctx.readings);
                t.take_edges(ctx, false)?;
            }
            Self::In(t) => t.readings.take_back(&ctx.readings),
            Self::None | Self::Blank => {}
        }
        Ok(())
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
