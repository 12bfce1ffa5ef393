//! Positions on the timeline of one process.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How far behind its last tick or event a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Steps {
    /// So many instructions.
    Exact(u64),
    /// The next event is about to happen: the thread stands at the system call, instruction
    /// or fault that causes it.
    Event,
    /// Where the thread has this pc and these registers (`tape::digest`). The number of
    /// instructions is not known, because they ran at full speed.
    At {
        /// Guest address.
        pc: u64,
        /// Digest of the registers.
        digest: u32,
    },
}

impl Steps {
    /// Exactly at a tick or event.
    pub const ZERO: Self = Self::Exact(0);
}

/// A position on the timeline of one process: a place between two instructions of the thread
/// whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Point {
    /// Events that have happened in the process, and in those that it comes from.
    pub event: u64,
    /// Turns that have been taken.
    pub turn: u64,
    /// Ticks of the thread whose turn it is.
    pub ticks: u64,
    /// Where behind that tick or the last event, whichever came later.
    pub steps: Steps,
}

impl Point {
    /// Stands for the first position behind an event: no thread has it, so a replay that goes
    /// there stops as soon as it is past it.
    #[must_use]
    pub fn behind_event(event: u64) -> Self {
        Self {
            event,
            turn: 0,
            ticks: 0,
            steps: Steps::ZERO,
        }
    }

    /// The part that orders positions that are further apart than a tick.
    #[must_use]
    pub fn key(&self) -> (u64, u64, u64) {
        (self.event, self.turn, self.ticks)
    }

    /// Whether this position is certainly before `other`. Two positions between the same ticks
    /// compare only if both are exact (or one is the event that ends the stretch).
    #[must_use]
    pub fn is_before(&self, other: &Self) -> bool {
        if self.key() != other.key() {
            return self.key() < other.key();
        }
        match (self.steps, other.steps) {
            (Steps::Exact(a), Steps::Exact(b)) => a < b,
            (Steps::Exact(0), Steps::At { .. }) => true,
            (Steps::Exact(_) | Steps::At { .. }, Steps::Event) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {}, tick {}", self.event, self.ticks)?;
        match self.steps {
            Steps::Exact(0) => Ok(()),
            Steps::Exact(n) => write!(f, " + {n} instructions"),
            Steps::Event => write!(f, ", at the event"),
            Steps::At { pc, .. } => write!(f, ", at {pc:#x}"),
        }
    }
}
