//! Sets of lines, by ranges: a call may use gibibytes. Must never hold two ranges with a line in common.

use std::ops::Range;

use relive_host::permissions;
use smallvec::SmallVec;

use super::blocks::LARGEST;

/// Guest memory that a call, or a signal, reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Where it begins.
    pub at: u64,
    /// Its bytes.
    pub len: u64,
    /// Whether it is written.
    pub writes: bool,
}

/// Lines one behind the other, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRange {
    /// The first one.
    pub first: u32,
    /// The one behind the last.
    pub end: u32,
    /// Whether they are written.
    pub writes: bool,
}

/// Lines, in the one order in which they are asked for.
pub type WantedLines = SmallVec<[LineRange; 4]>;

impl LineRange {
    /// A single line.
    pub const fn of(line: u32, writes: bool) -> Self {
        Self {
            first: line,
            end: line + 1,
            writes,
        }
    }

    /// Its lines.
    pub const fn lines(self) -> Range<u32> {
        self.first..self.end
    }

    /// The whole pages from a line on that are to be written; none if no page begins with it.
    pub(super) fn pages_from(self, line: u32) -> Range<u32> {
        let page = LARGEST as u32;
        match self.writes && line.is_multiple_of(page) {
            true => line..line.max(self.end & !(page - 1)),
            false => line..line,
        }
    }
}

/// The lines of memory, each once, in the one order in which they are asked for, and whether each is written.
pub fn lines_of(uses: impl Iterator<Item = MemoryUse>) -> WantedLines {
    let ranges_of = |used: MemoryUse| {
        let ranges = permissions::line_ranges_of(used.at, used.len);
        ranges.map(move |lines| LineRange {
            first: lines.start,
            end: lines.end,
            writes: used.writes,
        })
    };
    let mut ranges: WantedLines = uses.flat_map(ranges_of).collect();
    if ranges.is_sorted_by(|one, next| one.end <= next.first) {
        return ranges;
    }
    ranges.sort_unstable_by_key(|range| range.first);
    let written = union(ranges.iter().copied().filter(|range| range.writes));
    let read = union(ranges.into_iter().filter(|range| !range.writes));
    let mut all = without(&read, &written);
    all.extend(written);
    all.sort_unstable_by_key(|range| range.first);
    all
}

/// Ranges in order, each line once.
fn union(sorted: impl Iterator<Item = LineRange>) -> WantedLines {
    let mut all = WantedLines::new();
    for range in sorted {
        match all.last_mut() {
            Some(last) if range.first <= last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

/// What is left of some ranges without the lines of others, both in order.
fn without(ranges: &[LineRange], others: &[LineRange]) -> WantedLines {
    let mut left = WantedLines::new();
    for &range in ranges {
        let mut first = range.first;
        for other in others {
            let end = other.first.min(range.end);
            if first < end {
                left.push(LineRange {
                    first,
                    end,
                    ..range
                });
            }
            first = first.max(other.end);
        }
        if first < range.end {
            left.push(LineRange { first, ..range });
        }
    }
    left
}

/// Lines that a thread keeps, in order.
#[derive(Debug, Default)]
pub(super) struct KeptLines(Vec<LineRange>);

impl KeptLines {
    /// It keeps these, and no others.
    pub(super) fn become_all(&mut self, ranges: impl Iterator<Item = LineRange>) {
        self.0.clear();
        self.0.extend(ranges);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// It keeps this line too.
    pub(super) fn insert(&mut self, line: u32) {
        let at = self.0.partition_point(|range| range.end <= line);
        if self.0.get(at).is_none_or(|range| line < range.first) {
            self.0.insert(at, LineRange::of(line, true));
        }
    }

    /// The first line among these that it keeps.
    pub(super) fn first_of(&self, lines: Range<u32>) -> Option<u32> {
        let at = self.0.partition_point(|range| range.end <= lines.start);
        let first = self.0.get(at)?.first.max(lines.start);
        (first < lines.end).then_some(first)
    }

    pub(super) fn contains(&self, line: u32) -> bool {
        self.first_of(line..line + 1).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use relive_host::permissions::{LINE, LINES};

    use super::*;

    proptest! {
        #[test]
        fn each_line_is_wanted_once_and_written_if_any_use_writes_it(
            uses in vec((0..40u64, 0..12u64, any::<bool>()), 0..9),
        ) {
            let used = |&(at, len, writes): &(u64, u64, bool)| MemoryUse { at: at * 48, len: len * 40, writes };
            let mut expected: BTreeMap<u32, bool> = BTreeMap::new();
            for used in uses.iter().map(used) {
                for line in permissions::lines_of(used.at, used.len) {
                    *expected.entry(line).or_default() |= used.writes;
                }
            }
            let ranges = lines_of(uses.iter().map(used));
            let all: Vec<(u32, bool)> = ranges
                .iter()
                .flat_map(|range| range.lines().map(|line| (line, range.writes)))
                .collect();
            prop_assert_eq!(all, expected.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn kept_lines_are_found(lines in vec(0..60u32, 0..20), from in 0..60u32, to in 0..60u32) {
            let mut kept = KeptLines::default();
            kept.become_all([LineRange { first: 10, end: 14, writes: true }].into_iter());
            for &line in &lines {
                kept.insert(line);
            }
            let is_kept = |line: &u32| lines.contains(line) || (10..14).contains(line);
            prop_assert_eq!(kept.first_of(from..to), (from..to).find(is_kept));
            prop_assert_eq!(kept.contains(from), is_kept(&from));
        }
    }

    #[test]
    fn memory_larger_than_the_table_is_all_lines() {
        let used = |at, len| MemoryUse {
            at,
            len,
            writes: true,
        };
        let all = [LineRange {
            first: 0,
            end: LINES as u32,
            writes: true,
        }];
        assert_eq!(lines_of([used(70 * LINE, 1 << 40)].into_iter())[..], all);
        assert_eq!(lines_of([used(0, u64::MAX)].into_iter())[..], all);
        let around = lines_of([used((LINES - 1) * LINE, 2 * LINE)].into_iter());
        let [low, high] = around[..] else {
            panic!("{around:?}");
        };
        assert_eq!(low, LineRange::of(0, true));
        assert_eq!(high, LineRange::of(LINES as u32 - 1, true));
    }
}
