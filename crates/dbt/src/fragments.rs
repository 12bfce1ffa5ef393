//! All fragments: how they are found by guest address, by page and by cache address.
//!
//! A dead fragment keeps its record until its unit is forgotten: a thread may still be in it.

#[cfg(test)]
mod tests;

use std::cmp::Ordering::{Equal, Greater, Less};

use bytemuck::Zeroable;
use relive_host::addr::PAGE;

use crate::addr_map::AddrMap;
use crate::entry::{ENTRIES, Entry};
use crate::exit::NONE;
use crate::fragment::Fragment;
use crate::marks::{Mark, MarkRecord, Undo};
use crate::records::{Mapped, Records};
use crate::taken_over::TakenOver;

/// A range of addresses of fragments in the cache.
pub(crate) type Hot = std::ops::Range<u32>;

/// Ranges of guest bytes by the number of a fragment.
pub(crate) type SpansById = AddrMap<Vec<(u64, u64)>>;

/// All fragments. Those that were taken over come first; they are found through their own tables,
/// all others through the maps here.
#[derive(Default)]
pub(crate) struct Fragments {
    all: Records<Fragment>,
    marks: Records<MarkRecord>,
    taken_over: Option<TakenOver>,
    by_pc: AddrMap<u32>,
    steps: AddrMap<u32>,
    by_page: AddrMap<Vec<u32>>,
    /// Further guest bytes that fragments depend on, by number.
    farther: SpansById,
    dead_entries: AddrMap<(u32, Entry)>,
}

impl Fragments {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The number that the next fragment gets.
    pub(crate) fn next_id(&self) -> u32 {
        self.all.next() as u32
    }

    /// The place of the next mark.
    pub(crate) fn next_mark(&self) -> u32 {
        self.marks.next() as u32
    }

    /// The next fragment and its marks go in place of these.
    pub(crate) fn seek(&mut self, id: u32, mark: u32) {
        self.all.seek(id as usize);
        self.marks.seek(mark as usize);
    }

    pub(crate) fn seek_end(&mut self) {
        self.all.seek_end();
        self.marks.seek_end();
    }

