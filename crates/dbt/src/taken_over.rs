//! Fragments of an earlier process are found through the tables of their file, used in place. A
//! region of them is *dormant* until guest memory holds the bytes that its fragments were made
//! from; nothing of a dormant region may ever be found.

use bytemuck::{Pod, Zeroable};

use std::ops::Range;

use crate::fragment::Fragment;
use crate::kept_slots::{self, PageRun};
use crate::records::{Mapped, Records};
use crate::view::View;

/// Compares guest memory at an address with these bytes.
pub type Compare<'a> = dyn FnMut(u64, &[u8]) -> bool + 'a;

/// Guest bytes that a region depends on.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Span {
    pub(crate) at: u64,
    pub(crate) len: u32,
    /// Their offset among all guest bytes of the file.
    pub(crate) offset: u32,
}

/// A region in a file: a range of guest code, and its share of each list.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RegionRecord {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) ids: u32,
    pub(crate) spans: u32,
    pub(crate) runs: u32,
    pub(crate) zero: u32,
}

/// Further guest bytes that a fragment depends on, in the region that it lies in.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Farther {
    start: u64,
    len: u32,
    pub(crate) id: u32,
}

impl Farther {
    pub(crate) fn new(id: u32, (start, end): (u64, u64)) -> Self {
        let len = (end - start) as u32;
        Self { start, len, id }
    }

    pub(crate) fn span(&self) -> (u64, u64) {
        (self.start, self.start.saturating_add(self.len.into()))
    }
}

/// The lists of a file. Those of the regions follow each other.
pub(crate) struct Lists {
    pub(crate) regions: Mapped<RegionRecord>,
    pub(crate) ids: Mapped<u32>,
    pub(crate) spans: Mapped<Span>,
    pub(crate) runs: Mapped<PageRun>,
    pub(crate) buckets: Mapped<u32>,
    pub(crate) guest: Mapped<u8>,
    pub(crate) farther: Mapped<Farther>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RegionState {
    Dormant,
    Active,
    /// The guest code there has other bytes.
    Gone,
}

struct TakenRegion {
    start: u64,
    end: u64,
    state: RegionState,
    ids: Range<usize>,
    spans: Range<usize>,
    runs: Range<usize>,
}

/// The fragments that were taken over, region by region.
pub(crate) struct TakenOver {
    lists: Lists,
    regions: Vec<TakenRegion>,
    /// Runs of table pages, and the addresses of these.
    placed: Vec<(PageRun, u64)>,
    /// The pages of all runs.
    _pages: View,
}

/// The bucket, of a power of two, where the search for a guest address begins.
fn bucket(pc: u64, buckets: usize) -> usize {
    let mixed = pc.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize & (buckets - 1)
}

/// Buckets for fragments by guest address; an empty one holds `empty`.
pub(crate) fn buckets(fragments: &[(u64, u32)], empty: u32) -> Vec<u32> {
    let mut table = vec![empty; (2 * fragments.len()).next_power_of_two()];
    let mask = table.len() - 1;
    for &(pc, id) in fragments {
        let mut at = bucket(pc, table.len());
        while table[at] != empty {
            at = (at + 1) & mask;
        }
        table[at] = id;
    }
    table
}

impl TakenOver {
    /// `None` if the lists do not fit each other.
    pub(crate) fn new(lists: Lists, pages: View) -> Option<Self> {
        let (mut ids, mut spans, mut runs) = (0, 0, 0);
        let mut regions = Vec::new();
        for r in lists.regions.all() {
            let next = |from: &mut usize, n: u32| {
                let range = *from..*from + n as usize;
                *from = range.end;
                range
            };
            regions.push(TakenRegion {
                start: r.start,
                end: r.end,
                state: RegionState::Dormant,
                ids: next(&mut ids, r.ids),
                spans: next(&mut spans, r.spans),
                runs: next(&mut runs, r.runs),
            });
        }
        let start = pages.start() as u64;
        let end = start + pages.len() as u64;
        let placed: Vec<(PageRun, u64)> = kept_slots::placed(lists.runs.all())
            .map(|(run, offset)| (run, start + offset))
            .collect();
        let fits = ids == lists.ids.all().len()
            && spans == lists.spans.all().len()
            && runs == lists.runs.all().len()
            && placed.iter().all(|(run, at)| at + run.len() <= end)
            && lists.buckets.all().len().is_power_of_two();
        fits.then_some(Self {
            lists,
            regions,
            placed,
            _pages: pages,
        })
    }

