//! A guest process apart from its memory: identity, signal actions, descriptors.
//! A vfork child shares its parent's memory (`machine`) and has a `Process` of its own. Its plain-data
//! description is a [`ProcessState`].

pub mod state;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::seccomp::filter::Filters;
use state::{ProcessState, State};

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

    /// The description of the process.
    #[must_use]
    pub fn capture(&self) -> ProcessState {
        // Filters are set under the lock.
        let state = self.state();
        ProcessState {
            index: self.index,
            pid: self.pid,
            next_thread: self.next_thread(),
            filters_set: self.filters_set(),
            state: state.clone(),
        }
    }

    /// The process that is described.
    #[must_use]
    pub fn restore(state: ProcessState) -> Arc<Self> {
        Arc::new(Self {
            index: state.index,
            pid: state.pid,
            next_thread: state.next_thread.into(),
            filters_set: state.filters_set.into(),
            state: state.state.into(),
        })
    }
}
