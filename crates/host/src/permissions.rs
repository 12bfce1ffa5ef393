//! The permissions of a guest thread to access memory, where memory is ordered by its lines: a table with a byte for each
//! line of 64 bytes, found by the low half of its address, so that lines which lie 4 GiB apart have one byte. (Heaps of
//! threads lie some 64 MiB apart, and are used alike.) Translated code looks into the table of its thread before each access (`relive_dbt`).
//!
//! A table is changed by its own thread, or by another one while that thread is at rest. Must never say of a line that
//! an access is permitted before the one that changes it has made sure that it is.

mod bits;
pub(crate) mod range;

use std::sync::atomic::{AtomicU8, Ordering};

pub use bits::{LINE, LINE_SHIFT, LINES, READ, READ_ON, SIZE, WHOLE, WRITE, WRITE_ON, WRITES};
pub use range::COPIES;

use crate::sys;

/// The index of the line that `addr` lies in.
#[must_use]
pub fn line_of(addr: u64) -> u32 {
    ((addr >> LINE_SHIFT) & (LINES - 1)) as u32
}

/// The indices of the lines that `len` bytes at `addr` lie in; each once.
pub fn lines_of(addr: u64, len: u64) -> impl Iterator<Item = u32> {
    let first = addr >> LINE_SHIFT;
    let last = addr.saturating_add(len.saturating_sub(1)) >> LINE_SHIFT;
    let count = (last - first + 1).min(LINES) * u64::from(len > 0);
    (first..first + count).map(|line| (line & (LINES - 1)) as u32)
}

/// A table. Nothing is permitted at first.
pub struct Permissions {
    at: u64,
}

impl Permissions {
    /// Makes one.
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn new() -> Result<Self, i32> {
        let at = sys::map_zeros(LINES, libc::MAP_NORESERVE)?;
        Ok(Self { at })
    }

    /// Where it lies: for [`crate::Context::permissions`].
    #[must_use]
    pub fn address(&self) -> u64 {
        self.at
    }

    fn entry(&self, line: u32) -> &AtomicU8 {
        let line = u64::from(line) & (LINES - 1);
        // SAFETY: one of the table's bytes, which is mapped as long as `self` lives; all access is atomic, but for the
        // one of translated code, which is a load of a byte.
        unsafe { &*((self.at + line) as *const AtomicU8) }
    }

    /// What is permitted: [`READ`] and [`WRITE`].
    #[must_use]
    pub fn get(&self, line: u32) -> u8 {
        self.entry(line).load(Ordering::Relaxed) & (READ | WRITE)
    }

    /// Whether a line may be read, or with `writes` written.
    #[must_use]
    pub fn permits(&self, line: u32, writes: bool) -> bool {
        let wanted = if writes { WRITE } else { READ };
        self.get(line) & wanted != 0
    }

    /// Whether anything is permitted of the lines of a block of so many, a power of two, in which this one lies.
    #[must_use]
    pub fn permits_some(&self, line: u32, size: u32) -> bool {
        let first = line & !(size - 1);
        (first..first + size).any(|line| self.get(line) != 0)
    }

    /// Permits this of a line, and nothing else: [`READ`], both or 0.
    pub fn set(&self, line: u32, permitted: u8) {
        let before = line.wrapping_sub(1);
        self.entry(line).store(permitted, Ordering::Relaxed);
        for line in [before, line] {
            let here = self.get(line);
            let both = here & self.get(line.wrapping_add(1));
            self.entry(line).store(here | both << 2, Ordering::Relaxed);
        }
    }

    /// Permits all of this many lines from one on.
    pub fn permit_all(&self, first: u32, count: u64) {
        const ALL: u8 = READ | WRITE | READ_ON | WRITE_ON;
        for line in (0..count.min(LINES)).map(|n| first.wrapping_add(n as u32)) {
            self.entry(line).store(ALL, Ordering::Relaxed);
        }
        // The borders.
        if count > 0 && count < LINES {
            let last = first.wrapping_add(count as u32 - 1);
            self.set(last, READ | WRITE);
            self.set(first, READ | WRITE);
        }
    }

    /// Permits nothing of this many lines from one on, which do not go around the end of the table.
    pub fn forbid_all(&self, first: u32, count: u64) {
        for line in (0..count).map(|n| first.wrapping_add(n as u32)) {
            self.entry(line).store(0, Ordering::Relaxed);
        }
        // The border.
        self.set(first, 0);
    }

    /// Permits nothing.
    pub fn clear(&self) {
        let args = [self.at, LINES, libc::MADV_DONTNEED as u64, 0, 0, 0];
        // SAFETY: the table's own anonymous memory, which reads as zeros afterwards.
        unsafe { sys::syscall(libc::SYS_madvise as u64, args) };
    }
}

impl Drop for Permissions {
    fn drop(&mut self) {
        // SAFETY: its own map, to which no context leads any more: who withdraws a thread sees to that.
        unsafe { sys::syscall(libc::SYS_munmap as u64, [self.at, LINES, 0, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_range_are_those_it_lies_in() {
        let all = |addr, len| lines_of(addr, len).collect::<Vec<_>>();
        assert_eq!(all(0x1000, 0), []);
        assert_eq!(all(0x1000, 64), [64]);
        assert_eq!(all(0x103f, 2), [64, 65]);
        let around = (LINES << LINE_SHIFT) - 1;
        assert_eq!(all(around, 2), [LINES as u32 - 1, 0]);
    }

    #[test]
    fn a_pair_of_lines_is_permitted_when_both_are() {
        let table = Permissions::new().expect("memory");
        let all = |line| table.entry(line).load(Ordering::Relaxed);
        table.set(5, READ | WRITE);
        assert_eq!([all(4), all(5), all(6)], [0, READ | WRITE, 0]);
        table.set(6, READ);
        assert_eq!([all(4), all(5), all(6)], [0, READ | WRITE | READ_ON, READ]);
        table.set(6, READ | WRITE);
        assert_eq!(all(5), READ | WRITE | READ_ON | WRITE_ON);
        table.set(5, 0);
        assert_eq!([all(4), all(5), all(6)], [0, 0, READ | WRITE]);
        table.permit_all(LINES as u32 - 2, 4);
        assert!(table.permits(1, true) && !table.permits(2, false));
        assert_eq!(all(1), READ | WRITE, "the next one is not");
        assert_eq!(all(0) & WRITE_ON, WRITE_ON);
        table.permit_all(8, 4);
        table.forbid_all(9, 2);
        assert_eq!(
            [all(8), all(9), all(10), all(11)],
            [READ | WRITE, 0, 0, READ | WRITE]
        );
        table.clear();
        assert_eq!(all(6), 0);
    }
}
