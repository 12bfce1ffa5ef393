//! The files that a host process can no longer open once its program has become another user, has given
//! up capabilities, or has another root: the shared memory, the trace's copies of files, its own
//! executable, `/proc`. Before the first call that may have such an effect it opens them, and keeps the
//! descriptors from then on, through fork and exec. Other programs have no such descriptors.

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
    /// The supervisor's `/proc`; −1 where there is none.
    pub proc: RawFd,
    /// Paths may lead elsewhere than when the recording began.
    pub paths_changed: bool,
    /// The process, or its children, may have other ids than the supervisor knows.
    pub other_ids: bool,
}

/// Those of this address space. Process-wide: descriptors are the process's; start data, traces and exec
/// ask before and behind the machine.
static HERE: OnceLock<RetainedFds> = OnceLock::new();

impl RetainedFds {
    /// The descriptors, which the guest must not close.
    pub fn descriptors(self) -> impl Iterator<Item = RawFd> {
        [self.memory, self.copies, self.proc]
            .into_iter()
            .filter(|&fd| fd >= 0)
    }

    /// The shared memory, where there is some.
    ///
    /// # Errors
    /// The descriptor leads to another file.
    pub fn shared_memory(self) -> Result<Option<Shm>> {
        if self.memory < 0 {
            return Ok(None);
        }
        // SAFETY: a descriptor of ours, which is never closed while the process lives.
        let memory = unsafe { BorrowedFd::borrow_raw(self.memory) };
        Shm::inherited(&memory).map(Some)
    }

    /// Sets whether they outlive the next exec, which is the host's own.
    pub fn inherit(self, on: bool) {
        let flags = match on {
            true => FdFlags::empty(),
            false => FdFlags::CLOEXEC,
        };
        for fd in self.descriptors() {
            // SAFETY: a descriptor of ours, which is never closed while the process lives.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            // Fails only if it is not open: then there is nothing to inherit.
            let _ = fcntl_setfd(fd, flags);
        }
    }

    /// Takes over the old program's descriptors, in the new program's host.
    pub fn adopt(self) {
        self.inherit(false);
        self.keep();
    }

    /// Makes them those of this address space from now on.
    pub fn keep(self) {
        if self.other_ids {
            crate::ids::differ(self.proc);
        }
        let _ = HERE.set(self);
    }
}

/// The folder of copies of the recording in `trace`, by its path or by the retained descriptor.
pub fn store(trace: &Path) -> FileStore {
    let store = FileStore::new(trace);
    match HERE.get().filter(|fds| fds.copies >= 0) {
        // SAFETY: the descriptor is never closed while the process lives.
        Some(fds) => store.within(unsafe { BorrowedFd::borrow_raw(fds.copies) }),
        None => store,
    }
}

/// Whether paths may lead elsewhere than when the recording began, or the files there may not be
/// accessible any more: files kept from recording to recording are not used then.
#[must_use]
pub fn is_changed() -> bool {
    HERE.get().is_some()
}

/// Makes a new copy readable to all users, if processes of the tree may be other users'.
pub fn added(store: &FileStore, id: FileId) {
    let shown = crate::shm::shared().is_some_and(|s| s.header().users.load(Ordering::SeqCst) != 0);
    if shown {
        store.show(id);
    }
}
