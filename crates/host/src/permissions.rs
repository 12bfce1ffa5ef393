//! The permissions of a guest thread to access memory, where memory is ordered by its lines: a table with a byte for each
//! line of 64 bytes, found by the low half of its address, so that lines which lie 4 GiB apart have one byte. (Heaps of
//! threads lie some 64 MiB apart, and are used alike.) Translated code looks into the table of its thread before each access (`relive_dbt`).
//!
//! A table is changed by its own thread, or by another one while that thread is at rest. Must never say of a line that
//! an access is permitted before the one that changes it has made sure that it is.

mod bits;
pub(crate) mod range;

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

pub use bits::{LINE, LINE_SHIFT, LINES, READ, READ_ON, SIZE, WHOLE, WRITE, WRITE_ON, WRITES};
pub use range::COPIES;

use crate::sys;

/// A word with this in each of its bytes.
const EACH: u64 = u64::from_ne_bytes([1; 8]);
/// What is permitted, in each of them.
const BOTH: u64 = EACH * (READ | WRITE) as u64;

/// The index of the line that `addr` lies in.
#[must_use]
pub fn line_of(addr: u64) -> u32 {
    ((addr >> LINE_SHIFT) & (LINES - 1)) as u32
}

/// The indices of the lines that `len` bytes at `addr` lie in, each once: up to the end of the table, and from its beginning on.
pub fn line_ranges_of(addr: u64, len: u64) -> impl Iterator<Item = Range<u32>> {
    let first = addr >> LINE_SHIFT;
    let last = addr.saturating_add(len.saturating_sub(1)) >> LINE_SHIFT;
    let count = (last - first + 1).min(LINES) * u64::from(len > 0);
    let first = first & (LINES - 1);
    let end = first + count;
    let ranges = [(first, end.min(LINES)), (0, end.saturating_sub(LINES))];
    let ranges = ranges.map(|(first, end)| first as u32..end as u32);
    ranges.into_iter().filter(|range| !range.is_empty())
}

/// The same, line by line.
pub fn lines_of(addr: u64, len: u64) -> impl Iterator<Item = u32> {
    line_ranges_of(addr, len).flatten()
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

    /// The entries of eight lines from a multiple of eight on.
    fn eight(&self, line: u32) -> &AtomicU64 {
        let line = u64::from(line) & (LINES - 1) & !7;
        // SAFETY: as for one of them; the table begins with a page, so the word is aligned.
        unsafe { &*((self.at + line) as *const AtomicU64) }
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
        self.first_permitted(first..first + size).is_some()
    }

    /// The first line among these of which anything is permitted.
    #[must_use]
    pub fn first_permitted(&self, lines: Range<u32>) -> Option<u32> {
        self.first_where(lines, |entries| entries & BOTH == 0, |entry| entry != 0)
    }

    /// The first line among these that may not be read, or with `writes` not be written.
    #[must_use]
    pub fn first_not_permitted(&self, lines: Range<u32>, writes: bool) -> Option<u32> {
        let wanted = if writes { WRITE } else { READ };
        let eight = EACH * u64::from(wanted);
        self.first_where(
            lines,
            |entries| entries & eight == eight,
            |entry| entry & wanted == 0,
        )
    }

    /// The first line among these that `is_it`; `has_none` says of the entries of eight that none of them is.
    fn first_where(
        &self,
        lines: Range<u32>,
        has_none: impl Fn(u64) -> bool,
        is_it: impl Fn(u8) -> bool,
    ) -> Option<u32> {
        let mut line = lines.start;
        while line < lines.end {
            let is_aligned = line.is_multiple_of(8);
            if is_aligned && has_none(self.eight(line).load(Ordering::Relaxed)) {
                line += 8;
                continue;
            }
            if is_it(self.get(line)) {
                return Some(line);
            }
            line += 1;
        }
        None
    }

    /// Gives all of these lines one entry.
    fn fill(&self, lines: Range<u32>, entry: u8) {
        let mut line = lines.start;
        while line < lines.end {
            if line.is_multiple_of(8) && line + 8 <= lines.end {
                let eight = EACH * u64::from(entry);
                self.eight(line).store(eight, Ordering::Relaxed);
                line += 8;
            } else {
                self.entry(line).store(entry, Ordering::Relaxed);
                line += 1;
            }
        }
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
        let end = u64::from(first) + count.min(LINES);
        self.fill(first..end.min(LINES) as u32, ALL);
        self.fill(0..end.saturating_sub(LINES) as u32, ALL);
        // The borders.
        if count > 0 && count < LINES {
            let last = first.wrapping_add(count as u32 - 1);
            self.set(last, READ | WRITE);
            self.set(first, READ | WRITE);
        }
    }

    /// Permits nothing of this many lines from one on, which do not go around the end of the table.
    pub fn forbid_all(&self, first: u32, count: u64) {
        self.fill(first..first + count as u32, 0);
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
    fn lines_are_found_among_many() {
        let table = Permissions::new().expect("memory");
        let lines = 3..4000;
        assert_eq!(table.first_permitted(lines.clone()), None);
        assert_eq!(table.first_not_permitted(lines.clone(), false), Some(3));
        table.set(2, READ | WRITE);
        table.set(4000, READ);
        assert_eq!(table.first_permitted(lines.clone()), None);
        for line in [3999, 1000, 17, 16, 8, 7, 3] {
            table.set(line, READ);
            assert_eq!(table.first_permitted(lines.clone()), Some(line));
        }
        table.permit_all(3, 3997);
        assert_eq!(table.first_not_permitted(lines.clone(), true), None);
        assert!(table.permits(3999, true) && !table.permits(4000, true));
        for line in [3999, 1000, 24, 8, 7, 3] {
            table.set(line, READ);
            assert_eq!(table.first_not_permitted(lines.clone(), true), Some(line));
            assert_eq!(table.first_not_permitted(lines.clone(), false), None);
        }
        table.forbid_all(3, 3997);
        assert_eq!(table.first_permitted(lines), None);
        assert!(table.permits(2, true) && table.permits(4000, false));
        assert_eq!(table.entry(2).load(Ordering::Relaxed), READ | WRITE);
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
