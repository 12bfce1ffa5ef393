//! The guest's memory map: its regions, and the place of a new one. Pure bookkeeping;
//! it must never touch memory (see `memory`).

pub mod plain_map;
mod region;
mod views;

use std::collections::BTreeMap;

use relive_host::layout;

pub use region::{OnFork, Region, RegionTraits};

/// Protection bits of mmap(2).
pub const READ: u32 = libc::PROT_READ as u32;
/// See [`READ`].
pub const WRITE: u32 = libc::PROT_WRITE as u32;
/// See [`READ`].
pub const EXEC: u32 = libc::PROT_EXEC as u32;

const PAGE: u64 = relive_host::addr::PAGE;

/// The start of the range for images and other executable maps.
const LOW_ALLOC: u64 = 0x1000_0000;

/// All regions, ordered by address, never overlapping.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    regions: BTreeMap<u64, Region>,
    next_low: u64,
    next_high: u64,
    /// Start of the heap that brk(2) moves, and its present end.
    pub brk: (u64, u64),
    /// See [`AddressSpace::take_dropped`].
    dropped: Vec<u64>,
    /// Some memory that may be mapped at several places has been executable: see [`AddressSpace::code_views`].
    shared_code: bool,
}

impl AddressSpace {
    /// Nothing mapped.
    #[must_use]
    pub fn new() -> Self {
        Self {
            next_low: LOW_ALLOC,
            next_high: layout::HIGH_ALLOC,
            ..Self::default()
        }
    }

    /// The region that holds `addr`.
    #[must_use]
    pub fn at(&self, addr: u64) -> Option<&Region> {
        self.regions
            .range(..=addr)
            .next_back()
            .map(|(_, r)| r)
            .filter(|r| addr < r.end)
    }

    /// The first region above `addr`.
    #[must_use]
    pub fn after(&self, addr: u64) -> Option<&Region> {
        self.regions.range(addr..).next().map(|(_, r)| r)
    }

    /// All regions in order.
    pub fn iter(&self) -> impl Iterator<Item = &Region> {
        self.regions.values()
    }

    /// The regions that overlap a range, in order.
    pub fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Region> {
        let first = self.at(start).map_or(start, |r| r.start);
        self.regions.range(first..end.max(first)).map(|(_, r)| r)
    }

    /// Whether nothing is mapped in a range.
    #[must_use]
    pub fn is_free(&self, start: u64, end: u64) -> bool {
        self.overlapping(start, end).next().is_none()
    }

    /// Whether the annex allows code in a range.
    #[must_use]
    pub fn may_have_code(&self, start: u64, end: u64) -> bool {
        !layout::meets_annex_code(start, end)
            || self.is_free(layout::ANNEX_START, layout::ANNEX_END)
    }

    /// Whether the annex may be mapped: no executable region needs the slots there.
    #[must_use]
    pub fn annex_is_free(&self) -> bool {
        self.overlapping(layout::ANNEX_CODE_START, layout::ANNEX_CODE_END)
            .all(|r| r.prot & EXEC == 0)
    }

    /// Whether a range is mapped without a hole.
    #[must_use]
    pub fn is_mapped(&self, start: u64, end: u64) -> bool {
        self.mapped_until(start, end) >= end
    }

    /// The start of the first hole from `start` on; `end` or more if there is none before it.
    #[must_use]
    pub fn mapped_until(&self, start: u64, end: u64) -> u64 {
        let mut at = start;
        for r in self.overlapping(start, end) {
            if r.start > at {
                break;
            }
            at = r.end;
        }
        at
    }

    /// Adds a region, replacing the regions there.
    pub fn insert(&mut self, region: Region) {
        self.remove(region.start, region.end);
        self.shared_code |= is_shared_code(&region);
        self.regions.insert(region.start, region);
    }

    /// Forgets a range.
    pub fn remove(&mut self, start: u64, end: u64) {
        self.cut(start);
        self.cut(end);
        let gone: Vec<u64> = self.regions.range(start..end).map(|(&s, _)| s).collect();
        for s in gone {
            let region = self.regions.remove(&s);
            if let Some(file) = region.filter(|r| r.shared && r.inode != 0) {
                self.may_drop(file.inode);
            }
        }
    }

