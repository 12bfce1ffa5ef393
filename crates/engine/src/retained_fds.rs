//! What a host process can no longer come to once its program has become another user, has given
//! up capabilities, or has another root: the shared memory, the trace's copies of files, its own
//! executable. Before the first call that may have such an effect it opens them, and keeps the
//! descriptors from then on, through fork and exec. Other programs have none of this.

use std::os::fd::{BorrowedFd, RawFd};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use relive_trace::{FileId, FileStore};
use rustix::io::{FdFlags, fcntl_setfd};
use serde::{Deserialize, Serialize};

use crate::failure::Result;
use crate::shm::Shm;

/// The descriptors. A vfork child's are in its own table alone, so each process keeps them in its
/// state, and those of this address space are [`HERE`] too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetainedFds {
    /// The shared memory; −1 where there is none.
    pub memory: RawFd,
    /// The folder of copies; −1 where nothing is recorded.
    pub copies: RawFd,
    /// Paths may lead elsewhere than when the recording began.
    pub paths_changed: bool,
}

static HERE: OnceLock<RetainedFds> = OnceLock::new();

impl RetainedFds {
    /// The descriptors, for the guest not to close.
    pub fn descriptors(self) -> impl Iterator<Item = RawFd> {
        [self.memory, self.copies].into_iter().filter(|&fd| fd >= 0)
    }

    /// The shared memory, where there is some.
    ///
    /// # Errors
    /// It is something else.
    pub fn shared_memory(self) -> Result<Option<Shm>> {
        if self.memory < 0 {
            return Ok(None);
        }
        // SAFETY: a descriptor of ours, which is never closed while the process lives.
        let memory = unsafe { BorrowedFd::borrow_raw(self.memory) };
        Shm::inherited(&memory).map(Some)
    }

    /// Whether they outlive the next exec, which is the host's own.
    pub fn inherit(self, on: bool) {
        let flags = match on {
            true => FdFlags::empty(),
            false => FdFlags::CLOEXEC,
        };
        for fd in self.descriptors() {
            // SAFETY: a descriptor of ours, which is never closed while the process lives.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            // Refused only if it is not open: then there is nothing to inherit.
            let _ = fcntl_setfd(fd, flags);
        }
    }

    /// A new program's host takes over what the old one has kept.
    pub fn adopt(self) {
        self.inherit(false);
        self.keep();
    }

    /// They are those of this address space from now on.
    pub fn keep(self) {
        let _ = HERE.set(self);
    }
}

/// The folder of copies of the recording in `trace`, however this process comes to it.
pub fn store(trace: &Path) -> FileStore {
    let store = FileStore::new(trace);
    match HERE.get().filter(|fds| fds.copies >= 0) {
        // SAFETY: the descriptor is never closed while the process lives.
        Some(fds) => store.within(unsafe { BorrowedFd::borrow_raw(fds.copies) }),
        None => store,
    }
}

/// Whether paths, and what lies there, may not be what they were when the recording began: what
/// is kept from recording to recording is left alone then.
#[must_use]
pub fn is_changed() -> bool {
    HERE.get().is_some()
}

/// A copy is there: others may have to read it.
pub fn added(store: &FileStore, id: FileId) {
    let shown = crate::shm::shared().is_some_and(|s| s.header().users.load(Ordering::SeqCst) != 0);
    if shown {
        store.show(id);
    }
}
