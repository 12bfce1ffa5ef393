//! Session images that a recording makes on its way: the supervisor asks for checkpoints, takes in the images that copies
//! of processes send, and puts them beside the finished recording as its index. Must never hold the recording up: of
//! an image that cannot be taken there is none.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use relive_trace::{ImageHead, ImageSet, ImageWriter, IndexWriter, Kind, TapeId, Trace};

use crate::encoding;
use crate::failure::{Failure, Result};
use crate::image_stream::{CHECKPOINTS, IncomingImage, Prologue};
use crate::shm::Shm;
use crate::tape::SYNCHRONOUS;

/// Images of a recording that need not be all there; when there are so many, every other one goes and they are made half as often.
const MOST: usize = 128;
/// The time between two images is so many times that which the last one took; where each epoch is run again too, which costs more than
/// its image does.
const RARE: u32 = 20;
const LESS_RARE: u32 = 4;

/// How images are made while recording.
#[derive(Clone, Copy, Debug)]
pub struct LiveImages {
    /// Time between two, at least, which also makes up twenty times the time that the last one took (four times, if it grows); 0: one
    /// after the other.
    pub every: Duration,
    /// The time at first, by which it grows with each of them; all of them stay. `None`: it is the same, until there are many.
    pub grows: Option<Duration>,
    /// Most bytes of all, about.
    pub most: u64,
    /// Which images they are.
    pub set: ImageSet,
    /// Whether images of a process can be of use, once it is recorded: it is replayed by itself.
    pub alone: fn(&Trace, u32) -> Result<bool>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveIndexed {
    /// Images.
    pub images: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The longest time for which a thread was held up.
    pub pause: Duration,
    /// How often a process could not be described, because it shares memory with others or maps a file shared.
    pub left_out: u32,
}

/// The index of a recording that runs.
pub struct LiveIndex {
    shm: Shm,
    plan: LiveImages,
    index: IndexWriter,
    incoming: BTreeMap<u32, (Instant, IncomingImage)>,
    /// Images that can be described at the end only.
    images: Vec<(Prologue, ImageWriter)>,
    /// Process and work of those that are finished.
    finished: BTreeSet<(u32, u64)>,
    asked: Instant,
    every: Duration,
    /// The time that the last image took.
    took: Duration,
}

impl LiveIndex {
    /// Of a recording into this folder, which begins now.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn begin(shm: Shm, folder: &Path, plan: LiveImages) -> Result<Self> {
        let checkpoints = CHECKPOINTS.of(&shm);
        if plan.set == ImageSet::Epochs {
            checkpoints.begin_epochs();
        }
        checkpoints.begin();
        Ok(Self {
            shm,
            plan,
            index: IndexWriter::create(folder, plan.set).map_err(Failure::setup)?,
            incoming: BTreeMap::new(),
            images: Vec::new(),
            finished: BTreeSet::new(),
            asked: Instant::now(),
            every: plan.grows.unwrap_or(plan.every),
            took: Duration::ZERO,
        })
    }

    /// Asks for the next checkpoint, if it is time.
    pub fn tick(&mut self) {
        let every = match self.plan.every {
            Duration::ZERO => Duration::ZERO,
            _ => self.every.max(self.took * self.rare()),
        };
        let room = self.index.length() < self.plan.most;
        if room && self.incoming.is_empty() && self.asked.elapsed() >= every {
            self.asked = Instant::now();
            CHECKPOINTS.of(&self.shm).want();
        }
    }

    fn rare(&self) -> u32 {
        match self.plan.grows {
            None => RARE,
            Some(_) => LESS_RARE,
        }
    }

    /// Takes bytes of the image in a ring.
    ///
    /// # Errors
    /// The index cannot be written.
    pub fn take(&mut self, ring: u32, bytes: &[u8]) -> Result<()> {
        let fresh = || (Instant::now(), IncomingImage::default());
        let (_, image) = self.incoming.entry(ring).or_insert_with(fresh);
        image.take(bytes, Some(&mut self.index))
    }

    /// The next images are to be closer to each other, if their distance is not the same.
    pub fn shorten(&mut self) {
        self.every = self.plan.grows.unwrap_or(self.every);
    }

