//! A place where a recording can be cut: the last one before the wanted one at which the process can be
//! described, or for the end of a part the first one behind it.

use crate::failure::{Failure, Result};
use crate::guide::point::{Point, Steps};
use crate::guide::protocol::ReplayStatus;
use crate::memory::page_list::PageRange;
use crate::session_state::SessionState;
use crate::timeline::present::Timeline;
use crate::timeline::replay_process::{ReplayProcess, Uninterrupted};

/// A replay that stands at a place, and the description of its process.
pub struct CutPlace {
    /// Where it is.
    pub status: ReplayStatus,
    pub(super) host: ReplayProcess,
    pub(super) state: SessionState,
    /// The same as it is kept.
    pub(super) bytes: Vec<u8>,
    /// Where memory has content.
    pub(super) pages: Vec<PageRange>,
}

impl CutPlace {
    /// Where a replay stands; `None`: the process cannot be described there.
    fn of(mut host: ReplayProcess, status: ReplayStatus) -> Result<Option<Self>> {
        let Some((bytes, pages)) = host.image()? else {
            return Ok(None);
        };
        // It comes from a process that may have been taken over.
        let state = SessionState::decode(&bytes).map_err(Failure::internal)?;
        Ok(Some(Self {
            status,
            host,
            state,
            bytes,
            pages,
        }))
    }
}

impl Timeline {
    /// The first place behind so many events at which the process can be described; `None`: it ends before.
    ///
    /// # Errors
    /// Divergence.
    pub(super) fn place_from(&mut self, event: u64) -> Result<Option<CutPlace>> {
        let mut event = event;
        loop {
            let (host, status, _) = self.behind_event(event, &mut Uninterrupted)?;
            if status.ended.is_some() {
                return Ok(None);
            }
            if let Some(found) = CutPlace::of(host, status)? {
                return Ok(Some(found));
            }
            event = event.max(status.point.event) + 1;
        }
    }

    /// A place here or soon behind at which a part can end, as tapes end behind an event; `None`: the process ends by then.
    ///
    /// # Errors
    /// Divergence.
    pub fn end_place(&mut self) -> Result<Option<CutPlace>> {
        self.forget_changes();
        let here = self.status;
        let mut ahead = 0;
        while here.ended.is_none() {
            let event = here.point.event + ahead;
            let (host, status, _) = self.behind_event(event, &mut Uninterrupted)?;
            if status.ended.is_some() {
                break;
            }
            if !status.point.is_before(&here.point)
                && let Some(found) = CutPlace::of(host, status)?
            {
                return Ok(Some(found));
            }
            ahead = 2 * ahead + 1;
        }
        Ok(None)
    }

    /// The place where the timeline stands, or the last one before it at which its process can be described:
    /// right at a tick or an event, and not while a vfork child runs in its memory.
    ///
    /// # Errors
    /// There is none, or divergence.
    pub fn cut_place(&mut self) -> Result<CutPlace> {
        self.forget_changes();
        let here = self.status;
        if here.ended.is_some() {
            return Err(Failure::setup(format!(
                "p{} has ended there: nothing follows",
                here.process
            )));
        }
        let copy = self.current.fork()?;
        if let Some(found) = CutPlace::of(copy, here)? {
            return Ok(found);
        }
        if here.point.steps != Steps::ZERO {
            let tick = Point {
                steps: Steps::ZERO,
                ..here.point
            };
            let (host, status, _) = self.visit(tick, &mut Uninterrupted)?;
            if let Some(found) = CutPlace::of(host, status)? {
                return Ok(found);
            }
        }
        let start = self.start;
        let mut back = 0;
        loop {
            let event = here.point.event.saturating_sub(back).max(start.event);
            let (host, status, _) = self.behind_event(event, &mut Uninterrupted)?;
            if !here.point.is_before(&status.point)
                && let Some(found) = CutPlace::of(host, status)?
            {
                return Ok(found);
            }
            if event == start.event {
                return Err(Failure::unsupported(format!(
                    "a recording that begins at {}: a child of vfork(2) runs in the memory of p{} from its beginning on up to there; choose a later place",
                    here.point, here.process
                )));
            }
            back = back * 2 + 1;
        }
    }
}
