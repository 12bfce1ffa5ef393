//! Session images as places to go on from: one that is nearer than any snapshot becomes a snapshot when a
//! way begins there. Must never make a position that the replay itself would not come to.

use std::path::Path;

use relive_trace::{ImageHead, ImageSet};

use super::present::{Stopped, Timeline};
use super::replay_process::ReplayProcess;
use super::snapshots::Snapshot;
use crate::failure::{Failure, Result};
use crate::guide::point::{Point, Steps};
use crate::guide::protocol::ReplayStatus;
use crate::session_state::Refused;

/// The position of an image: right at a tick or an event.
pub(super) fn point(head: &ImageHead) -> Point {
    Point {
        event: head.event,
        turn: head.turn,
        ticks: head.ticks,
        steps: Steps::ZERO,
    }
}

/// A replay of the last of these processes that begins with an image, with fragments of at most so many instructions.
pub(super) fn resume_at(
    trace: &Path,
    chain: &[u32],
    image: &ImageHead,
    fragment_insns: Option<u32>,
) -> Result<(ReplayProcess, ReplayStatus)> {
    let (host, status) = ReplayProcess::resume(trace, chain, image.work, fragment_insns)?;
    if (status.point, status.work) != (point(image), image.work) {
        let what = format!("it is of {}, and stands at {}", point(image), status.point);
        return Err(Refused::damaged(&what).failure(ImageSet::Index));
    }
    Ok((host, status))
}

/// A replay of the last of these processes that begins with an image, or where the process begins; `other_writers`: see
/// [`ReplayProcess::start`], there are no images then.
pub(super) fn replay_from(
    trace: &Path,
    chain: &[u32],
    image: Option<&ImageHead>,
    other_writers: Option<&Path>,
) -> Result<(ReplayProcess, ReplayStatus)> {
    match image {
        Some(image) => resume_at(trace, chain, image, None),
        None => ReplayProcess::start(trace, chain, other_writers),
    }
}

impl Timeline {
    /// A replay that stands at the last place of which `good` says so, given its position and whether
    /// the process has ended there; `None`: at none.
    pub(super) fn nearest(
        &mut self,
        good: impl Fn(&Point, bool) -> bool,
    ) -> Result<Option<(ReplayProcess, ReplayStatus)>> {
        let good_status = |s: &ReplayStatus| good(&s.point, s.ended.is_some());
        let snapshot = self.snapshots.last_where(good_status);
        let near = snapshot.as_ref().map(|s| s.status.work);
        let image = self.images.iter().rfind(|head| good(&point(head), false));
        let Some(image) = image.filter(|image| near < Some(image.work)).copied() else {
            let copy = |s: &mut Snapshot| Ok((s.host.fork()?, s.status));
            return snapshot.map(copy).transpose();
        };
        let (mut host, status) = resume_at(&self.trace, &self.chain, &image, None)?;
        let copy = host.fork()?;
        let present = self.status.work.max(status.work);
        self.snapshots.add(Snapshot { status, host }, present);
        Ok(Some((copy, status)))
    }

    /// Goes to where the image of this number was made, by it and not by a replay.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn goto_image(&mut self, number: usize) -> Result<Stopped> {
        self.forget_changes();
        let image = self.images.get(number);
        let image = image.ok_or_else(|| Failure::setup("there is no such session image"))?;
        (self.current, self.status) =
            ReplayProcess::resume(&self.trace, &self.chain, image.work, None)?;
        Ok(Stopped::There)
    }

    /// How many session images the process has.
    #[must_use]
    pub fn images(&self) -> usize {
        self.images.len()
    }
}
