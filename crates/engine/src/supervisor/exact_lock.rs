//! The right to write the exact tapes of a sketch: of one process at a time, and until that process ends. Readers need
//! none: exact tapes count once their manifest says that they are complete. It must never be taken by a process that has it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use relive_trace::manifest_file;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

use crate::failure::{Failure, Result};

/// The right, until this is dropped.
pub struct ExactLock {
    // Closed on exec, so the hosts of a replay do not keep it.
    _held: File,
}

impl ExactLock {
    /// Takes it; `waits` is called if another process has it, which is waited for.
    ///
    /// # Errors
    /// The trace cannot be written, or its file system knows no locks (flock(2)).
    pub fn take(trace: &Path, waits: &mut dyn FnMut()) -> Result<Self> {
        let path = manifest_file(trace);
        let cannot = |e: std::io::Error| {
            Failure::setup(format!(
                "{} cannot be locked ({e}): the first replay of a recording of threads on all cores writes into it; make it \
                 writable, or replay a copy",
                path.display()
            ))
        };
        let mut options = OpenOptions::new();
        // A network file system has no exclusive lock on a file that is open for reading only.
        options
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW);
        let held = options.open(&path).map_err(cannot)?;
        match retry_on_intr(|| flock(&held, FlockOperation::NonBlockingLockExclusive)) {
            Err(Errno::WOULDBLOCK) => {
                waits();
                let taken = retry_on_intr(|| flock(&held, FlockOperation::LockExclusive));
                taken.map_err(|e| cannot(e.into()))?;
            }
            taken => taken.map_err(|e| cannot(e.into()))?,
        }
        Ok(Self { _held: held })
    }
}
