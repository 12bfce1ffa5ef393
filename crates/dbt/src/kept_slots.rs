//! Slots of the branch table in a file of translations: whole pages of the table, complete, in runs
//! that a later process moves into place. Getting a page and setting its slots costs about as much
//! as a page fault, and a start needs hundreds; pages of a file are there already, and the kernel
//! maps sixteen with one fault. A page must hold nothing but default values and landings of
//! fragments of one region.

use bytemuck::{Pod, Zeroable};
use relive_host::addr::PAGE;
use relive_host::layout::is_low;

use crate::cache_window::TABLE_MISS;
use crate::entry::Entry;
use crate::fragment::Fragment;

/// Bytes of a slot.
const SLOT: u64 = 8;
/// Runs with so few unused pages between them are joined: one more run costs as much as mapping
/// them.
const GAP: u32 = 16;
/// Least slots of a run: to move its pages costs about as much as this many misses.
const LEAST_SLOTS: usize = 8;
/// Most pages of runs in a file: 96 MiB.
const MOST_PAGES: u32 = 24 << 10;

/// A slot of the branch table that a fragment's landing was made for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LandingSlot {
    pub(crate) addr: u32,
    pub(crate) landing: u32,
}

impl LandingSlot {
    /// Its offset in the table, in bytes.
    fn offset(&self) -> u64 {
        u64::from(self.addr) * SLOT
    }
}

/// Pages of the table that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct PageRun {
    /// Number of the first one.
    page: u32,
    pages: u32,
}

impl PageRun {
    /// Bytes of its pages.
    pub(crate) fn len(&self) -> u64 {
        u64::from(self.pages) * PAGE
    }

    /// Start and end of its pages in the table.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let start = u64::from(self.page) * PAGE;
        (start, start + self.len())
    }
}

/// The slots of these fragments' landings, in ascending order.
pub(crate) fn of<'a>(fragments: impl Iterator<Item = &'a Fragment>) -> Vec<LandingSlot> {
    let mut slots: Vec<LandingSlot> = fragments.flat_map(landings).collect();
    slots.sort_unstable();
    slots
}

/// The slots that a fragment's landings were made for.
fn landings(fragment: &Fragment) -> impl Iterator<Item = LandingSlot> + use<> {
    let slots = [
        (Entry::Jump, fragment.pc),
        (Entry::Return, fragment.pc.wrapping_sub(1)),
    ];
    let made = slots.map(|(kind, addr)| (fragment.entry(kind), addr));
    made.into_iter().filter_map(|(landing, addr)| {
        let landing = landing.filter(|_| is_low(addr))?;
        Some(LandingSlot {
            addr: addr as u32,
            landing,
        })
    })
}

/// The pages that slots, in ascending order, lie on, without runs that cost more than they save.
pub(crate) fn runs(slots: &[LandingSlot]) -> Vec<PageRun> {
    let mut runs: Vec<(PageRun, usize)> = Vec::new();
    for slot in slots {
        let page = (slot.offset() / PAGE) as u32;
        match runs.last_mut() {
            Some((last, slots)) if page <= last.page + last.pages + GAP => {
                last.pages = page + 1 - last.page;
                *slots += 1;
            }
            _ => runs.push((PageRun { page, pages: 1 }, 1)),
        }
    }
    let worth = runs.into_iter().filter(|(_, slots)| *slots >= LEAST_SLOTS);
    worth.map(|(run, _)| run).collect()
}

/// Leaves out runs that would make a file too large; their slots will be set one by one.
pub(crate) fn limit<'a>(all: impl Iterator<Item = &'a mut Vec<PageRun>>) {
    let mut pages = 0;
    for runs in all {
        runs.retain(|run| {
            pages += run.pages;
            pages <= MOST_PAGES
        });
    }
}

/// Appends the pages of runs with these slots, in ascending order, and returns how many.
pub(crate) fn append(runs: &[PageRun], slots: &[LandingSlot], out: &mut Vec<u8>) -> u64 {
    let unused = TABLE_MISS.map(u64::to_le_bytes).concat();
    let unused = unused.repeat(PAGE as usize / unused.len());
    let mut count = 0;
    for run in runs {
        let (start, end) = run.bytes();
        let at = out.len();
        (0..run.pages).for_each(|_| out.extend_from_slice(&unused));
        let from = slots.partition_point(|s| s.offset() < start);
        let to = slots.partition_point(|s| s.offset() < end);
        // If a slot has several landings, the first one gets it.
        for slot in slots[from..to].iter().rev() {
            let i = at + (slot.offset() - start) as usize;
            out[i..i + SLOT as usize].copy_from_slice(&u64::from(slot.landing).to_le_bytes());
        }
        count += u64::from(run.pages);
    }
    count
}

/// Runs of a file with the offset of each one's pages among all.
pub(crate) fn placed(runs: &[PageRun]) -> impl Iterator<Item = (PageRun, u64)> {
    runs.iter().scan(0, |at, run| {
        let here = *at;
        *at += run.len();
        Some((*run, here))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(addr: u32, landing: u32) -> LandingSlot {
        LandingSlot { addr, landing }
    }

    fn word(pages: &[u8], i: usize) -> u64 {
        u64::from_le_bytes(pages[8 * i..8 * i + 8].try_into().expect("eight bytes"))
    }

    #[test]
    fn runs_hold_every_slot_and_nothing_else() {
        let far = 1024 + 512 * (GAP + 3);
        // The first eight make a run of two pages, the others one of one.
        let mut slots = vec![slot(1024, 7), slot(1024, 9), slot(1535, 8), slot(2047, 5)];
        slots.splice(3..3, (1600..1604).map(|addr| slot(addr, 4)));
        slots.extend((far..far + 8).map(|addr| slot(addr, 6)));
        let runs = runs(&slots);
        assert_eq!(
            runs,
            [
                PageRun { page: 2, pages: 2 },
                PageRun {
                    page: far / 512,
                    pages: 1
                }
            ]
        );
        let offsets: Vec<u64> = placed(&runs).map(|(_, offset)| offset).collect();
        assert_eq!(offsets, [0, 2 * PAGE]);
        let mut pages = Vec::new();
        assert_eq!(append(&runs, &slots, &mut pages), 3);
        assert_eq!(pages.len() as u64, 3 * PAGE);
        for i in 0..pages.len() / 8 {
            let expected = match i {
                0 => 7,
                511 => 8,
                576..580 => 4,
                1023 => 5,
                1024..1032 => 6,
                _ => TABLE_MISS[i & 1],
            };
            assert_eq!(word(&pages, i), expected, "{i}");
        }
    }

    #[test]
    fn a_few_slots_are_left_out() {
        let slots: Vec<LandingSlot> = (0..LEAST_SLOTS as u32).map(|i| slot(i, 1)).collect();
        assert_eq!(runs(&slots), [PageRun { page: 0, pages: 1 }]);
        assert_eq!(runs(&slots[1..]), []);
    }

    #[test]
    fn neighbours_are_one_run() {
        let slots: Vec<LandingSlot> = (0..8).map(|i| slot(i * 512 * (GAP + 1), i)).collect();
        let pages = 7 * (GAP + 1) + 1;
        assert_eq!(runs(&slots), [PageRun { page: 0, pages }]);
        let mut all = [
            runs(&slots),
            vec![PageRun {
                page: 9,
                pages: MOST_PAGES,
            }],
            runs(&slots),
        ];
        limit(all.iter_mut());
        assert_eq!(all.map(|runs| runs.len()), [1, 0, 0]);
    }
}
