//! The filter: a table of the accesses that the host has seen last, one for reads and one for writes. It
//! must never hold an access that the host wants to be told of.

use super::access::{TRACK_SIZES, size_class};
use crate::context::Context;
use crate::layout::{TRACK_FILTER, TRACK_FILTER_BYTES};

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
pub(super) const ERA_SHIFT: u32 = 47;
/// Eras before the filter is emptied.
pub(super) const ERAS: u64 = 1 << (64 - ERA_SHIFT);

/// The filter's first entry of accesses of this size, reads or writes.
#[must_use]
pub const fn table(size: u64, writes: bool) -> u64 {
    let first = writes as u64 * TABLE + size_class(size) as u64 * NEXT_CLASS;
    TRACK_FILTER + 8 * first
}

/// The entry of an access.
pub(super) fn entry(addr: u64, size: u64, writes: bool) -> u64 {
    table(size, writes) + 8 * ((addr >> ENTRY_SHIFT) % ENTRIES)
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
}