    /// The fragment at a guest address, if there is one in use.
    pub(crate) fn find(&self, all: &Records<Fragment>, pc: u64) -> Option<u32> {
        let table = self.lists.buckets.all();
        let start = bucket(pc, table.len());
        for i in 0..table.len() {
            let id = table[(start + i) & (table.len() - 1)];
            let fragment = all.get(id as usize)?;
            if fragment.pc == pc {
                let active = self.regions[fragment.region as usize].state == RegionState::Active;
                return (active && fragment.is_live()).then_some(id);
            }
        }
        None
    }

    /// Live fragments of regions in use that depend on bytes of a range.
    pub(crate) fn members(
        &self,
        all: &Records<Fragment>,
        start: u64,
        end: u64,
    ) -> impl Iterator<Item = u32> {
        let touched =
            move |r: &TakenRegion| r.state == RegionState::Active && r.start < end && start < r.end;
        let regions = self.regions.iter().filter(move |r| touched(r));
        let ids = regions.flat_map(|r| self.lists.ids.all()[r.ids.clone()].iter().copied());
        let made_from = ids.filter(move |id| {
            let fragment = all.get(*id as usize);
            fragment.is_some_and(|f| f.is_live() && f.overlaps(start, end))
        });
        let farther = match self.regions.iter().any(touched) {
            true => self.lists.farther.all(),
            false => &[],
        };
        let depend = farther.iter().filter(move |f| {
            let (from, to) = f.span();
            let active =
                |f: &&Fragment| self.regions[f.region as usize].state == RegionState::Active;
            let fragment = all.get(f.id as usize).filter(active);
            from < end && start < to && fragment.is_some_and(Fragment::is_live)
        });
        made_from.chain(depend.map(|f| f.id))
    }

    /// The guest bytes that fragments depend on beside those that they were made from.
    pub(crate) fn farther(&self) -> impl Iterator<Item = &Farther> {
        self.lists.farther.all().iter()
    }

    /// Guest code lies in `start..end` now: regions that were made from the very same bytes there
    /// come into use. Returns the runs of table pages with the slots of their landings, and the
    /// addresses of these pages.
    pub(crate) fn wake(
        &mut self,
        start: u64,
        end: u64,
        same: &mut Compare<'_>,
    ) -> Vec<(PageRun, u64)> {
        let (lists, mut woken) = (&self.lists, Vec::new());
        for region in &mut self.regions {
            if region.state != RegionState::Dormant || region.start < start || region.end > end {
                continue;
            }
            let equal = lists.spans.all()[region.spans.clone()].iter().all(|s| {
                let from = s.offset as usize;
                let bytes = lists.guest.all().get(from..from + s.len as usize);
                bytes.is_some_and(|bytes| same(s.at, bytes))
            });
            region.state = if equal {
                RegionState::Active
            } else {
                RegionState::Gone
            };
            if equal {
                woken.extend_from_slice(&self.placed[region.runs.clone()]);
            }
        }
        woken
    }

    /// Dormant regions stay so for ever.
    pub(crate) fn forget_dormant(&mut self) {
        for region in &mut self.regions {
            if region.state == RegionState::Dormant {
                region.state = RegionState::Gone;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fragment_has_a_bucket_of_its_own() {
        let all: Vec<(u64, u32)> = (0..1000).map(|i| (0x40_0000 + 5 * i, i as u32)).collect();
        let table = buckets(&all, u32::MAX);
        assert_eq!(table.len(), 2048);
        for (pc, id) in all {
            let at = bucket(pc, table.len());
            let found = (0..table.len()).map(|i| table[(at + i) % table.len()]);
            assert!(
                found.take_while(|f| *f != u32::MAX).any(|f| f == id),
                "{pc:x}"
            );
        }
        assert_eq!(buckets(&[], 7), [7]);
    }
}