    /// Changes the protection of the regions in a range.
    pub fn protect(&mut self, start: u64, end: u64, prot: u32) {
        self.cut(start);
        self.cut(end);
        for (_, r) in self.regions.range_mut(start..end) {
            r.prot = prot;
            self.shared_code |= is_shared_code(r);
        }
    }

    /// Changes the traits of the regions in a range.
    pub fn change(&mut self, start: u64, end: u64, mut change: impl FnMut(&mut RegionTraits)) {
        self.cut(start);
        self.cut(end);
        for (_, r) in self.regions.range_mut(start..end) {
            change(&mut r.traits);
            self.shared_code |= is_shared_code(r);
        }
    }

    /// Makes `addr` a border between regions, if it is inside one.
    fn cut(&mut self, addr: u64) {
        let Some(r) = self
            .regions
            .range_mut(..addr)
            .next_back()
            .map(|(_, r)| r)
            .filter(|r| addr < r.end)
        else {
            return;
        };
        let mut upper = r.clone();
        r.end = addr;
        upper.offset += addr - upper.start;
        upper.start = addr;
        self.regions.insert(addr, upper);
    }

    /// Whether the guest may write at an address.
    #[must_use]
    pub fn may_write(&self, addr: u64) -> bool {
        self.at(addr).is_some_and(|r| r.prot & WRITE != 0)
    }

    /// Finds room for `len` bytes (a multiple of the page size): in the low window for
    /// code, in the high window for the rest. Deterministic.
    pub fn find_free(&mut self, len: u64, low: bool) -> Option<u64> {
        let (start, end, next) = if low {
            (LOW_ALLOC, layout::LOW_END, &mut self.next_low)
        } else {
            (
                layout::HIGH_ALLOC,
                layout::WINDOW_END - (1 << 30),
                &mut self.next_high,
            )
        };
        let from = *next;
        let found =
            gap(&self.regions, from, end, len).or_else(|| gap(&self.regions, start, end, len))?;
        *next = found + len;
        Some(found)
    }

    /// Lets later allocations begin at the start of a region that has just been removed, so that the
    /// maps of a program which maps and unmaps in a loop do not wander.
    pub fn reuse_from(&mut self, start: u64) {
        let next = if layout::is_low(start) {
            &mut self.next_low
        } else {
            &mut self.next_high
        };
        if start < *next
            && start
                >= if layout::is_low(start) {
                    LOW_ALLOC
                } else {
                    layout::HIGH_ALLOC
                }
        {
            *next = start;
        }
    }

    /// The text of `/proc/self/maps`.
    #[must_use]
    pub fn proc_maps(&self) -> String {
        use std::fmt::Write;
        let mut out = String::new();
        for r in self.iter() {
            let bit = |b: u32, c: char| if r.prot & b != 0 { c } else { '-' };
            let line = format!(
                "{:08x}-{:08x} {}{}{}{} {:08x} {} {} ",
                r.start,
                r.end,
                bit(READ, 'r'),
                bit(WRITE, 'w'),
                bit(EXEC, 'x'),
                if r.shared { 's' } else { 'p' },
                r.offset,
                if r.inode == 0 { "00:00" } else { "08:01" },
                r.inode
            );
            if r.name.is_empty() {
                let _ = writeln!(out, "{line}");
            } else {
                let _ = writeln!(out, "{line:<73}{}", r.name);
            }
        }
        out
    }
}

/// Whether a region is executable, and shows memory that may be mapped elsewhere too.
fn is_shared_code(region: &Region) -> bool {
    region.prot & EXEC != 0 && region.object().is_some()
}

fn gap(regions: &BTreeMap<u64, Region>, from: u64, end: u64, len: u64) -> Option<u64> {
    let mut at = from;
    if let Some((_, r)) = regions.range(..from).next_back() {
        at = at.max(r.end);
    }
    for (_, r) in regions.range(from..) {
        if r.start >= at && r.start - at >= len {
            break;
        }
        at = at.max(r.end);
    }
    (at.checked_add(len)? <= end).then_some(at)
}

