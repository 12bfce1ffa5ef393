//! Checkpoints of a recording: the supervisor says when it wants one, each process makes a copy of itself, and the copy
//! writes itself into a ring, as a session image. Here is what the two agree on. The supervisor must never take an image
//! that has not come as a whole.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use relive_host::{addr, sys};
use relive_trace::{ImageHead, ImageWriter, IndexWriter, TapeId};
use serde::{Deserialize, Serialize};

use crate::elapsed::Elapsed;
use crate::encoding;
use crate::failure::{Failure, Result};
use crate::input::shared_store::SHARED;
use crate::memory::page_list::PageRange;
use crate::section::{Section, Shareable};
use crate::session_state::{LAYOUT, SessionState};
use crate::shm::{Logged, Shm, alive};

const PAGE: usize = addr::PAGE as usize;

/// Copies that sleep at the same time, at most.
pub const COPIES: usize = 1024;
/// Of these, places for copies that processes make unasked: those that are asked for find a place.
const UNASKED: usize = COPIES / 2;

/// A copy of a process that sleeps until it is wanted.
#[repr(C)]
#[derive(Default)]
pub struct CopySlot {
    /// The copy's kernel id; 0: free, `u32::MAX`: being made.
    pid: AtomicU32,
    /// See [`order`].
    order: AtomicU32,
    /// How many copies it has been the place of.
    used: AtomicU32,
}

/// A place for a copy, as long as it is that of one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyPlace {
    slot: u32,
    used: u32,
    /// The supervisor has asked for the copy.
    pub asked: bool,
}

#[cfg(test)]
impl CopyPlace {
    /// A place of no copy.
    pub fn nowhere(slot: u32, asked: bool) -> Self {
        Self {
            slot,
            used: 0,
            asked,
        }
    }

    /// Its number.
    pub fn number(self) -> usize {
        self.slot as usize
    }
}

/// What a sleeping copy is to do.
pub mod order {
    /// To sleep.
    pub const SLEEP: u32 = 0;
    /// To write itself down, and end.
    pub const WRITE: u32 = 1;
    /// To end.
    pub const END: u32 = 2;
    /// To sleep; it was to write itself down, and could not.
    pub const FAILED: u32 = 3;
}

/// The checkpoints of a recording, in the shared memory.
#[repr(C)]
pub struct Checkpoints {
    /// There are to be some.
    on: AtomicU32,
    /// Copies sleep until they are wanted.
    sleep: AtomicU32,
    copies: [CopySlot; COPIES],
    /// The number of the one that is wanted.
    wanted: AtomicU32,
    /// A process has become one to which orphans come: copies would be its children.
    adopts: AtomicU32,
    /// The longest time for which a thread was held up, in microseconds.
    pause: AtomicU32,
    /// Processes that could not be described, because they share memory with others or map a file shared.
    shared: AtomicU32,
    /// How often a process has become a member of the group that shares memory, or has left it.
    group: AtomicU32,
    /// A recorded program asks to keep what there is.
    keep: AtomicU32,
    /// No copies are of use for now.
    suspended: AtomicU32,
    /// How often copies of files have been set aside.
    files: AtomicU32,
    /// A process waits where it has made a checkpoint.
    hold: AtomicU32,
    /// Microseconds for which processes have waited so.
    held: AtomicU64,
    /// Copies are the ends of epochs.
    epochs: AtomicU32,
    /// Output is held back until the order of all before it is found.
    commits: AtomicU32,
    /// How often that has been found of more of the process.
    finds: AtomicU32,
    /// The work up to where it is found.
    found: AtomicU64,
    /// The work by which the last copy of the first process was named, if copies are the ends of epochs.
    named: AtomicU64,
    /// Outputs that were held back, and for how many microseconds: of all, and at most.
    outputs: AtomicU64,
    delay: AtomicU64,
    longest_delay: AtomicU64,
}

/// Output that was held back until the order of all before it was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldOutputs {
    /// How many calls.
    pub number: u64,
    /// For how long, all together.
    pub delay: Duration,
    /// For how long at most.
    pub longest: Duration,
}

/// The operation of prctl(2) by which a recorded program asks to keep what there is of a flight recording. No kernel has
/// it: everywhere else it fails with EINVAL, and does nothing.
pub const PR_KEEP: i32 = i32::from_be_bytes(*b"RLVK");

