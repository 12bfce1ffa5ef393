//! The state of a recorded process that is to have checkpoints. A copy is made by one thread at a time, which holds the baton or
//! has quiet: that one alone may change what is told of the last copy.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::progress::RecordedProgress;
use super::resting::RestingTasks;
use crate::image_stream::CHECKPOINTS;
use crate::mode::HandedOn;
use crate::shm::Shm;

/// Unasked copies of a process may hold it up for so long at first.
const ALLOWANCE: Duration = Duration::from_millis(100);
/// And for so large a part of its life: the fork of a large process takes milliseconds, and it may have many children.
const PART: u32 = 20;

/// The copies that a process has made unasked.
#[derive(Default)]
struct UnaskedCopies {
    /// When it first looked whether it makes one.
    began: Option<Instant>,
    /// The time that they have held it up.
    spent: Duration,
}

/// Threads that run together are not brought to rest more often for a checkpoint that cannot be made yet.
const AGAIN: Duration = Duration::from_millis(1);

/// The state of checkpoints in a process that is to have some.
#[derive(Default)]
pub struct Checkpointing {
    /// The number of the last one that was made, or could not be.
    last: AtomicU32,
    /// It has forked, and has no copy that sleeps from behind that.
    forked: AtomicBool,
    unasked: Mutex<UnaskedCopies>,
    /// When one was to be made where threads run together, and could not.
    tried: Mutex<Option<Instant>>,
    /// The threads without the baton.
    pub resting: RestingTasks,
    progress: Mutex<RecordedProgress>,
    /// Where the first stack of the program began.
    stack: AtomicU64,
}

impl Checkpointing {
    /// Of a process that begins, if the recording is to have checkpoints.
    pub fn of(shm: Shm, handed_on: &HandedOn) -> Option<Self> {
        let checkpoints = CHECKPOINTS.of(&shm);
        checkpoints.are_on().then(|| Self {
            last: AtomicU32::new(checkpoints.wanted()),
            forked: AtomicBool::new(true),
            progress: Mutex::new(RecordedProgress::new(shm, handed_on.past, handed_on.ring)),
            ..Self::default()
        })
    }

    /// How far the process is.
    pub fn progress(&self) -> MutexGuard<'_, RecordedProgress> {
        self.progress
            .lock()
            .expect("no thread panics: panics abort")
    }

    /// Whether the checkpoint that is wanted, of this number, is still to be made.
    pub fn lacks(&self, wanted: u32) -> bool {
        wanted != self.last.load(Ordering::Relaxed)
    }

    /// The number of the checkpoint that is wanted, if a copy in front of a sleep would be of use: that one, or an unasked
    /// one. Only copies that sleep themselves are.
    pub fn wanted_before_sleep(&self, shm: Shm) -> Option<u32> {
        let all = CHECKPOINTS.of(&shm);
        let wanted = all.wanted();
        let useful =
            all.sleep() && !all.are_suspended() && (self.lacks(wanted) || self.wants_copy());
        useful.then_some(wanted)
    }

    /// The checkpoint of this number is made, or cannot be.
    pub fn made(&self, number: u32) {
        self.last.store(number, Ordering::Relaxed);
    }

    /// Whether threads that run together may be brought to rest for a checkpoint: not at once after that was in vain.
    pub fn may_try(&self) -> bool {
        let tried = self.tried.lock().expect("no thread panics: panics abort");
        tried.is_none_or(|tried| tried.elapsed() >= AGAIN)
    }

    /// It was in vain, or not.
    pub fn has_tried(&self, in_vain: bool) {
        let mut tried = self.tried.lock().expect("no thread panics: panics abort");
        *tried = in_vain.then(Instant::now);
    }

    /// Whether an unasked copy from here would be of use, and the process has time for it: what happens behind it need not be kept together with an earlier part, as a
    /// child is with its parent's part that makes it.
    pub fn wants_copy(&self) -> bool {
        if !self.forked.load(Ordering::Relaxed) {
            return false;
        }
        let mut unasked = self.unasked();
        let lived = unasked.began.get_or_insert_with(Instant::now).elapsed();
        unasked.spent < ALLOWANCE + lived / PART
    }

    fn unasked(&self) -> MutexGuard<'_, UnaskedCopies> {
        self.unasked.lock().expect("no thread panics: panics abort")
    }

    /// A copy has held the process up for so long, `asked` for by the supervisor or not.
    pub fn held_up(&self, shm: Shm, pause: Duration, asked: bool) {
        CHECKPOINTS.of(&shm).paused(pause.as_micros());
        if !asked {
            self.unasked().spent += pause;
        }
    }

    /// The process is about to make a child, or is one.
    pub fn forks(&self) {
        self.forked.store(true, Ordering::Relaxed);
    }

    /// It cannot have a copy, and makes none unasked.
    pub fn has_none(&self) {
        self.forked.store(false, Ordering::Relaxed);
    }

    /// It has a copy from here.
    pub fn copied(&self) {
        self.forked.store(false, Ordering::Relaxed);
    }

    /// Where the first stack of the program began.
    pub fn stack(&self) -> u64 {
        self.stack.load(Ordering::Relaxed)
    }

    /// The program begins with its stack there.
    pub fn begins(&self, stack: u64) {
        self.stack.store(stack, Ordering::Relaxed);
    }

    /// The process is a forked child.
    pub fn start_over(&self) {
        self.forks();
        *self.unasked() = UnaskedCopies::default();
        self.resting.all().clear();
        self.progress().is_child();
    }
}
