//! Making the index of a recording: one replay of each process from its beginning to its end, which is
//! written down at places on its way. They lie evenly, and close to each other before the end, because
//! that is where most debuggers begin.

use std::path::Path;
use std::time::{Duration, Instant};

use relive_trace::{ImageHead, ImageSet, IndexWriter, TapeId, Trace};

use super::ancestors::follow;
use super::image_list;
use super::replay_end::ReplayEnd;
use super::replay_process::{ReplayProcess, Uninterrupted};
use crate::elapsed::EVENT_WORK;
use crate::failure::{Failure, Result};
use crate::guide::protocol::{ReplayStatus, RunRequest, StopReason, StopSet};
use crate::session_state::LAYOUT;
use crate::supervisor;

/// Before the end, each image is so many times as close to it as the one before.
const CLOSER: u64 = 4;
/// A way of less work than this takes less time than to begin with an image.
const SHORT: u64 = 4_000_000;
/// Of the bytes that an index may have, the part for the places that lie evenly.
const EVEN_PART: u64 = 2;

/// Where images are made.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// Evenly on the way, at most so many.
    pub even: u64,
    /// Also where the way to the next one is short.
    pub close: bool,
    /// Most bytes that all images may have, about.
    pub most: u64,
    /// A replay goes from each image to the end, and is compared there.
    pub check: bool,
}

/// An index that was made.
#[derive(Clone, Debug, Default)]
pub struct Indexed {
    /// Its images.
    pub images: u64,
    /// Its bytes.
    pub bytes: u64,
    /// The time that replays took.
    pub replayed: Duration,
    /// The time that it took to write images.
    pub wrote: Duration,
    /// There was no room for more images.
    pub full: bool,
    /// Processes without images, because they share memory with others.
    pub shared: Vec<u32>,
    /// Images that were compared.
    pub checked: u64,
}

/// The end of a process, as a replay has it that came there from the beginning.
struct WayEnd {
    chain: Vec<u32>,
    end: ReplayEnd,
}

