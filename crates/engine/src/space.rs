//! The guest's memory map: its regions, and the place of a new one. Pure bookkeeping;
//! it must never touch memory (see `memory`).

use std::collections::BTreeMap;
use std::sync::Arc;

use relive_host::layout;

use crate::sharing::changes::FileRange;

/// Protection bits of mmap(2).
pub const READ: u32 = libc::PROT_READ as u32;
/// See [`READ`].
pub const WRITE: u32 = libc::PROT_WRITE as u32;
/// See [`READ`].
pub const EXEC: u32 = libc::PROT_EXEC as u32;

const PAGE: u64 = relive_host::addr::PAGE;

/// The start of the range for images and other executable maps.
const LOW_ALLOC: u64 = 0x1000_0000;

/// One region of equal properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub start: u64,
    /// Behind the last address.
    pub end: u64,
    /// The guest's protection.
    pub prot: u32,
    /// Whether it was mapped `MAP_SHARED`.
    pub shared: bool,
    /// Shared, and some process may write it: after a fork it is memory of two processes.
    pub common: bool,
    /// Its name in `/proc/self/maps`; empty for anonymous memory.
    pub name: Arc<str>,
    /// Offset in the file of `start`.
    pub offset: u64,
    /// Identity of the file (from its device and inode number), 0 without file.
    pub inode: u64,
    /// Further properties that the guest has set.
    pub traits: RegionTraits,
}

/// Properties that few regions have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionTraits {
    /// It grows downwards at an access below its start (`MAP_GROWSDOWN`).
    pub grows: bool,
    /// A forked child's share of it.
    pub on_fork: OnFork,
    /// Its pages may not be dropped (mlock(2)).
    pub locked: bool,
    /// The number of a shared memory without a file, which mremap(2) may show at several addresses; 0
    /// for a region that is private or has a file.
    pub unnamed: u64,
}

/// An object that may be mapped at several addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Object {
    File(u64),
    Unnamed(u64),
}

impl Region {
    /// The object that it shows, if that may be mapped elsewhere too.
    fn object(&self) -> Option<Object> {
        match (self.shared, self.inode, self.traits.unnamed) {
            (false, ..) | (_, 0, 0) => None,
            (_, 0, number) => Some(Object::Unnamed(number)),
            (_, inode, _) => Some(Object::File(inode)),
        }
    }
}

/// A forked child's share of a region (madvise(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFork {
    /// The same.
    #[default]
    Keep,
    /// Nothing (`MADV_DONTFORK`).
    Drop,
    /// Zeros (`MADV_WIPEONFORK`).
    Wipe,
}

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
        }
    }

    /// Changes the traits of the regions in a range.
    pub fn change(&mut self, start: u64, end: u64, mut change: impl FnMut(&mut RegionTraits)) {
        self.cut(start);
        self.cut(end);
        for (_, r) in self.regions.range_mut(start..end) {
            change(&mut r.traits);
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

    /// All ranges that show the memory of a mapped range: the range itself, and other maps of its shared
    /// parts. Starts and ends.
    #[must_use]
    pub fn views(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        for r in self.overlapping(start, end) {
            let (from, to) = (start.max(r.start), end.min(r.end));
            match r.object() {
                None => all.push((from, to)),
                Some(object) => {
                    let at = r.offset + (from - r.start);
                    all.extend(self.showing(object, at, to - from));
                }
            }
        }
        all
    }

    /// The ranges in which shared maps show the part of `len` bytes from `offset` of a file.
    pub fn shared_views(
        &self,
        inode: u64,
        offset: u64,
        len: u64,
    ) -> impl Iterator<Item = (u64, u64)> {
        self.showing(Object::File(inode), offset, len)
    }

    fn showing(&self, object: Object, offset: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
        let views = self.iter().filter(move |r| r.object() == Some(object));
        views.filter_map(move |r| {
            let from = offset.max(r.offset);
            let to = (offset.saturating_add(len)).min(r.offset + (r.end - r.start));
            let place = |at: u64| r.start + (at - r.offset);
            (from < to).then(|| (place(from), place(to)))
        })
    }

    /// The ranges in which shared maps show these parts of files, in order and each address once.
    #[must_use]
    pub fn views_of(&self, parts: &[FileRange]) -> Vec<(u64, u64)> {
        let views = parts
            .iter()
            .flat_map(|p| self.shared_views(p.file, p.start, p.end - p.start));
        let mut views: Vec<(u64, u64)> = views.collect();
        views.sort_unstable();
        views.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
        views
    }

    /// The parts of files that are mapped shared.
    #[must_use]
    pub fn shared_files(&self) -> Vec<FileRange> {
        let files = self.iter().filter(|r| r.shared && r.inode != 0);
        let part = |r: &Region| FileRange {
            file: r.inode,
            start: r.offset,
            end: r.offset + (r.end - r.start),
        };
        files.map(part).collect()
    }

    /// Whether a file is mapped shared.
    #[must_use]
    pub fn shares_file(&self, inode: u64) -> bool {
        self.shared_views(inode, 0, u64::MAX).next().is_some()
    }

    /// The files of which a shared map has been removed since the last call. They may still have others.
    pub fn take_dropped(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.dropped)
    }

    /// Adds a file to them, which may have no shared map any more.
    pub fn may_drop(&mut self, inode: u64) {
        if !self.dropped.contains(&inode) {
            self.dropped.push(inode);
        }
    }

    /// Whether any file is mapped shared.
    #[must_use]
    pub fn has_shared_files(&self) -> bool {
        self.iter().any(|r| r.shared && r.inode != 0)
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
