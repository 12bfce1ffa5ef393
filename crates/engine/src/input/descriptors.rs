//! The kind of file behind each of the guest's descriptors, asked once for each: asking costs a system
//! call or two, and every read and every write needs the kind.
//!
//! An answer holds until the descriptor is closed or replaced, which `kernel::fds` knows from
//! every call's row in the table. A vfork child has descriptors of its own beside the parent's
//! memory: it asks each time.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use rustix::fs::Stat;

use crate::task::Task;

/// Descriptors below this are remembered; the kernel is asked each time for higher ones.
const KNOWN: usize = 1024;

const UNKNOWN: u8 = 0;
const KEPT: u8 = 1;
const MADE_UP: u8 = 2;
const OTHER: u8 = 3;
const MEMORY: u8 = 4;

static KINDS: [AtomicU8; KNOWN] = [const { AtomicU8::new(UNKNOWN) }; KNOWN];
/// Threads of this process have different tables of descriptors, or another process has this one too.
static APART: AtomicBool = AtomicBool::new(false);

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
    let known = usize::try_from(fd).ok().and_then(|fd| KINDS.get(fd));
    let holds = || {
        // Where threads run at the same time, another thread may replace the descriptor.
        !task.traits().together && task.vforked.is_none() && !APART.load(Ordering::Relaxed)
    };
    match known.filter(|_| holds()) {
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

/// Forgets a descriptor that is closed, or is a new one.
pub fn forget(fd: i32) {
    if let Some(known) = usize::try_from(fd).ok().and_then(|fd| KINDS.get(fd)) {
        known.store(UNKNOWN, Ordering::Relaxed);
    }
}

/// Forgets all descriptors, as many are closed; `apart`: from now on a thread has a table of its own, or
/// another process changes this one, so that nothing is remembered any more.
pub fn forget_many(apart: bool) {
    if apart {
        APART.store(true, Ordering::Relaxed);
    }
    for known in &KINDS {
        known.store(UNKNOWN, Ordering::Relaxed);
    }
}