    /// No more comes in a ring. The work of the image that is there then, at the end of an epoch.
    ///
    /// # Errors
    /// The index cannot be written.
    pub fn ended(&mut self, ring: u32) -> Result<Option<u64>> {
        let Some((began, image)) = self.incoming.remove(&ring) else {
            return Ok(None);
        };
        self.took = began.elapsed();
        tracing::debug!(target: "checkpoint", "an image took {:?}", began.elapsed());
        let whole = image.finish();
        let Some((prologue, image)) = whole.and_then(|(told, image)| Some((told, image?))) else {
            return Ok(None);
        };
        let begins = prologue.state.begins();
        let is_put = match self.plan.set {
            // An epoch is compared with the next image: which tapes it belongs to need not be known.
            ImageSet::Epochs => self.put(&prologue, image, (0, prologue.tree.order))?,
            _ => {
                self.images.push((prologue, image));
                false
            }
        };
        match self.plan.grows {
            Some(more) => self.every = (self.every + more).min(self.plan.every),
            None if self.images.len().max(self.finished.len()) >= MOST => self.thin_out()?,
            None => {}
        }
        Ok((is_put && begins.process == 0).then_some(begins.work))
    }

    /// Leaves out every other image, and makes them half as often from now on.
    fn thin_out(&mut self) -> Result<()> {
        let mut odd = false;
        let mut stays = || {
            odd = !odd;
            !odd
        };
        self.images.retain(|_| stays());
        for name in std::mem::take(&mut self.finished) {
            match stays() {
                true => self.finished.insert(name),
                false => {
                    let (process, work) = name;
                    let left_out = self.index.leave_out(process, work);
                    left_out.map_err(Failure::setup)?;
                    false
                }
            };
        }
        self.every *= 2;
        Ok(())
    }

    /// Finishes an image in a recording whose tapes have this checksum, with this number of its next output. Whether it is a new one.
    fn put(
        &mut self,
        prologue: &Prologue,
        mut image: ImageWriter,
        (tapes, order): (u64, u64),
    ) -> Result<bool> {
        let begins = prologue.state.begins();
        // Where a process has only made calls since the last one, both have the same name.
        if !self.finished.insert((begins.process, begins.work)) {
            return Ok(false);
        }
        let head = ImageHead {
            order,
            ..prologue.head(tapes)
        };
        image.describe(head, encoding::to_bytes(&prologue.state));
        image.finish(&mut self.index).map_err(Failure::setup)?;
        Ok(true)
    }

    /// Puts the images beside the recording, which is finished.
    ///
    /// # Errors
    /// The index cannot be written.
    pub fn finish(mut self, folder: &Path) -> Result<LiveIndexed> {
        let trace = Trace::open(folder).map_err(Failure::setup)?;
        let shm = self.shm;
        let checkpoints = CHECKPOINTS.of(&shm);
        let mut left_out = checkpoints.were_left_out();
        let mut alone = BTreeMap::new();
        for (mut prologue, image) in std::mem::take(&mut self.images) {
            let process = prologue.state.process.index;
            let alone = match alone.entry(process) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(free) => *free.insert((self.plan.alone)(&trace, process)?),
            };
            if !alone {
                left_out += 1;
            } else if !sleeps_again(&prologue, &trace)? {
                prologue.state.settle(&trace);
                self.put(&prologue, image, (trace.sum(), 0))?;
            }
        }
        if self.plan.set == ImageSet::Epochs && !(self.plan.alone)(&trace, 0)? {
            left_out += self.finished.len() as u32;
            self.finished.clear();
        }
        let mut made = LiveIndexed {
            images: self.finished.len(),
            bytes: 0,
            pause: Duration::from_micros(checkpoints.longest_pause().into()),
            left_out,
        };
        if made.images > 0 {
            made.bytes = self.index.finish().map_err(Failure::setup)?;
        } else {
            self.index.abandon().map_err(Failure::setup)?;
        }
        Ok(made)
    }
}

/// Whether a thread is inside a call in which it looks and sleeps again: in a replay it is behind the switch that says so,
/// and more events have happened.
fn sleeps_again(prologue: &Prologue, trace: &Trace) -> Result<bool> {
    for thread in prologue.state.threads.iter().filter(|t| t.task.parked) {
        let id = TapeId::new(prologue.state.process.index, thread.task.index);
        let Some(at) = &thread.tape else {
            continue;
        };
        // A tape without events has no call that could sleep.
        let Ok(mut tape) = trace.tape_at(id, &at.mark) else {
            continue;
        };
        let next = tape.peek().map_err(Failure::setup)?;
        if next.is_some_and(
            |event| matches!(event.kind, Kind::Signal(signal) if signal.steps == SYNCHRONOUS),
        ) {
            return Ok(true);
        }
    }
    Ok(false)
}
