//! Checkpoints of a recording: the supervisor says when it wants one, each process makes a copy of itself, and the copy
//! writes itself into a ring, as a session image. Here is what the two agree on. The supervisor must never take an image
//! that has not come as a whole.

use std::sync::atomic::{AtomicU32, Ordering};

use relive_trace::{ImageHead, ImageWriter, IndexWriter, TapeId};
use serde::{Deserialize, Serialize};

use crate::encoding;
use crate::failure::{Failure, Result};
use crate::memory::page_list::PageRange;
use crate::section::{Section, Shareable};
use crate::session_state::{LAYOUT, SessionState};
use crate::shm::{Logged, Shm};

const PAGE: usize = 4096;

/// The checkpoints of a recording, in the shared memory.
#[repr(C)]
#[derive(Default)]
pub struct Checkpoints {
    /// There are to be some.
    on: AtomicU32,
    /// The number of the one that is wanted.
    wanted: AtomicU32,
    /// A process has become one to which orphans come: copies would be its children.
    adopts: AtomicU32,
    /// The longest time for which a thread was held up, in microseconds.
    pause: AtomicU32,
    /// Processes that could not be described, because they share memory with others or map a file shared.
    shared: AtomicU32,
}

/// The checkpoints of the tree.
pub static CHECKPOINTS: Section<Checkpoints> = Section::common();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for Checkpoints {}

impl Checkpoints {
    /// From the beginning of the recording on.
    pub fn begin(&self) {
        self.on.store(1, Ordering::Release);
    }

    /// Whether there are to be checkpoints.
    #[must_use]
    pub fn are_on(&self) -> bool {
        self.on.load(Ordering::Acquire) != 0
    }

    /// A checkpoint is wanted of each process.
    pub fn want(&self) {
        self.wanted.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of the one that is wanted; 0: none yet.
    #[must_use]
    pub fn wanted(&self) -> u32 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Orphans come to a guest from now on.
    pub fn adopts(&self) {
        self.adopts.store(1, Ordering::Release);
    }

    /// Whether a copy could become a guest's child.
    #[must_use]
    pub fn may_be_adopted(&self) -> bool {
        self.adopts.load(Ordering::Acquire) != 0
    }

    /// A thread was held up for so long.
    pub fn paused(&self, micros: u128) {
        let micros = u32::try_from(micros).unwrap_or(u32::MAX);
        self.pause.fetch_max(micros, Ordering::Relaxed);
    }

    /// The longest time for which a thread was held up, in microseconds.
    #[must_use]
    pub fn longest_pause(&self) -> u32 {
        self.pause.load(Ordering::Relaxed)
    }

    /// A process could not be described.
    pub fn left_out(&self) {
        self.shared.fetch_add(1, Ordering::Relaxed);
    }

    /// How often a process could not be described.
    #[must_use]
    pub fn were_left_out(&self) -> u32 {
        self.shared.load(Ordering::Relaxed)
    }
}

/// The name of the ring of a process's image, which is no tape.
#[must_use]
pub fn ring_of(process: u32) -> TapeId {
    TapeId::new(process, TapeId::SCHEDULE - 1)
}

/// Whether a ring is that of an image.
#[must_use]
pub fn is_image(id: TapeId) -> bool {
    id.thread == TapeId::SCHEDULE - 1
}

/// All of an image but its pages.
#[derive(Debug, Serialize, Deserialize)]
pub struct Prologue {
    /// Turns that have been taken.
    pub turn: u64,
    /// Ticks of the thread whose turn it is.
    pub ticks: u64,
    /// The state.
    pub state: SessionState,
    /// The pages that follow, in order.
    pub pages: Vec<PageRange>,
}

impl Prologue {
    /// The head of its image, in a recording with this checksum.
    #[must_use]
    pub fn head(&self, tapes: u64) -> ImageHead {
        let begins = self.state.begins();
        ImageHead {
            layout: LAYOUT,
            process: begins.process,
            event: begins.event,
            turn: self.turn,
            ticks: self.ticks,
            work: begins.work,
            tapes,
        }
    }

    /// Sends the image into a ring; `content` gives the bytes of pages.
    ///
    /// # Errors
    /// There is no supervisor any more, or a page cannot be read.
    pub fn send(
        &self,
        shm: Shm,
        ring: u32,
        mut content: impl FnMut(u64, u64) -> Result<Vec<u8>>,
    ) -> Result<()> {
        let push = |bytes: &[u8]| -> Logged { shm.push(ring, bytes) };
        let bytes = encoding::to_bytes(self);
        push(&(bytes.len() as u64).to_le_bytes())?;
        push(&bytes)?;
        for range in &self.pages {
            let mut at = range.start;
            while at < range.end {
                let end = range.end.min(at + 16 * PAGE as u64);
                push(&content(at, end)?)?;
                at = end;
            }
        }
        Ok(())
    }
}

/// An image that is on its way.
#[derive(Default)]
pub struct IncomingImage {
    /// Bytes that are not a whole yet.
    rest: Vec<u8>,
    begun: Option<BegunImage>,
}

struct BegunImage {
    prologue: Prologue,
    image: ImageWriter,
    /// The next page: which range, and where.
    range: usize,
    at: u64,
}

impl IncomingImage {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// A page cannot be written, or the sender is not of this executable.
    pub fn take(&mut self, bytes: &[u8], index: &mut IndexWriter) -> Result<()> {
        self.rest.extend_from_slice(bytes);
        if self.begun.is_none() {
            let Some((length, rest)) = self.rest.split_first_chunk() else {
                return Ok(());
            };
            let length = u64::from_le_bytes(*length) as usize;
            let Some(bytes) = rest.get(..length) else {
                return Ok(());
            };
            let prologue: Prologue = encoding::from_bytes(bytes)
                .map_err(|_| Failure::internal("an image without a beginning"))?;
            self.rest.drain(..8 + length);
            self.begun = Some(BegunImage {
                image: index.image(prologue.head(0), Vec::new()),
                at: prologue.pages.first().map_or(0, |range| range.start),
                range: 0,
                prologue,
            });
        }
        let Some(begun) = &mut self.begun else {
            return Ok(());
        };
        let (pages, _) = self.rest.as_chunks::<PAGE>();
        for page in pages {
            begun.add(page, index)?;
        }
        let done = pages.len() * PAGE;
        self.rest.drain(..done);
        Ok(())
    }

    /// The image, if all of it has come.
    #[must_use]
    pub fn finish(self) -> Option<(Prologue, ImageWriter)> {
        let begun = self.begun?;
        let whole = begun.range == begun.prologue.pages.len() && self.rest.is_empty();
        whole.then_some((begun.prologue, begun.image))
    }
}

impl BegunImage {
    fn add(&mut self, page: &[u8], index: &mut IndexWriter) -> Result<()> {
        let ranges = &self.prologue.pages;
        let range = ranges.get(self.range);
        let range = range.ok_or_else(|| Failure::internal("an image with too many pages"))?;
        let added = self.image.add(index, self.at, page, range.blank);
        added.map_err(Failure::setup)?;
        self.at += PAGE as u64;
        if self.at >= range.end {
            self.range += 1;
            self.at = ranges.get(self.range).map_or(0, |next| next.start);
        }
        Ok(())
    }
}
