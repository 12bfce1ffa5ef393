//! The tracker: the function of the process that is told of accesses. It must never touch their memory, as
//! they may fault.

use std::cell::UnsafeCell;

use super::access::Span;
use crate::context::Context;
use crate::layout::{TRACK_FILTER, TRACK_FILTER_BYTES};
use crate::sys;

/// Is told of accesses: the context, the bytes, [`super::Tracked::word`].
pub type Tracker = fn(&mut Context, Span, u64);

/// The tracker of the process.
pub(super) struct Installed(pub(super) UnsafeCell<Option<Tracker>>);

// SAFETY: it is only accessed by the one thread of a process that tracks.
unsafe impl Sync for Installed {}

/// The installed tracker. Process-wide: a routine that translated code calls gets no argument for it.
pub(super) static TRACKER: Installed = Installed(UnsafeCell::new(None));

/// Makes the filter of this process, and has `tracker` told of all accesses that are not in it.
///
/// # Errors
/// The kernel's error number.
///
/// # Safety
/// The process has one host thread, for as long as it runs guest code.
pub unsafe fn install(tracker: Tracker) -> Result<(), i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let args = [
        TRACK_FILTER,
        TRACK_FILTER_BYTES,
        prot as u64,
        flags as u64,
        u64::MAX,
        0,
    ];
    // SAFETY: the range is reserved for this mapping alone.
    let got = unsafe { sys::syscall(libc::SYS_mmap as u64, args) };
    if got < 0 {
        return Err(-got as i32);
    }
    // SAFETY: one thread, as the caller vouches, and it is not in the routine.
    unsafe { *TRACKER.0.get() = Some(tracker) };
    Ok(())
}
