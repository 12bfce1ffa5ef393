//! What one guest process is, apart from its memory: identity, signal actions, descriptors.
//! A vfork child shares its parent's memory (`machine`) and has a `Process` of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use relive_host::signal::KernelAction;

use crate::reach::Reach;
use crate::seccomp::Filter;
use crate::streams::Streams;

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

/// The part that its threads change.
#[derive(Clone)]
pub struct State {
    /// Signal actions by number, 1 to 64.
    pub actions: [KernelAction; 65],
    /// Which descriptors lead to the recording's standard streams.
    pub streams: Streams,
    /// What `/proc/self/exe` points to.
    pub exe: Vec<u8>,
    /// What `/proc/self/environ` shows.
    pub environ: Vec<u8>,
    /// What `/proc/self/auxv` shows.
    pub auxv: Vec<u8>,
    /// Heads of the robust futex lists of its threads, with their kernel ids, by index.
    pub robust: BTreeMap<u32, (u64, u32)>,
    /// PR_SET_DUMPABLE, as the guest set it.
    pub dumpable: i64,
    /// PR_SET_PDEATHSIG, as the guest set it (the host uses the real one in the first process).
    pub death_signal: i32,
    /// personality(2), as the guest set it.
    pub personality: u64,
    /// Limits that would hit the host, and are kept by the engine.
    pub limits: Limits,
    /// The last filter that was set for all threads.
    pub filter: Option<Arc<Filter>>,
    /// What the host keeps open because it could not be opened again.
    pub reach: Option<Reach>,
}

/// A soft and a hard limit of getrlimit(2).
pub type Limit = (u64, u64);

/// The limits that the engine enforces itself, because the host's own memory is larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// RLIMIT_AS, in bytes.
    pub space: Limit,
    /// RLIMIT_DATA, in bytes.
    pub data: Limit,
}

impl Default for Limits {
    fn default() -> Self {
        const NONE: Limit = (libc::RLIM_INFINITY, libc::RLIM_INFINITY);
        Self {
            space: NONE,
            data: NONE,
        }
    }
}

impl Process {
    /// A process whose next thread will get index `next_thread`.
    #[must_use]
    pub fn new(index: u32, pid: u32, next_thread: u32, state: State) -> Self {
        Self {
            index,
            pid,
            next_thread: AtomicU32::new(next_thread),
            filters_set: AtomicU32::new(0),
            state: Mutex::new(state),
        }
    }

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
    pub fn set_filter(&self, filter: Arc<Filter>) {
        self.state().filter = Some(filter);
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

impl State {
    /// A fresh process: default actions.
    #[must_use]
    pub fn new(streams: Streams, exe: Vec<u8>, env: &[Vec<u8>]) -> Self {
        let environ = env
            .iter()
            .flat_map(|e| e.iter().copied().chain([0]))
            .collect();
        Self {
            actions: [KernelAction::default(); 65],
            streams,
            exe,
            environ,
            auxv: Vec::new(),
            robust: BTreeMap::new(),
            dumpable: 1,
            death_signal: 0,
            personality: 0,
            limits: Limits::default(),
            filter: None,
            reach: None,
        }
    }
}
