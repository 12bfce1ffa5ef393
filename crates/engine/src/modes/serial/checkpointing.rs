//! The state of a recorded process that is to have checkpoints ([`super::checkpoint`]). It is the holder of the baton's
//! alone.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::progress::RecordedProgress;
use super::resting::RestingTasks;
use crate::image_stream::CHECKPOINTS;
use crate::mode::HandedOn;
use crate::shm::Shm;

/// The state of checkpoints in a process that is to have some.
#[derive(Default)]
pub struct Checkpointing {
    /// The number of the last one that was made, or could not be.
    last: AtomicU32,
    /// It has had a copy that sleeps.
    copied: AtomicBool,
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
            progress: Mutex::new(RecordedProgress::new(shm, handed_on.past, handed_on.ring)),
            ..Self::default()
        })
    }

    /// How far the process is; only the holder of the baton asks.
    pub fn progress(&self) -> MutexGuard<'_, RecordedProgress> {
        self.progress
            .lock()
            .expect("no thread panics: panics abort")
    }

    /// The number of the last checkpoint.
    pub fn last(&self) -> u32 {
        self.last.load(Ordering::Relaxed)
    }

    /// The checkpoint of this number is made, or cannot be.
    pub fn made(&self, number: u32) {
        self.last.store(number, Ordering::Relaxed);
    }

    /// Whether the process has had a copy that sleeps.
    pub fn has_copy(&self) -> bool {
        self.copied.load(Ordering::Relaxed)
    }

    /// It has one now.
    pub fn copied(&self) {
        self.copied.store(true, Ordering::Relaxed);
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
        self.copied.store(false, Ordering::Relaxed);
        self.resting.all().clear();
        self.progress().is_child();
    }
}