/// Rounds up to whole pages; `None` on overflow or for nothing.
#[must_use]
pub fn pages(len: u64) -> Option<u64> {
    let up = len.checked_add(PAGE - 1)? & !(PAGE - 1);
    (up != 0).then_some(up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64, prot: u32) -> Region {
        Region {
            start,
            end,
            prot,
            shared: false,
            common: false,
            name: "".into(),
            offset: 0,
            inode: 0,
            copy: None,
            traits: RegionTraits::default(),
        }
    }

    #[test]
    fn unmapping_the_middle_leaves_both_ends() {
        let mut s = AddressSpace::new();
        s.insert(region(0x10000, 0x20000, READ));
        s.remove(0x14000, 0x15000);
        assert!(s.at(0x13fff).is_some() && s.at(0x14000).is_none() && s.at(0x15000).is_some());
        assert_eq!(s.at(0x15000).map(|r| r.offset), Some(0x5000));
        assert!(!s.is_mapped(0x10000, 0x20000) && s.is_mapped(0x15000, 0x20000));
    }

    #[test]
    fn protection_splits_regions() {
        let mut s = AddressSpace::new();
        s.insert(region(0x10000, 0x20000, READ));
        s.protect(0x12000, 0x13000, READ | WRITE);
        assert_eq!(
            s.iter().map(|r| r.prot).collect::<Vec<_>>(),
            [READ, READ | WRITE, READ]
        );
    }

    #[test]
    fn new_regions_never_overlap() {
        let mut s = AddressSpace::new();
        for i in 0..100 {
            let len = PAGE * (1 + i % 7);
            let at = s.find_free(len, i % 3 == 0).expect("room");
            assert!(s.is_free(at, at + len));
            s.insert(region(at, at + len, READ));
            if i % 5 == 0 {
                s.remove(at, at + PAGE);
                s.reuse_from(at);
            }
        }
    }

    #[test]
    fn code_is_looked_for_where_it_may_be() {
        let mut s = AddressSpace::new();
        let file = |start: u64, prot| {
            let mut region = region(start, start + 2 * PAGE, prot);
            (region.shared, region.inode) = (true, 7);
            region
        };
        s.insert(region(0x10000, 0x20000, READ | EXEC));
        s.insert(file(0x30000, READ | WRITE));
        s.insert(file(0x40000, READ | WRITE));
        assert_eq!(s.code_views(0x11000, 0x35000), [(0x11000, 0x20000)]);
        assert!(s.code_views(0x30000, 0x31000).is_empty());
        s.protect(0x40000, 0x41000, READ | EXEC);
        let again = AddressSpace::restore(&s.capture()).expect("it is possible");
        for s in [s, again] {
            assert_eq!(s.code_views(0x30000, 0x32000), [(0x40000, 0x41000)]);
            assert!(s.code_views(0x31000, 0x32000).is_empty());
        }
    }

    #[test]
    fn memory_without_a_file_that_shows_twice_is_found() {
        let mut s = AddressSpace::new();
        let shared = |start: u64, end: u64, unnamed: u64| {
            let mut region = region(start, end, READ | WRITE);
            (region.shared, region.traits.unnamed) = (true, unnamed);
            region
        };
        s.insert(shared(0x10000, 0x14000, 1));
        s.insert(shared(0x20000, 0x24000, 2));
        // Parts of one map show each part once.
        s.protect(0x11000, 0x12000, READ);
        assert!(!s.shows_unnamed_twice());
        s.insert(shared(0x30000, 0x31000, 1));
        assert!(s.shows_unnamed_twice());
        s.remove(0x10000, 0x11000);
        assert!(!s.shows_unnamed_twice());
    }

    #[test]
    fn code_keeps_clear_of_a_mapped_annex() {
        let (low, high) = (layout::ANNEX_CODE_START, layout::ANNEX_CODE_END);
        let mut s = AddressSpace::new();
        assert!(s.may_have_code(low, high));
        s.insert(region(layout::ANNEX_START, layout::ANNEX_END, READ));
        assert!(s.may_have_code(low - PAGE, low) && s.may_have_code(high + PAGE, high + 2 * PAGE));
        for start in [low - PAGE, low, high - PAGE, high] {
            assert!(!s.may_have_code(start, start + 2 * PAGE), "{start:#x}");
        }
    }

    #[test]
    fn a_full_window_is_an_answer() {
        let mut s = AddressSpace::new();
        assert_eq!(s.find_free(layout::LOW_END, true), None);
        assert!(s.find_free(1 << 40, false).is_some());
    }
}
