//! What the guest's descriptors lead to, asked once for each: asking costs a call or two, and
//! some things are asked of every read and every write.
//!
//! An answer holds until the descriptor is closed or replaced, which `kernel::fds` tells from
//! every call's row in the table. A vfork child has descriptors of its own beside the parent's
//! memory: it asks each time.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::task::Task;

/// Higher ones are asked for each time.
const KNOWN: usize = 1024;

const UNKNOWN: u8 = 0;
const KEPT: u8 = 1;
const MADE_UP: u8 = 2;
const OTHER: u8 = 3;
const MEMORY: u8 = 4;

static KINDS: [AtomicU8; KNOWN] = [const { AtomicU8::new(UNKNOWN) }; KNOWN];
/// Threads of this process have different descriptors.
static APART: AtomicBool = AtomicBool::new(false);

/// Whether what is read from a descriptor is kept: it leads to a regular file, and not to one
/// that the kernel makes up (`/proc`, `/sys`).
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
        // Elsewhere than in a recording threads run at the same time.
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
    let regular = |st: &libc::stat| st.st_mode & libc::S_IFMT == libc::S_IFREG;
    let Some(st) = crate::descriptor::status(fd) else {
        // Nothing is said of what comes to be there.
        return UNKNOWN;
    };
    if !regular(&st) {
        return OTHER;
    }
    // What the kernel makes up is on no device, whose number is 0 then.
    match libc::major(st.st_dev) == 0 && crate::descriptor::is_generated(fd) {
        true if crate::descriptor::owner(fd).is_some() => MEMORY,
        true => MADE_UP,
        false => KEPT,
    }
}

/// A descriptor is closed, or is a new one.
pub fn forget(fd: i32) {
    if let Some(known) = usize::try_from(fd).ok().and_then(|fd| KINDS.get(fd)) {
        known.store(UNKNOWN, Ordering::Relaxed);
    }
}

/// Many descriptors are closed; `apart`: of one thread only.
pub fn forget_many(apart: bool) {
    if apart {
        APART.store(true, Ordering::Relaxed);
    }
    for known in &KINDS {
        known.store(UNKNOWN, Ordering::Relaxed);
    }
}
