//! The guest threads of this host process.

use std::sync::atomic::{AtomicU32, Ordering};

/// The threads of the guest that are threads of the host.
pub struct Threads {
    count: AtomicU32,
}

impl Default for Threads {
    /// The first thread.
    fn default() -> Self {
        Self {
            count: AtomicU32::new(1),
        }
    }
}

impl Threads {
    /// A thread is about to be made.
    pub fn begun(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    /// A thread has ended, or was not made.
    pub fn ended(&self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether there is one.
    #[must_use]
    pub fn single(&self) -> bool {
        self.count.load(Ordering::Acquire) == 1
    }

    /// The process has just been forked, by its only thread.
    pub fn start_over(&self) {
        self.count.store(1, Ordering::Release);
    }
}
