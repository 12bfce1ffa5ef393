//! Which threads may have lines of a page of memory, so that nobody looks into the tables of all: a thread that is not among those of a page has
//! none of its lines. Must never lack a thread that has one.

use std::ops::Range;

use relive_host::permissions::LINES;

use super::blocks::LARGEST;

/// Threads that are told apart.
const PLACES: usize = 256;
/// Words of a set of them.
const WORDS: usize = PLACES / u64::BITS as usize;

/// The place of a thread in these sets; `None`: it may have any line.
pub(super) type HolderPlace = Option<u8>;

/// For each page the threads that may have some of its lines.
pub(super) struct PageHolders {
    pages: Vec<[u64; WORDS]>,
    taken: [u64; WORDS],
}

impl Default for PageHolders {
    fn default() -> Self {
        Self {
            // Zeros that cost nothing until they are touched.
            pages: vec![[0; WORDS]; LINES as usize / LARGEST],
            taken: [0; WORDS],
        }
    }
}

fn bit(place: u8) -> (usize, u64) {
    (usize::from(place) / 64, 1 << (place % 64))
}

impl PageHolders {
    /// A place for a thread that has no line. Where one has ended before, pages may name it still.
    pub(super) fn enter(&mut self) -> HolderPlace {
        let free = (0..=u8::MAX).find(|&place| {
            let (word, bit) = bit(place);
            self.taken[word] & bit == 0
        })?;
        let (word, bit) = bit(free);
        self.taken[word] |= bit;
        Some(free)
    }

    /// The thread has no place any more: it has ended, or may have any line.
    pub(super) fn leave(&mut self, place: HolderPlace) {
        if let Some(place) = place {
            let (word, bit) = bit(place);
            self.taken[word] &= !bit;
        }
    }

    fn page(line: u32) -> usize {
        line as usize / LARGEST
    }

    /// The thread gets this line.
    pub(super) fn gets(&mut self, place: HolderPlace, line: u32) {
        if let Some(place) = place {
            let (word, bit) = bit(place);
            self.pages[Self::page(line)][word] |= bit;
        }
    }

    /// Whether it may have lines of the page of this one.
    pub(super) fn may_have(&self, place: HolderPlace, line: u32) -> bool {
        place.is_none_or(|place| {
            let (word, bit) = bit(place);
            self.pages[Self::page(line)][word] & bit != 0
        })
    }

    /// The lines among these of the next page of which it may have some; all of them if it may have any.
    pub(super) fn next_page(&self, place: HolderPlace, lines: Range<u32>) -> Option<Range<u32>> {
        if place.is_none() {
            return (!lines.is_empty()).then_some(lines);
        }
        let mut first = lines.start;
        while first < lines.end {
            let end = (first | (LARGEST as u32 - 1)) + 1;
            if self.may_have(place, first) {
                return Some(first..end.min(lines.end));
            }
            first = end;
        }
        None
    }

    /// It has none of the page.
    pub(super) fn has_none(&mut self, place: HolderPlace, line: u32) {
        if let Some(place) = place {
            let (word, bit) = bit(place);
            self.pages[Self::page(line)][word] &= !bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_have_what_it_got_and_no_other_page() {
        let mut holders = PageHolders::default();
        let [one, other] = [holders.enter(), holders.enter()];
        assert!(one.is_some() && one != other);
        holders.gets(other, 70);
        assert!(holders.may_have(other, 64) && holders.may_have(other, 127));
        assert!(!holders.may_have(other, 128) && !holders.may_have(one, 70));
        assert_eq!(holders.next_page(other, 0..1000), Some(64..128));
        assert_eq!(holders.next_page(other, 100..110), Some(100..110));
        assert_eq!(holders.next_page(other, 128..1000), None);
        assert_eq!(holders.next_page(None, 5..1000), Some(5..1000));
        assert_eq!(holders.next_page(None, 5..5), None);
        holders.has_none(other, 100);
        assert!(!holders.may_have(other, 70));
        assert!(holders.may_have(None, 1));
    }

    #[test]
    fn places_are_used_again_and_threads_without_may_have_any_line() {
        let mut holders = PageHolders::default();
        let all: Vec<_> = (0..PLACES).map(|_| holders.enter()).collect();
        assert!(all.iter().all(Option::is_some));
        assert_eq!(holders.enter(), None);
        holders.leave(None);
        holders.leave(all[7]);
        assert_eq!(holders.enter(), all[7]);
    }
}
