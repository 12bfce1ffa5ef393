//! The last writer of each line that is only read now. Must never be asked for a line that is written: its holder is
//! the writer.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_host::permissions::LINES;
use relive_host::sys;

use super::blocks::LARGEST;
use super::line_holder::Mark;

/// Bits of a mark in a word.
const MARK_BITS: u32 = 40;
const BYTES: u64 = LINES * 8;

/// A word for each line: the thread's index plus 1, and its mark; 0: nobody.
pub struct Writers {
    at: u64,
    /// A bit for each page of which some line has one.
    pages: Vec<u64>,
}

/// Pages that one word of bits is about.
const PAGES: usize = u64::BITS as usize;

impl Writers {
    /// Nobody has written anything.
    ///
    /// # Errors
    /// The kernel's error number: no memory.
    pub fn new() -> Result<Self, i32> {
        let at = sys::map_zeros(BYTES, libc::MAP_NORESERVE)?;
        Ok(Self {
            at,
            pages: vec![0; LINES as usize / LARGEST / PAGES],
        })
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

    /// Those of the lines of whole pages.
    pub fn each_of(&self, lines: Range<u32>, mut each: impl FnMut(u32, Mark)) {
        let mut page = lines.start as usize / LARGEST;
        let end = lines.end as usize / LARGEST;
        while page < end {
            let left = self.pages[page / PAGES] >> (page % PAGES);
            if left == 0 {
                page = (page | (PAGES - 1)) + 1;
                continue;
            }
            page += left.trailing_zeros() as usize;
            if page < end {
                let first = (page * LARGEST) as u32;
                for (thread, mark) in (first..).take(LARGEST).filter_map(|line| self.get(line)) {
                    each(thread, mark);
                }
            }
            page += 1;
        }
    }

    /// A thread has written it up to its mark.
    pub fn set(&mut self, line: u32, thread: u32, mark: Mark) {
        assert!(mark >> MARK_BITS == 0 && thread < 1 << 23, "mark {mark}");
        let word = u64::from(thread + 1) << MARK_BITS | mark;
        self.word(line).store(word, Ordering::Relaxed);
        let page = line as usize / LARGEST;
        self.pages[page / PAGES] |= 1 << (page % PAGES);
    }

    /// Nobody has written anything.
    pub fn forget(&mut self) {
        self.pages.fill(0);
        let args = [self.at, BYTES, libc::MADV_DONTNEED as u64, 0, 0, 0];
        // SAFETY: its own anonymous memory, which reads as zeros afterwards.
        unsafe { sys::syscall(libc::SYS_madvise as u64, args) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_of_pages_are_those_of_their_lines() {
        let mut writers = Writers::new().expect("memory");
        let page = LARGEST as u32;
        let all = |writers: &Writers, pages: Range<u32>| {
            let mut all = Vec::new();
            writers.each_of(pages.start * page..pages.end * page, |thread, mark| {
                all.push((thread, mark));
            });
            all
        };
        assert_eq!(all(&writers, 0..1000), []);
        for (at, line) in [3 * page, 4 * page - 1, 64 * page, 700 * page + 5]
            .into_iter()
            .enumerate()
        {
            writers.set(line, at as u32, 9);
        }
        assert_eq!(all(&writers, 0..1000), [(0, 9), (1, 9), (2, 9), (3, 9)]);
        assert_eq!(all(&writers, 4..700), [(2, 9)]);
        assert_eq!(all(&writers, 4..64), []);
        assert_eq!(all(&writers, 700..701), [(3, 9)]);
        writers.forget();
        assert_eq!(all(&writers, 0..1000), []);
    }
}
