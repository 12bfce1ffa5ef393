//! The way of a process in parts, which replay at the same time: each but the first begins with a session image, and must
//! come to the place and the state of the next one (the epochs of DoublePlay: Veeraraghavan and others, ASPLOS 2011, section
//! 3.2). So all parts together say what one replay from the beginning says, whatever an image has. Must never take a part
//! for right before its end has been compared.

use std::path::{Path, PathBuf};

use relive_trace::{ImageHead, ImageReader, ImageSet, Trace};

use super::ancestors::{follow, processes};
use super::image_list;
use super::images::{point, resume_at};
use super::index_check::compare_here;
use super::present::available_memory;
use super::replay_process::{Interrupter, ReplayProcess};
use crate::failure::{Failure, Result};
use crate::guide::point::Point;
use crate::guide::protocol::{Ended, Ran, ReplayStatus, RunRequest, StopReason, StopSet};
use crate::supervisor;

/// Of the memory that is available, the part that replays at the same time may have.
const MEMORY_PART: u64 = 2;
/// Parts for each replay at a time, so that all have work until the end.
const EACH: usize = 4;
/// The memory of a replay besides the guest's.
const OWN_MEMORY: u64 = 64 << 20;

/// See the module.
pub(super) struct ReplayParts<'t> {
    trace: &'t Trace,
    folder: PathBuf,
    chain: Vec<u32>,
    /// Where all parts but the first begin.
    cuts: Vec<ImageHead>,
    /// How many replay at a time.
    pub jobs: usize,
}

impl<'t> ReplayParts<'t> {
    /// The parts of a recording of one process, of which up to `jobs` replay at a time. `None`: it has several processes, or
    /// none of its images would help.
    ///
    /// # Errors
    /// The trace or its index is damaged.
    pub fn of(trace: &'t Trace, jobs: usize) -> Result<Option<Self>> {
        let all = processes(trace);
        let &[process] = &all[..] else {
            return Ok(None);
        };
        if supervisor::waits_for_others(trace, process)? {
            return Ok(None);
        }
        let folder = std::path::absolute(trace.directory()).map_err(Failure::setup)?;
        let chain = follow(trace, process)?.chain;
        let images = image_list::of(&folder, &chain)?;
        let jobs = at_a_time(&folder, ImageSet::Index, &images, jobs)?;
        let cuts = evenly_cut(&images, jobs);
        let parts = Self {
            trace,
            folder,
            chain,
            cuts,
            jobs,
        };
        Ok(Some(parts).filter(|parts| !parts.cuts.is_empty()))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.cuts.len() + 1
    }

    /// A replay at the beginning of a part, with fragments of at most so many instructions.
    ///
    /// # Errors
    /// It cannot be started, or the image or the trace is damaged.
    pub fn begin(
        &self,
        part: usize,
        fragment_insns: Option<u32>,
    ) -> Result<(ReplayProcess, ReplayStatus)> {
        match part.checked_sub(1).and_then(|before| self.cuts.get(before)) {
            None => ReplayProcess::start_with(&self.folder, &self.chain, fragment_insns),
            Some(image) => resume_at(&self.folder, &self.chain, image, fragment_insns),
        }
    }

    /// Where a part ends; `None`: with the process.
    pub fn end(&self, part: usize) -> Option<Point> {
        self.cuts.get(part).map(point)
    }