/// The checkpoints of the tree.
pub static CHECKPOINTS: Section<Checkpoints> = Section::common();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for Checkpoints {}

impl Checkpoints {
    /// From the beginning of the recording on.
    pub fn begin(&self) {
        self.on.store(1, Ordering::Release);
    }

    /// From the beginning of the recording on, with copies that sleep until they are wanted.
    pub fn begin_sleeping(&self) {
        self.sleep.store(1, Ordering::Release);
        self.begin();
    }

    /// Whether copies sleep until they are wanted.
    #[must_use]
    pub fn sleep(&self) -> bool {
        self.sleep.load(Ordering::Relaxed) != 0
    }

    /// Copies of files are about to be set aside, or have been: processes take none for granted that they made before.
    /// Gives how often it was so.
    pub fn set_files_aside(&self) -> u32 {
        self.files.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// How often that was so.
    #[must_use]
    pub fn files_set_aside(&self) -> u32 {
        self.files.load(Ordering::Acquire)
    }

    /// Whether copies are of no use, from now on.
    pub fn suspend(&self, suspended: bool) {
        self.suspended.store(suspended.into(), Ordering::Release);
    }

    /// Whether they are of no use now.
    #[must_use]
    pub fn are_suspended(&self) -> bool {
        self.suspended.load(Ordering::Relaxed) != 0
    }

    /// The place of a copy; `None`: it is that of another one by now.
    #[must_use]
    pub fn copy(&self, place: CopyPlace) -> Option<&CopySlot> {
        let slot = self.copies.get(place.slot as usize);
        slot.filter(|slot| slot.used.load(Ordering::Acquire) == place.used)
    }

    /// The copies that there are.
    #[must_use]
    pub fn copies(&self) -> Vec<u32> {
        self.copies.iter().filter_map(CopySlot::pid).collect()
    }

    /// A free place for a copy, which is taken; `asked`: the supervisor wants it.
    #[must_use]
    pub fn new_copy(&self, asked: bool) -> Option<CopyPlace> {
        let places = match asked {
            true => &self.copies[..],
            false => &self.copies[..UNASKED],
        };
        let free = places.iter().position(|slot| {
            let took = slot
                .pid
                .compare_exchange(0, u32::MAX, Ordering::AcqRel, Ordering::Relaxed);
            took.is_ok()
        });
        let number = free?;
        let slot = &self.copies[number];
        slot.order.store(order::SLEEP, Ordering::Release);
        Some(CopyPlace {
            slot: number as u32,
            used: slot.used.fetch_add(1, Ordering::AcqRel) + 1,
            asked,
        })
    }

    /// Whether the copy at this place lives; the place of one that has died is free from then on.
    #[must_use]
    pub fn copy_lives(&self, place: CopyPlace) -> bool {
        let Some((slot, pid)) = self.copy(place).and_then(|slot| Some((slot, slot.pid()?))) else {
            return false;
        };
        let lives = alive(pid);
        if !lives {
            // Another one may have the place by now.
            let (ok, fail) = (Ordering::AcqRel, Ordering::Relaxed);
            let _ = slot.pid.compare_exchange(pid, 0, ok, fail);
        }
        lives
    }

    /// The copy at this place is not needed any more.
    pub fn end_copy(&self, place: CopyPlace) {
        if let Some(slot) = self.copy(place) {
            slot.give(order::END);
        }
    }

    /// Whether there are to be checkpoints.
    #[must_use]
    pub fn are_on(&self) -> bool {
        self.on.load(Ordering::Acquire) != 0
    }

    /// From now on a process waits where it has made a checkpoint, or no longer.
    pub fn hold(&self, on: bool) {
        if self.hold.swap(on.into(), Ordering::AcqRel) != 0 && !on {
            sys::futex_wake(&self.hold, i32::MAX as u32);
        }
    }

    /// Waits as long as processes are to, and there is a supervisor who could say that they are not.
    pub fn await_release(&self, shm: &Shm) {
        if self.hold.load(Ordering::Acquire) == 0 {
            return;
        }
        let began = Instant::now();
        while self.hold.load(Ordering::Acquire) != 0 && shm.need_supervisor().is_ok() {
            sys::futex_wait(&self.hold, 1, Some(100));
        }
        let held = began.elapsed().as_micros();
        let held = u64::try_from(held).unwrap_or(u64::MAX);
        self.held.fetch_add(held, Ordering::Relaxed);
    }

    /// For how long processes have waited so.
    #[must_use]
    pub fn were_held(&self) -> Duration {
        Duration::from_micros(self.held.load(Ordering::Relaxed))
    }

    /// From the beginning of the recording on output is held back.
    pub fn begin_to_commit(&self) {
        self.commits.store(1, Ordering::Release);
    }

    /// Whether output is held back.
    #[must_use]
    pub fn commits(&self) -> bool {
        self.commits.load(Ordering::Relaxed) != 0
    }

    /// From the beginning of the recording on copies are the ends of epochs.
    pub fn begin_epochs(&self) {
        self.epochs.store(1, Ordering::Release);
    }

    /// Where copies are the ends of epochs each of the first process has a name of its own, also behind exec: the work, which counts to the
    /// last event of each thread, is at least one more than that of the copy before. So a stretch without events has epochs too.
    pub fn name_once(&self, process: u32, elapsed: &mut Elapsed) {
        if process != 0 || self.epochs.load(Ordering::Relaxed) == 0 {
            return;
        }
        let least = self.named.load(Ordering::Relaxed) + 1;
        elapsed.ticks += least.saturating_sub(elapsed.work());
        self.named.store(elapsed.work(), Ordering::Relaxed);
    }

    /// The order of all that the process has done is found up to this work.
    pub fn found_up_to(&self, work: u64) {
        if self.found.fetch_max(work, Ordering::AcqRel) < work {
            self.finds.fetch_add(1, Ordering::AcqRel);
            sys::futex_wake(&self.finds, i32::MAX as u32);
        }
    }

    /// Waits until that is so, as long as there is a supervisor who could say it.
    pub fn await_commit(&self, shm: &Shm, work: u64) {
        loop {
            let finds = self.finds.load(Ordering::Acquire);
            if self.found.load(Ordering::Acquire) >= work || shm.need_supervisor().is_err() {
                return;
            }
            sys::futex_wait(&self.finds, finds, Some(100));
        }
    }

    /// Output was held back for so long.
    pub fn held_output(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.outputs.fetch_add(1, Ordering::Relaxed);
        self.delay.fetch_add(delay, Ordering::Relaxed);
        self.longest_delay.fetch_max(delay, Ordering::Relaxed);
    }

    /// What output was held back; `None`: it is not.
    #[must_use]
    pub fn held_outputs(&self) -> Option<HeldOutputs> {
        self.commits().then(|| HeldOutputs {
            number: self.outputs.load(Ordering::Relaxed),
            delay: Duration::from_micros(self.delay.load(Ordering::Relaxed)),
            longest: Duration::from_micros(self.longest_delay.load(Ordering::Relaxed)),
        })
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

    /// A process has become a member of the group that shares memory, or leaves it. Gives the number of changes.
    pub fn group_changes(&self) -> u32 {
        self.group.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The number of changes of the group.
    #[must_use]
    pub fn changes_of_group(&self) -> u32 {
        self.group.load(Ordering::Acquire)
    }

    /// A recorded program asks to keep what there is.
    pub fn ask_to_keep(&self) {
        self.keep.store(1, Ordering::Release);
    }

    /// Whether one has.
    #[must_use]
    pub fn guest_asks_to_keep(&self) -> bool {
        self.keep.swap(0, Ordering::AcqRel) != 0
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

impl CopySlot {
    /// The copy is this process.
    pub fn is(&self, pid: u32) {
        self.pid.store(pid, Ordering::Release);
    }

    /// The copy ends, or was not made.
    pub fn leave(&self) {
        self.pid.store(0, Ordering::Release);
    }

    /// The copy's kernel id, if there is one.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        let pid = self.pid.load(Ordering::Acquire);
        (pid != 0 && pid != u32::MAX).then_some(pid)
    }

    /// Tells the copy what to do.
    pub fn give(&self, order: u32) {
        self.order.store(order, Ordering::Release);
        sys::futex_wake(&self.order, 1);
    }

    /// The copy has done what it was told, or could not; it gets no order meanwhile but to end.
    pub fn is_done(&self, well: bool) {
        let next = match well {
            true => order::SLEEP,
            false => order::FAILED,
        };
        let (ok, fail) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.order.compare_exchange(order::WRITE, next, ok, fail);
    }

    /// Whether the copy writes itself down.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.order.load(Ordering::Acquire) == order::WRITE
    }

    /// Whether it could not.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.order.load(Ordering::Acquire) == order::FAILED
    }

    /// Sleeps until there is an order; looks about now and then, and ends (`None`) if nobody is there to give one.
    #[must_use]
    pub fn await_order(&self, shm: &Shm) -> Option<u32> {
        loop {
            match self.order.load(Ordering::Acquire) {
                sleeps @ (order::SLEEP | order::FAILED) => {
                    sys::futex_wait(&self.order, sleeps, Some(1000));
                }
                order => return Some(order),
            }
            if shm.need_supervisor().is_err() {
                return None;
            }
        }
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
    /// The copy that is to sleep until it is wanted, and of which this tells without its pages.
    pub sleeps: Option<CopyPlace>,
    /// How far the tree was then.
    pub tree: TreeState,
}

/// How far the whole tree is, which other processes' copies need to know.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TreeState {
    /// Number of the next output.
    pub order: u64,
    /// Index of the next process.
    pub processes: u32,
    /// How often a process has become a member of the group that shares memory, or has left it: between two places
    /// with the same number no process has written to the memory of another one that is alone at both.
    pub group: u32,
    /// Bytes of input to which the process refers no more.
    pub floor: u64,
    /// How often copies of files were set aside: the process takes none for granted from before.
    pub files: u32,
    /// The process of the copy is a member of the group: the only one that lives.
    pub member: bool,
}

impl TreeState {
    /// How far it is now.
    #[must_use]
    pub fn now(shm: &Shm) -> Self {
        Self {
            order: shm.header().next_order.load(Ordering::Acquire),
            processes: shm.processes(),
            group: CHECKPOINTS.of(shm).changes_of_group(),
            floor: SHARED.of(shm).floor(),
            files: CHECKPOINTS.of(shm).files_set_aside(),
            member: false,
        }
    }
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
            order: 0,
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

/// In place of the length of an image: the text of a failure follows.
const FAILED: u64 = u64::MAX;

/// Says into a ring why there is no image.
///
/// # Errors
/// There is no supervisor any more.
pub fn send_failure(shm: Shm, ring: u32, failure: &Failure) -> Logged {
    shm.push(ring, &FAILED.to_le_bytes())?;
    shm.push(ring, failure.text().as_bytes())
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
    /// `None`: a copy tells of itself, without pages.
    image: Option<ImageWriter>,
    /// The next page: which range, and where.
    range: usize,
    at: u64,
}

impl IncomingImage {
    /// Takes the next bytes. Without an index a copy that sleeps may tell of itself, and nothing else.
    ///
    /// # Errors
    /// A page cannot be written, or the sender is not of this executable.
    pub fn take(&mut self, bytes: &[u8], index: Option<&mut IndexWriter>) -> Result<()> {
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
            let image = index.as_ref().filter(|_| prologue.sleeps.is_none());
            self.begun = Some(BegunImage {
                image: image.map(|index| index.image(prologue.head(0), Vec::new())),
                at: prologue.pages.first().map_or(0, |range| range.start),
                range: 0,
                prologue,
            });
        }
        let (Some(begun), Some(index)) = (&mut self.begun, index) else {
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

    /// Why the copy could not describe itself, if it says so.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let text = self.rest.strip_prefix(&FAILED.to_le_bytes())?;
        let failed = self.begun.is_none();
        failed.then(|| String::from_utf8_lossy(text).into_owned())
    }

    /// The image, if all of it has come.
    #[must_use]
    pub fn finish(self) -> Option<(Prologue, Option<ImageWriter>)> {
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
        if let Some(image) = &mut self.image {
            let added = image.add(index, self.at, page, range.blank);
            added.map_err(Failure::setup)?;
        }
        self.at += PAGE as u64;
        if self.at >= range.end {
            self.range += 1;
            self.at = ranges.get(self.range).map_or(0, |next| next.start);
        }
        Ok(())
    }
}
