//! Accesses and synchronisation, as the detector is told of them: plain data.

/// Something that threads synchronise by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SyncObject {
    /// The word at this address.
    Word(u64),
    /// A pipe, or something else behind a descriptor.
    File(u64),
    /// Terminals, the ends of which have names of their own.
    Terminals,
    /// What descriptors lead to that the process was born with, or was sent.
    Unknown,
    /// Signals that threads send each other.
    Signals,
    /// Sockets of which the other end is not known.
    Sockets,
    /// Readiness of descriptors.
    Readiness,
    /// Files that are watched: any call may be what the watcher is told of.
    Watched,
    /// Semaphores, message queues and locks of files.
    Ipc,
}

/// The way in which a thread uses an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It learns of all that others had done when they released it.
    Acquire,
    /// Others that acquire it learn of all that the thread has done.
    Release,
    Both,
}

/// Where the running thread is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TouchPosition {
    pub tick: u64,
    pub event: u64,
}

/// An access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    pub pc: u64,
    pub addr: u64,
    pub size: u64,
    pub writes: bool,
    pub atomic: bool,
    /// The system call that wrote.
    pub call: Option<u32>,
}

impl Touch {
    /// Whether the routine can know accesses like this one.
    pub fn has_line(&self) -> bool {
        matches!(self.size, 1 | 2 | 4 | 8) && self.call.is_none()
    }
}

/// The outcome of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchOutcome {
    /// Nothing new will come of it before the thread's next release or turn.
    Known,
    /// It synchronised, with a release: the thread's time has gone on.
    Released,
    /// It synchronised.
    Acquired,
}
