//! What one guest process is, apart from its memory: identity, signal actions, descriptors.
//! A vfork child shares its parent's memory (`machine`) and has a `Process` of its own. Its plain-data
//! description is a [`ProcessState`].

mod state;

pub use state::{Actions, Limit, ProcessState, State};

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::seccomp::Filters;

/// One guest process.
pub struct Process {
    /// Its index in the recording.
    pub index: u32,
    /// Its kernel pid (the recorded one, in replay).
    pub pid: u32,
    next_thread: AtomicU32,
    /// Filters that one thread has set for all (seccomp(2)).
    filters_set: AtomicU32,
    state: Mutex<State>,
}

impl Process {
    /// Locks the changing part.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics: panics abort")
    }

    /// Takes the next thread index.
    pub fn new_thread(&self) -> u32 {
        self.next_thread.fetch_add(1, Ordering::AcqRel)
    }

    /// How often a thread has set a filter for all.
    pub fn filters_set(&self) -> u32 {
        self.filters_set.load(Ordering::Acquire)
    }

    /// Sets a filter for all threads; each takes it over before its next call.
    pub fn set_filter(&self, filter: Filters) {
        let mut state = self.state();
        state.filter = Some(filter);
        self.filters_set.fetch_add(1, Ordering::AcqRel);
    }

    /// The index that the next thread will get.
    pub fn next_thread(&self) -> u32 {
        self.next_thread.load(Ordering::Acquire)
    }

    /// Makes sure that later threads get indexes above `index`.
    pub fn seen_thread(&self, index: u32) {
        self.next_thread.fetch_max(index + 1, Ordering::AcqRel);
    }
}
