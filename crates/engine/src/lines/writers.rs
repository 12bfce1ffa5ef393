//! The last writer of each line that is only read now. Must never be asked for a line that is written: its holder is
//! the writer.

use std::sync::atomic::{AtomicU64, Ordering};

use relive_host::permissions::LINES;
use relive_host::sys;

use super::line_holder::Mark;

/// Bits of a mark in a word.
const MARK_BITS: u32 = 40;
const BYTES: u64 = LINES * 8;

/// A word for each line: the thread's index plus 1, and its mark; 0: nobody.
pub struct Writers {
    at: u64,
}

impl Writers {
    /// Nobody has written anything.
    ///
    /// # Errors
    /// The kernel's error number: no memory.
    pub fn new() -> Result<Self, i32> {
        let at = sys::map_zeros(BYTES, libc::MAP_NORESERVE)?;
        Ok(Self { at })
    }

    fn word(&self, line: u32) -> &AtomicU64 {
        assert!(u64::from(line) < LINES, "line {line}");
        // SAFETY: within the map, and zeros are a value.
        unsafe { &*((self.at + 8 * u64::from(line)) as *const AtomicU64) }
    }

    /// The thread that has written a line, and the mark behind which others read it.
    pub fn get(&self, line: u32) -> Option<(u32, Mark)> {
        let word = self.word(line).load(Ordering::Relaxed);
        let thread = (word >> MARK_BITS) as u32;
        Some((thread.checked_sub(1)?, word & ((1 << MARK_BITS) - 1)))
    }

    /// A thread has written it up to its mark.
    pub fn set(&self, line: u32, thread: u32, mark: Mark) {
        assert!(mark >> MARK_BITS == 0 && thread < 1 << 23, "mark {mark}");
        let word = u64::from(thread + 1) << MARK_BITS | mark;
        self.word(line).store(word, Ordering::Relaxed);
    }

    /// Nobody has written anything.
    pub fn forget(&self) {
        let args = [self.at, BYTES, libc::MADV_DONTNEED as u64, 0, 0, 0];
        // SAFETY: its own anonymous memory, which reads as zeros afterwards.
        unsafe { sys::syscall(libc::SYS_madvise as u64, args) };
    }
}
