//! The kind of file behind each of the guest's descriptors, asked once for each: asking costs a system
//! call or two, and every read and every write needs the kind.
//!
//! An answer holds until the descriptor is closed or replaced, which `kernel::fds` knows from
//! every call's row in the table. A vfork child has descriptors of its own beside the parent's
//! memory: it asks each time.

use std::sync::atomic::Ordering;

use rustix::fs::Stat;

use crate::descriptor_kinds::UNKNOWN;
use crate::task::Task;

const KEPT: u8 = 1;
const MADE_UP: u8 = 2;
const OTHER: u8 = 3;
const MEMORY: u8 = 4;

/// Whether bytes read from a descriptor are kept: it leads to a regular file that the kernel does not
/// generate (as in `/proc`, `/sys`).
pub(super) fn is_kept(task: &Task, fd: i32) -> bool {
    kind(task, fd) == KEPT
}

/// Whether a descriptor leads to a regular file.
#[must_use]
pub fn is_regular(task: &Task, fd: i32) -> bool {
    matches!(kind(task, fd), KEPT | MADE_UP | MEMORY)
}

/// Whether a descriptor leads to the memory of a process.
#[must_use]
pub fn is_memory(task: &Task, fd: i32) -> bool {
    kind(task, fd) == MEMORY
}

fn kind(task: &Task, fd: i32) -> u8 {
    let kinds = &task.machine().descriptor_kinds;
    let holds = || {
        // Where threads run at the same time, another thread may replace the descriptor.
        !task.traits().together && task.vforked.is_none() && !kinds.are_apart()
    };
    match kinds.of(fd).filter(|_| holds()) {
        None => ask(fd),
        Some(known) => match known.load(Ordering::Relaxed) {
            UNKNOWN => {
                let kind = ask(fd);
                known.store(kind, Ordering::Relaxed);
                kind
            }
            kind => kind,
        },
    }
}

fn ask(fd: i32) -> u8 {
    let regular = |st: &Stat| st.st_mode & libc::S_IFMT == libc::S_IFREG;
    let Some(st) = crate::descriptor::status(fd) else {
        // Not open: the next file at this number may be of any kind.
        return UNKNOWN;
    };
    if !regular(&st) {
        return OTHER;
    }
    // A generated file is on no device; the major number is 0 then.
    match libc::major(st.st_dev) == 0 && crate::descriptor::is_generated(fd) {
        true if crate::descriptor::owner(fd).is_some() => MEMORY,
        true => MADE_UP,
        false => KEPT,
    }
}
