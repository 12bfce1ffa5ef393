//! The hashed branch table: for indirect branches out of the low window, where [`crate::table`] has
//! no slots (just-in-time compilers put their code there).
//!
//! A branch stores its target in the context, hashes it without touching flags, and jumps through
//! one of 65 536 slots. A slot belongs to the target set last, and each landing compares the target
//! with its own address. Jumps and returns have a table each. The tables are mapped when the first
//! such branch is translated: most programs have none.

use std::sync::atomic::{AtomicU64, Ordering};

use relive_host::{sys, window};

use crate::cache_window::{HASHED, HASHED_BYTES, HASHED_MISS, HASHED_SLOTS};
use crate::forced::Forced;
use crate::stop::Error;

/// Address of the table for jumps and calls, or of that for returns.
pub(crate) fn base(is_return: bool) -> u64 {
    HASHED + u64::from(is_return) * HASHED_SLOTS * 8
}

/// Both tables' memory.
pub(crate) struct Hashed {
    mapped: bool,
    forced: Forced,
}

impl Hashed {
    /// No tables yet.
    pub(crate) fn new(forced: Forced) -> Self {
        Self {
            mapped: false,
            forced,
        }
    }

    /// Whether the tables are there.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// Maps the tables if they are not there yet.
    pub(crate) fn need(&mut self) -> Result<(), Error> {
        if self.mapped {
            return Ok(());
        }
        self.map()?;
        self.mapped = true;
        Ok(())
    }

    /// Gives every slot its default value. No thread may be in the cache.
    ///
    /// # Errors
    /// The kernel refuses memory.
    pub(crate) fn clear(&mut self) -> Result<(), Error> {
        if self.mapped { self.map() } else { Ok(()) }
    }

    /// Maps both tables, writable until they are filled.
    fn map(&self) -> Result<(), Error> {
        let what = "mapping the hashed branch table";
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let args = [HASHED, HASHED_BYTES, prot as u64, flags as u64, u64::MAX, 0];
        // SAFETY: the range belongs to these tables, reserved for this mapping alone.
        let ret = unsafe { sys::syscall(libc::SYS_mmap as u64, args) };
        Error::check(what, ret)?;
        for is_return in [false, true] {
            let miss = HASHED_MISS[usize::from(is_return)];
            (0..HASHED_SLOTS).for_each(|i| slot(is_return, i).store(miss, Ordering::Relaxed));
        }
        let args = [HASHED, HASHED_BYTES, libc::PROT_READ as u64, 0, 0, 0];
        // SAFETY: as above.
        let ret = unsafe { sys::syscall(libc::SYS_mprotect as u64, args) };
        Error::check(what, ret).map(drop)
    }

    /// Makes branches to `target` go to `landing`.
    pub(crate) fn set(&mut self, is_return: bool, target: u64, landing: u64) {
        assert!(self.mapped, "there is no hashed table");
        self.store(is_return, hash(target), landing);
    }

    /// Resets the slot of `target` if it leads to `landing`.
    pub(crate) fn unset(&mut self, is_return: bool, target: u64, landing: u64) {
        if self.mapped {
            let index = hash(target);
            if slot(is_return, index).load(Ordering::Relaxed) == landing {
                self.store(is_return, index, HASHED_MISS[usize::from(is_return)]);
            }
        }
    }

    fn store(&self, is_return: bool, index: u64, landing: u64) {
        let at = slot(is_return, index).as_ptr() as u64;
        // SAFETY: a slot of a table that is mapped; others only ever read it.
        unsafe { self.forced.write(at, &landing.to_le_bytes()) };
    }
}

/// A slot of a table that is mapped.
fn slot(is_return: bool, index: u64) -> &'static AtomicU64 {
    assert!(index < HASHED_SLOTS, "no slot {index}");
    let at = base(is_return) + 8 * index;
    // SAFETY: callers have made sure that the tables are mapped, and they are released only
    // with the translator; slots are accessed atomically (by emitted code as whole loads).
    unsafe { &*(at as *const AtomicU64) }
}

/// The hash that emitted code computes: the lower 16 bits of the CRC-32C.
fn hash(target: u64) -> u64 {
    let crc: u64;
    // SAFETY: SSE4.2 is older than FSGSBASE, without which no guest starts.
    unsafe {
        std::arch::asm!("crc32 {crc}, {target}", crc = inout(reg) 0_u64 => crc,
            target = in(reg) target, options(pure, nomem, nostack, preserves_flags));
    }
    crc & (HASHED_SLOTS - 1)
}

impl Drop for Hashed {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: the tables are ours; no thread runs in the cache any more.
            unsafe { window::release(HASHED, HASHED_BYTES) };
        }
    }
}
