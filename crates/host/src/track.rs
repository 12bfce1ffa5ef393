//! Tracked accesses: translated code tells the host of the memory that it is about to access, for
//! instance to find data races. A process that tracks runs all guest threads on one host thread.
//!
//! In front of a tracked access the emitted code looks into a *filter*: a table of the accesses that
//! the host has seen last, one for reads and one for writes. An entry is a *key*: the address and the
//! number of the *era*, which the host changes whenever it wants to be told
//! of everything again. Only an access without its key in the filter calls the [`routine`], which
//! knows by its [`lines`] most of those that were made in an earlier era, and calls the host's
//! *tracker* for the rest.
//!
//! The access has not been made yet and may fault: a tracker must never touch its memory.

pub(crate) mod access;
pub mod lines;
pub(crate) mod routine;

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, Ordering};

pub use access::Tracked;
use access::{TRACK_SIZES, size_class};
use lines::Now;
pub use routine::call;

use crate::context::Context;
use crate::layout::{TRACK_FILTER, TRACK_FILTER_BYTES};
use crate::sys;

/// Entries of the filter that an address can have, for reads and for writes each.
pub const ENTRIES: u64 = 1 << 16;
/// So many entries behind those of one class of size are those of the next one, so that an address
/// has another one in each.
const NEXT_CLASS: u64 = 72;
/// All entries for reads, or for writes.
const TABLE: u64 = TRACK_FILTER_BYTES / 2 / 8;
const _: () = assert!(ENTRIES + (TRACK_SIZES as u64 - 1) * NEXT_CLASS <= TABLE);
/// Addresses that differ from here on have different entries.
pub const ENTRY_SHIFT: u32 = 2;
/// Where the era begins in a key.
const ERA_SHIFT: u32 = 47;
/// Eras before the filter is emptied.
const ERAS: u64 = 1 << (64 - ERA_SHIFT);

/// The filter's first entry of accesses of this size, reads or writes.
#[must_use]
pub const fn table(size: u64, writes: bool) -> u64 {
    let first = writes as u64 * TABLE + size_class(size) as u64 * NEXT_CLASS;
    TRACK_FILTER + 8 * first
}

/// The entry of an access.
fn entry(addr: u64, size: u64, writes: bool) -> u64 {
    table(size, writes) + 8 * ((addr >> ENTRY_SHIFT) % ENTRIES)
}

/// Is told of accesses: the context, the address, [`Tracked::word`].
pub type Tracker = extern "C" fn(&mut Context, u64, u64);

/// The tracker of the process.
struct Installed(UnsafeCell<Option<Tracker>>);

// SAFETY: it is only accessed by the one thread of a process that tracks.
unsafe impl Sync for Installed {}

/// The installed tracker. Process-wide: a routine that translated code calls gets no argument for it.
static TRACKER: Installed = Installed(UnsafeCell::new(None));

/// The state that the routine works with, or null.
static NOW: AtomicPtr<Now> = AtomicPtr::new(std::ptr::null_mut());

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

/// From now on the routine looks into the lines of this state before it calls the tracker.
///
/// # Safety
/// It stays there and is used by this thread alone, until another one is followed.
pub unsafe fn follow(now: *mut Now) {
    NOW.store(now, Ordering::Relaxed);
}

/// The number of an era: keys of another one are not in the filter.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Era(u64);

impl Era {
    /// The next one, of which nothing is in the filter.
    #[must_use]
    pub fn next(self) -> Self {
        let next = self.0 + 1;
        if next < ERAS {
            return Self(next);
        }
        // SAFETY: an era is only counted where the filter is installed; all zeros is empty.
        unsafe {
            std::ptr::write_bytes(TRACK_FILTER as *mut u8, 0, TRACK_FILTER_BYTES as usize);
        }
        Self(1)
    }

    fn key(self) -> u64 {
        self.0 << ERA_SHIFT
    }

    /// Puts an access into the filter: it is not told again in this era, until another one takes its
    /// entry.
    pub fn seen(self, addr: u64, size: u64, writes: bool) {
        let at = entry(addr, size, writes) as *mut u64;
        // SAFETY: an entry of the filter, which is installed where there are eras.
        unsafe { *at = addr ^ self.key() };
    }
}

impl Context {
    /// From now on the accesses of this thread are of this era.
    pub fn begin_era(&mut self, era: Era) {
        self.track_key = era.key();
    }

    /// A mask register of the guest, for a tracker.
    #[must_use]
    pub fn tracked_mask(&self, number: u8) -> u64 {
        self.masks[usize::from(number)]
    }

    /// The guest's rcx, for a tracker: the context's own registers are not the guest's then.
    #[must_use]
    pub fn tracked_rcx(&self) -> u64 {
        self.spill_rcx
    }
}
