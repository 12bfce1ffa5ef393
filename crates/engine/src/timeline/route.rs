//! The route of a replay, and the writes noted on it. Must never drive a replay.

use super::replay_process::ReplayProcess;
use crate::guide::point::Point;
use crate::guide::protocol::{AtStop, Hit, ReplayStatus, RunRequest, StopSet};

/// Where a replay is to go.
#[derive(Clone, Copy)]
pub(super) struct Route<'w> {
    /// Where it stands.
    pub from: ReplayStatus,
    pub run: RunRequest,
    pub stops: &'w StopSet,
    /// The work at which it ends, if that is known: snapshots become dense there.
    pub present: Option<u64>,
}

/// Which replay is driven.
pub(super) enum DrivenReplay<'h> {
    /// The timeline's own.
    Current,
    /// Another one.
    Other(&'h mut ReplayProcess),
}

impl DrivenReplay<'_> {
    /// The replay, where `current` is the timeline's own.
    pub(super) fn process<'a>(
        &'a mut self,
        current: &'a mut ReplayProcess,
    ) -> &'a mut ReplayProcess {
        match self {
            Self::Current => current,
            Self::Other(process) => process,
        }
    }
}

/// Writes that are looked for on the way from the start, as long as that costs next to nothing: a
/// query for the last one before the end of the way then needs no way back.
pub(super) struct Noted {
    pub(super) stops: StopSet,
    /// The position up to which they are noted.
    pub(super) to: Point,
    pub(super) last: Option<Hit>,
}

impl Noted {
    /// Whether a way goes on at that position, and has no stops of its own.
    pub(super) fn goes_on(&self, route: &Route<'_>) -> bool {
        self.to == route.from.point
            && *route.stops == StopSet::default()
            && route.run.step.is_none()
            && matches!(route.run.search, AtStop::Last)
    }
}
