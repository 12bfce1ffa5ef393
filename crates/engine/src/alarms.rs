//! Whether a process of the tree has ever set up a timer that sends signals: a thread that sleeps may then be
//! woken by the kernel. Kept in the shared memory, for the supervisor; it says nothing of when.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::section::{Section, Shareable};

/// The timers of the tree.
pub static ALARMS: Section<Alarms> = Section::new();

/// Zero is none.
#[derive(Default)]
pub struct Alarms(AtomicU32);

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for Alarms {}

impl Alarms {
    /// A process sets one up.
    pub fn note(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    /// None was ever set up: a test begins.
    #[cfg(test)]
    pub fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether one was ever set up.
    #[must_use]
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}