    pub(crate) fn get(&self, id: u32) -> &Fragment {
        &self.all[id as usize]
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Fragment {
        &mut self.all[id as usize]
    }

    pub(crate) fn find(&self, pc: u64) -> Option<u32> {
        let own = self.by_pc.get(&pc).copied();
        own.or_else(|| self.taken_over.as_ref()?.find(&self.all, pc))
    }

    pub(crate) fn find_step(&self, pc: u64) -> Option<u32> {
        self.steps.get(&pc).copied()
    }

    /// Adds a fragment whose code follows that of all others in the cache.
    pub(crate) fn add(&mut self, mut fragment: Fragment, marks: &[Mark]) -> u32 {
        let id = self.next_id();
        fragment.first_mark = self.next_mark();
        fragment.marks = marks.len() as u16;
        self.marks.extend(marks.iter().map(MarkRecord::of));
        let index = if fragment.is_step() {
            &mut self.steps
        } else {
            &mut self.by_pc
        };
        index.insert(fragment.pc, id);
        self.all.push(fragment);
        self.index_pages(id, fragment.pc, fragment.end);
        id
    }

    /// Makes a fragment depend on the bytes of these ranges too.
    pub(crate) fn depend(&mut self, id: u32, spans: &[(u64, u64)]) {
        let fragment = *self.get(id);
        for &(start, end) in spans {
            if fragment.pc <= start && end <= fragment.end {
                continue;
            }
            let farther = self.farther.entry(id.into()).or_default();
            if !farther.contains(&(start, end)) {
                farther.push((start, end));
                self.index_pages(id, start, end);
            }
        }
    }

    /// Those that were made here, but for single steps, with the guest bytes that they depend on beside their own.
    pub(crate) fn made_here(&self) -> impl Iterator<Item = (u32, &Fragment, &[(u64, u64)])> {
        self.by_pc.values().map(|&id| {
            let farther = self.farther.get(&id.into());
            (id, self.get(id), farther.map_or(&[][..], Vec::as_slice))
        })
    }

    /// The guest bytes that fragments depend on beside those that they were made from.
    pub(crate) fn all_farther(&self) -> SpansById {
        let mut all = self.farther.clone();
        for farther in self.taken_over.iter().flat_map(TakenOver::farther) {
            let spans = all.entry(farther.id.into()).or_default();
            spans.push(farther.span());
        }
        all
    }

    /// All fragments and their marks, in the order of their code.
    pub(crate) fn parts(&self) -> (&Records<Fragment>, &Records<MarkRecord>) {
        (&self.all, &self.marks)
    }

    /// Takes over fragments, which are not found before their region is in use.
    pub(crate) fn take_over(
        &mut self,
        all: Mapped<Fragment>,
        marks: Mapped<MarkRecord>,
        found_by: TakenOver,
    ) {
        self.all.take_over(all);
        self.marks.take_over(marks);
        self.taken_over = Some(found_by);
    }

    /// The fragments that were taken over.
    pub(crate) fn taken_over(&mut self) -> Option<&mut TakenOver> {
        self.taken_over.as_mut()
    }

    fn index_pages(&mut self, id: u32, start: u64, end: u64) {
        if start < end {
            for page in start / PAGE..=(end - 1) / PAGE {
                let ids = self.by_page.entry(page).or_default();
                if ids.last() != Some(&id) {
                    ids.push(id);
                }
            }
        }
    }

    fn forget_pages(&mut self, id: u32, start: u64, end: u64) {
        if start < end {
            for page in start / PAGE..=(end - 1) / PAGE {
                if let Some(ids) = self.by_page.get_mut(&page) {
                    // Mostly the first: pages are forgotten as a whole, in the order of numbers.
                    if let Some(i) = ids.iter().position(|other| *other == id) {
                        ids.remove(i);
                    }
                    if ids.is_empty() {
                        self.by_page.remove(&page);
                    }
                }
            }
        }
    }

    /// Live fragments that depend on bytes in `start..end`.
    pub(crate) fn overlapping(&self, start: u64, end: u64) -> Vec<u32> {
        let taken_over = self.taken_over.iter();
        let mut found: Vec<u32> = taken_over
            .flat_map(|t| t.members(&self.all, start, end))
            .collect();
        for page in self.pages(start, end) {
            if let Some(ids) = self.by_page.get(&page) {
                found.extend(ids.iter().filter(|id| self.depends(**id, start, end)));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn depends(&self, id: u32, start: u64, end: u64) -> bool {
        let overlaps = |&(from, to): &(u64, u64)| from < end && start < to;
        let farther = self.farther.get(&id.into());
        self.get(id).overlaps(start, end) || farther.is_some_and(|f| f.iter().any(overlaps))
    }

    /// Whether any live fragment depends on bytes in `start..end`.
    pub(crate) fn any(&self, start: u64, end: u64) -> bool {
        let hit = |id: &u32| self.all[*id as usize].is_live() && self.depends(*id, start, end);
        let mut taken_over = self
            .taken_over
            .iter()
            .flat_map(|t| t.members(&self.all, start, end));
        taken_over.next().is_some()
            || self.pages(start, end).iter().any(|page| {
                self.by_page
                    .get(page)
                    .is_some_and(|ids| ids.iter().any(hit))
            })
    }

    /// The indexed pages of a range, which may be far larger than the translated code.
    fn pages(&self, start: u64, end: u64) -> Vec<u64> {
        if start >= end {
            return Vec::new();
        }
        let range = start / PAGE..=(end - 1) / PAGE;
        if range.end() - range.start() < self.by_page.len() as u64 {
            range
                .filter(|page| self.by_page.contains_key(page))
                .collect()
        } else {
            self.by_page
                .keys()
                .copied()
                .filter(|page| range.contains(page))
                .collect()
        }
    }

    /// Removes a fragment from every index and remembers its entries as dead ones.
    pub(crate) fn retire(&mut self, id: u32) {
        let farther = self.farther.remove(&id.into());
        let fragment = &mut self.all[id as usize];
        fragment.live = 0;
        fragment.incoming = NONE;
        let fragment = *fragment;
        let own = [(fragment.pc, fragment.end)];
        for &(start, end) in own.iter().chain(farther.iter().flatten()) {
            self.forget_pages(id, start, end);
        }
        let index = if fragment.is_step() {
            &mut self.steps
        } else {
            &mut self.by_pc
        };
        if index.get(&fragment.pc) == Some(&id) {
            index.remove(&fragment.pc);
        }
        for kind in ENTRIES {
            if let Some(at) = fragment.entry(kind) {
                self.dead_entries.insert(u64::from(at), (id, kind));
            }
        }
    }

    /// Forgets a dead fragment: nothing leads to it, and its number is free.
    pub(crate) fn forget(&mut self, id: u32) {
        for kind in ENTRIES {
            self.forget_entry(id, kind);
        }
        self.all[id as usize].marks = 0;
    }

    /// Forgets the entries of a dead fragment that lie in a range of the cache.
    pub(crate) fn forget_entries(&mut self, id: u32, range: &Hot) {
        for kind in ENTRIES {
            let at = self.get(id).entry(kind);
            if at.is_some_and(|at| range.contains(&at)) {
                self.forget_entry(id, kind);
            }
        }
    }

    fn forget_entry(&mut self, id: u32, kind: Entry) {
        let entry = &mut self.all[id as usize].entries[kind as usize];
        self.dead_entries.remove(&u64::from(*entry));
        // Without it the record would not be in the order of the code.
        if kind != Entry::Plain {
            *entry = 0;
        }
    }

    /// The numbers from `first` up to `end` are free; all code of theirs will lie before `hot`.
    pub(crate) fn clear_place(&mut self, first: u32, end: u32, hot: u32) {
        for id in first..end {
            let free = &mut self.all[id as usize];
            *free = Fragment {
                region: NONE,
                incoming: NONE,
                ..Fragment::zeroed()
            };
            free.entries[Entry::Plain as usize] = hot;
        }
    }

    /// Cache addresses of the places in a fragment that its paired calls return to.
    pub(crate) fn landings(&self, id: u32) -> Vec<u32> {
        let fragment = self.get(id);
        let first = fragment.first_mark as usize;
        (first..first + usize::from(fragment.marks))
            .filter_map(|i| self.marks.get(i)?.mark())
            .filter(|mark| mark.undo == Undo::Landing)
            .map(|mark| fragment.plain() + u32::from(mark.cache))
            .collect()
    }

    /// The dead entry at a cache address.
    pub(crate) fn dead_entry(&self, at: u32) -> Option<(u32, Entry)> {
        self.dead_entries.get(&u64::from(at)).copied()
    }

    /// The fragment whose body begins there, or before.
    pub(crate) fn before(&self, at: u32) -> Option<&Fragment> {
        let i = self.all.partition_point(|f| f.plain() <= at);
        self.all.get(i.checked_sub(1)?)
    }

    /// The fragment whose body holds a cache address, and the mark exactly there.
    pub(crate) fn mark_at(&self, at: u32) -> Option<(&Fragment, Mark)> {
        let fragment = self.before(at)?;
        let offset = u16::try_from(at - fragment.plain()).ok()?;
        let first = fragment.first_mark as usize;
        let (mut low, mut high) = (first, first + usize::from(fragment.marks));
        while low < high {
            let middle = low.midpoint(high);
            match self.marks.get(middle)?.cache.cmp(&offset) {
                Less => low = middle + 1,
                Greater => high = middle,
                Equal => return Some((fragment, self.marks[middle].mark()?)),
            }
        }
        None
    }
}