/// Makes the index of a recording, with images of these processes. `tell` is told how much of how much
/// work is done.
///
/// # Errors
/// Divergence, or the images cannot be made or written.
pub fn index(
    trace: &Trace,
    processes: &[u32],
    places: Places,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<Indexed> {
    let folder = std::path::absolute(trace.directory()).map_err(Failure::setup)?;
    if !trace.is_exact() {
        return Err(Failure::internal(
            "the turns of the recording have not been found",
        ));
    }
    let mut index = IndexWriter::create(&folder, ImageSet::Index).map_err(Failure::setup)?;
    let (mut made, mut ends) = (Indexed::default(), Vec::new());
    for &process in processes {
        let Some(mut way) = IndexWay::of(trace, &folder, process)? else {
            made.shared.push(process);
            continue;
        };
        let targets = way.targets(places);
        way.go(&targets, places, &mut index, &mut made, tell)?;
        if places.check {
            ends.push(way.end()?);
        }
    }
    made.bytes = index.finish().map_err(Failure::setup)?;
    for end in ends {
        made.checked += check(&folder, &end)?;
    }
    Ok(made)
}

/// Replays a process from each of its images to its end, which must be the same; how many there are.
fn check(folder: &Path, end: &WayEnd) -> Result<u64> {
    let images = image_list::of(folder, &end.chain)?;
    for image in &images {
        let (mut host, from) = ReplayProcess::resume(folder, &end.chain, image.work, None)?;
        let comes_to = ReplayEnd::of(&mut host)?;
        if comes_to != end.end {
            return Err(comes_to.is_other(&from.point, &end.end));
        }
    }
    Ok(images.len() as u64)
}

/// The way of a process from its beginning to its end.
struct IndexWay {
    host: ReplayProcess,
    status: ReplayStatus,
    process: u32,
    chain: Vec<u32>,
    /// See `Trace::sum`.
    tapes: u64,
    /// Work of the whole way, as the tapes tell.
    whole: u64,
}

impl IndexWay {
    /// At the beginning; `None` for a process to whose memory others write.
    fn of(trace: &Trace, folder: &Path, process: u32) -> Result<Option<Self>> {
        let chain = follow(trace, process)?.chain;
        for &process in &chain {
            if supervisor::waits_for_others(trace, process)? {
                return Ok(None);
            }
        }
        let (host, status) = ReplayProcess::start(folder, &chain, None)?;
        Ok(Some(Self {
            host,
            status,
            process,
            chain,
            tapes: trace.sum(),
            whole: work(trace, process)?,
        }))
    }

    /// The end, where it stands.
    fn end(mut self) -> Result<WayEnd> {
        Ok(WayEnd {
            chain: self.chain,
            end: ReplayEnd {
                status: self.status,
                checksum: self.host.checksum()?,
            },
        })
    }

    /// The work at which images are to be made, in order, and from which of them on the places lie
    /// close to the end.
    fn targets(&self, places: Places) -> (Vec<u64>, usize) {
        let (begin, whole) = (self.status.work, self.whole);
        let least = if places.close { 1 } else { SHORT };
        let step = (whole / places.even.max(1)).max(least);
        let mut targets: Vec<u64> = (1..whole / step).map(|n| begin + n * step).collect();
        let even = targets.len();
        let mut away = step;
        while away > least.max(CLOSER) {
            away /= CLOSER;
            targets.push(begin + whole - away);
        }
        (targets, even)
    }

    /// Goes there, and to the end.
    fn go(
        &mut self,
        (targets, even): &(Vec<u64>, usize),
        places: Places,
        index: &mut IndexWriter,
        made: &mut Indexed,
        tell: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let end = self.status.work + self.whole;
        for (n, &target) in targets.iter().enumerate() {
            tell(self.status.work, end);
            let most = match n < *even {
                true => places.most / EVEN_PART,
                false => places.most,
            };
            if index.length() > most {
                made.full = true;
                continue;
            }
            if !self.image(target, index, made)? {
                break;
            }
        }
        self.run(None, made)?;
        tell(end, end);
        Ok(())
    }

    /// Makes an image at the first place behind so much work that can be described. `false`: the process
    /// ends before.
    fn image(&mut self, target: u64, index: &mut IndexWriter, made: &mut Indexed) -> Result<bool> {
        let mut least = target.max(self.status.work + 1);
        loop {
            if self.run(Some(least), made)? == StopReason::Ended {
                return Ok(false);
            }
            let began = Instant::now();
            if let Some((state, pages)) = self.host.image()? {
                let head = ImageHead {
                    layout: LAYOUT,
                    process: self.process,
                    event: self.status.point.event,
                    turn: self.status.point.turn,
                    ticks: self.status.point.ticks,
                    work: self.status.work,
                    tapes: self.tapes,
                    order: 0,
                };
                let mut image = index.image(head, state);
                for range in pages {
                    let mut at = range.start;
                    while at < range.end {
                        let bytes = self.host.content(at, range.end)?;
                        let added = image.add(index, at, &bytes, range.blank);
                        added.map_err(Failure::setup)?;
                        at += bytes.len() as u64;
                    }
                }
                image.finish(index).map_err(Failure::setup)?;
                made.images += 1;
                made.wrote += began.elapsed();
                return Ok(true);
            }
            least = self.status.work + 1;
        }
    }

    fn run(&mut self, work: Option<u64>, made: &mut Indexed) -> Result<StopReason> {
        let began = Instant::now();
        let run = RunRequest {
            work,
            ..RunRequest::to_the_end()
        };
        let ran = self
            .host
            .run(&run, &StopSet::default(), &mut Uninterrupted)?;
        self.status = ran.status;
        made.replayed += began.elapsed();
        Ok(ran.why)
    }
}

/// The work of a process behind its beginning, as its tapes tell.
fn work(trace: &Trace, process: u32) -> Result<u64> {
    let own = |id: &TapeId| id.process == process && !id.is_schedule();
    let mut work = 0u64;
    for id in trace.tapes().iter().map(|tape| tape.id).filter(own) {
        let mut tape = trace.tape(id).map_err(Failure::setup)?;
        // An excerpt has the rest of a tape.
        let base = trace.base(id);
        let mut ticks = base.ticks;
        while let Some(event) = tape.next().map_err(Failure::setup)? {
            ticks = event.ticks;
        }
        work = work
            .saturating_add(ticks.saturating_sub(base.ticks))
            .saturating_add((tape.position() - base.event) * EVENT_WORK);
    }
    Ok(work.min(1 << 62))
}
