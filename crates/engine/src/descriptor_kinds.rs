//! The kinds of files behind the guest's descriptors, as far as they have been asked for: plain data of a
//! process. It must never ask the kernel, which [`crate::input::descriptors`] does.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Descriptors below this are remembered; the kernel is asked each time for higher ones.
const KNOWN: usize = 1024;

/// Nothing is known of a descriptor.
pub const UNKNOWN: u8 = 0;

/// The remembered kinds, and two facts about all descriptors of the process.
pub struct DescriptorKinds {
    kinds: [AtomicU8; KNOWN],
    apart: AtomicBool,
    memory_opened: AtomicBool,
}

impl DescriptorKinds {
    /// Nothing is known.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            kinds: [const { AtomicU8::new(UNKNOWN) }; KNOWN],
            apart: AtomicBool::new(false),
            memory_opened: AtomicBool::new(false),
        }
    }

    /// The place of a descriptor's kind, if its number is a low one.
    #[must_use]
    pub fn of(&self, fd: i32) -> Option<&AtomicU8> {
        usize::try_from(fd).ok().and_then(|fd| self.kinds.get(fd))
    }

    /// Whether threads of this process have different tables of descriptors, or another process has this
    /// one too.
    #[must_use]
    pub fn are_apart(&self) -> bool {
        self.apart.load(Ordering::Relaxed)
    }

    /// Forgets a descriptor that is closed, or is a new one.
    pub fn forget(&self, fd: i32) {
        if let Some(known) = self.of(fd) {
            known.store(UNKNOWN, Ordering::Relaxed);
        }
    }

    /// Forgets all descriptors, as many are closed; `apart`: from now on a thread has a table of its own,
    /// or another process changes this one, so that nothing is remembered any more.
    pub fn forget_many(&self, apart: bool) {
        if apart {
            self.apart.store(true, Ordering::Relaxed);
        }
        for known in &self.kinds {
            known.store(UNKNOWN, Ordering::Relaxed);
        }
    }

    /// Notes that a file of a process's memory has been opened.
    pub fn memory_opened(&self) {
        self.memory_opened.store(true, Ordering::Relaxed);
    }

    /// Whether a descriptor may lead to memory, where nothing else is remembered (`relive run`).
    #[must_use]
    pub fn may_be_memory(&self) -> bool {
        self.memory_opened.load(Ordering::Relaxed)
    }
}

impl Default for DescriptorKinds {
    fn default() -> Self {
        Self::new()
    }
}
