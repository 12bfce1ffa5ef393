//! Which descriptors lead to files whose content is kept: asked once for each, because that
//! costs two calls. An answer that is out of date chooses badly and does no harm.

use std::sync::atomic::{AtomicU8, Ordering};

/// Higher ones are asked for each time.
const KNOWN: usize = 1024;

const UNKNOWN: u8 = 0;
const KEPT: u8 = 1;
const OTHER: u8 = 2;

static KINDS: [AtomicU8; KNOWN] = [const { AtomicU8::new(UNKNOWN) }; KNOWN];

/// Whether what is read from a descriptor is kept: it leads to a regular file, and not to one
/// that the kernel makes up (`/proc`, `/sys`).
pub(super) fn is_kept(fd: i32) -> bool {
    let Some(known) = usize::try_from(fd).ok().and_then(|fd| KINDS.get(fd)) else {
        return ask(fd);
    };
    match known.load(Ordering::Relaxed) {
        UNKNOWN => {
            let kept = ask(fd);
            known.store(if kept { KEPT } else { OTHER }, Ordering::Relaxed);
            kept
        }
        kind => kind == KEPT,
    }
}

fn ask(fd: i32) -> bool {
    // What the kernel makes up is on no device, whose number is 0 then.
    // SAFETY: for plain integers all-zero bytes are a value, and both calls only fill them.
    unsafe {
        let mut st: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &raw mut st) == 0
            && st.st_mode & libc::S_IFMT == libc::S_IFREG
            && !(libc::major(st.st_dev) == 0 && crate::kernel::is_generated(fd))
    }
}

/// A descriptor is closed, or is a new one.
pub fn forget(fd: i32) {
    if let Some(known) = usize::try_from(fd).ok().and_then(|fd| KINDS.get(fd)) {
        known.store(UNKNOWN, Ordering::Relaxed);
    }
}

/// Many descriptors are closed.
pub fn forget_all() {
    for known in &KINDS {
        known.store(UNKNOWN, Ordering::Relaxed);
    }
}