    /// Goes on to the end of a part, or until so much work is done; how the process ended, if it did. `None`: it was
    /// interrupted, or there is more to do.
    ///
    /// # Errors
    /// Divergence, or the process ends before.
    pub fn go(
        &self,
        part: usize,
        host: &mut ReplayProcess,
        run: &RunRequest,
        wanted: &mut dyn Interrupter,
    ) -> Result<Option<PartEnd>> {
        let run = RunRequest {
            until: self.end(part),
            ..*run
        };
        let ran = host.run(&run, &StopSet::default(), wanted)?;
        match (ran.why, self.cuts.get(part)) {
            (StopReason::Work | StopReason::Interrupted, _) => Ok(None),
            (StopReason::Ended, None) => Ok(Some(PartEnd::of(&ran, host.checksum()?))),
            (StopReason::Until, Some(next)) => {
                let sum = compare_here(self.trace, &self.folder, next, &ran, host)?;
                Ok(Some(PartEnd::of(&ran, sum)))
            }
            (why, next) => Err(Failure::divergence(format!(
                "a part of the recording ends elsewhere\n  the next part begins: {}\n  the replay of this one: {}, {why:?}",
                next.map_or("nowhere, it is the last".to_owned(), |next| point(next)
                    .to_string()),
                ran.status.point
            ))),
        }
    }
}

/// The end of a part in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartEnd {
    /// Where it is.
    pub point: Point,
    /// How the process ended, if it did.
    pub ended: Option<Ended>,
    /// The checksum of memory and registers there.
    pub checksum: u64,
}

impl PartEnd {
    fn of(ran: &Ran, checksum: u64) -> Self {
        Self {
            point: ran.status.point,
            ended: ran.status.ended,
            checksum,
        }
    }
}

/// Where the way is cut for so many replays at a time.
pub(super) fn evenly_cut(images: &[ImageHead], jobs: usize) -> Vec<ImageHead> {
    match jobs {
        ..2 => Vec::new(),
        jobs => evenly(images, jobs * EACH),
    }
}

/// Of images in order of work, those that cut the way into about so many equal parts.
fn evenly(images: &[ImageHead], parts: usize) -> Vec<ImageHead> {
    let (Some(first), Some(last)) = (images.first(), images.last()) else {
        return Vec::new();
    };
    // They lie evenly from the beginning on, which is not at 0 where the recording is a part of another one.
    let apart = images
        .get(1)
        .map_or(first.work, |second| second.work - first.work);
    let begin = first.work.saturating_sub(apart);
    let step = ((last.work - begin) / parts.max(1) as u64).max(1);
    let mut cuts: Vec<ImageHead> = Vec::new();
    for image in images {
        let before = cuts.last().map_or(begin, |cut| cut.work);
        if image.work - before >= step {
            cuts.push(*image);
        }
    }
    cuts
}

/// How many replays there is memory for, of so many, if each has as much as the last of these images of a set.
///
/// # Errors
/// It is damaged.
pub(crate) fn at_a_time(
    folder: &Path,
    set: ImageSet,
    images: &[ImageHead],
    jobs: usize,
) -> Result<usize> {
    let Some(last) = images.last() else {
        return Ok(1);
    };
    let image = ImageReader::open(folder, set, last.process, last.work);
    let each = OWN_MEMORY + image.map_err(Failure::setup)?.bytes();
    let room = available_memory() / MEMORY_PART / each;
    Ok(jobs.clamp(1, usize::try_from(room).unwrap_or(usize::MAX).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_about_equal_and_no_more_than_asked_for() {
        let head = |work| ImageHead {
            layout: 1,
            process: 0,
            event: work,
            turn: 0,
            ticks: 0,
            work,
            tapes: 0,
            order: 0,
        };
        let images: Vec<ImageHead> = (1..=64)
            .map(|n| n * 1000)
            .chain([64_500, 64_900])
            .map(head)
            .collect();
        for parts in [1, 2, 3, 8, 64, 1000] {
            let cuts = evenly(&images, parts);
            assert!(cuts.len() <= parts, "{parts}: {cuts:?}");
            assert!(
                parts > 64 || cuts.len() + 1 >= parts / 2,
                "{parts}: {cuts:?}"
            );
            let works: Vec<u64> = cuts.iter().map(|cut| cut.work).collect();
            assert!(works.is_sorted_by(|a, b| a < b));
        }
        assert_eq!(evenly(&[], 8), []);
        assert_eq!(evenly(&images[..1], 8), images[..1]);
    }
}
