//! The way that a replay is to go, and what is noted on it. Must never drive a replay.

use super::host::Host;
use crate::guide::point::Point;
use crate::guide::protocol::{Hit, Run, Search, Status, Stops};

/// Where a replay is to go.
#[derive(Clone, Copy)]
pub(super) struct Way<'w> {
    /// Where it stands.
    pub from: Status,
    pub run: Run,
    pub stops: &'w Stops,
    /// The work at which it ends, if that is known: snapshots become dense there.
    pub present: Option<u64>,
}

/// Which replay is driven.
pub(super) enum Which<'h> {
    /// The timeline's own.
    Current,
    /// Another one.
    Other(&'h mut Host),
}

impl Which<'_> {
    /// The replay, where `current` is the timeline's own.
    pub(super) fn host<'a>(&'a mut self, current: &'a mut Host) -> &'a mut Host {
        match self {
            Self::Current => current,
            Self::Other(host) => host,
        }
    }
}

/// Writes that are looked for on the way from the start, as long as that costs next to nothing: who
/// asks for the last one before the position where the way ends need not go back for it.
pub(super) struct Noted {
    pub(super) stops: Stops,
    /// How far it has come.
    pub(super) to: Point,
    pub(super) last: Option<Hit>,
}

impl Noted {
    /// Whether a way goes on where this one has come to, and nobody wants to stop on it.
    pub(super) fn goes_on(&self, way: &Way<'_>) -> bool {
        self.to == way.from.point
            && *way.stops == Stops::default()
            && way.run.step.is_none()
            && matches!(way.run.search, Search::Last)
    }
}
