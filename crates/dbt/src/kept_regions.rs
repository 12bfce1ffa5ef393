//! The regions of guest code whose translations are kept: their fragments, the guest bytes that these
//! depend on, and the table slots of their landings. A region with a byte that cannot be read is
//! not kept.

use crate::exit::NONE;
use crate::fragment::Fragment;
use crate::fragments::SpansById;
use crate::kept_slots::{self, LandingSlot, PageRun};
use crate::records::Records;

/// Reads guest memory for [`Translator::save`]; `false` if that is not possible.
pub type Read<'a> = dyn FnMut(u64, &mut [u8]) -> bool + 'a;

/// Spans of guest bytes with gaps up to this are one.
const GAP: u64 = 32;

/// A region of guest code with its kept translations.
pub(crate) struct KeptRegion {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) ids: Vec<u32>,
    /// Address and bytes that they depend on.
    pub(crate) guest: Vec<(u64, Vec<u8>)>,
    pub(crate) slots: Vec<LandingSlot>,
    pub(crate) runs: Vec<PageRun>,
}

/// Groups the kept fragments by region, with the guest bytes that they depend on. A region whose
/// bytes cannot be read is not kept.
pub(crate) fn regions(
    all: &Records<Fragment>,
    farther: &SpansById,
    region_of: &mut [u32],
    ranges: &[(u64, u64)],
    read: &mut Read<'_>,
) -> Vec<KeptRegion> {
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); ranges.len()];
    for (id, range) in (0..).zip(region_of.iter_mut()) {
        // Regions that are kept are numbered anew.
        match std::mem::replace(range, NONE) {
            NONE => {}
            range => members[range as usize].push(id),
        }
    }
    let mut found: Vec<KeptRegion> = Vec::new();
    for ids in members.into_iter().filter(|ids| !ids.is_empty()) {
        let fragments = || ids.iter().map(|id| &all[*id as usize]);
        let mut needed: Vec<(u64, u64)> = fragments().map(|f| (f.pc, f.end)).collect();
        let farther = ids.iter().filter_map(|id| farther.get(&u64::from(*id)));
        needed.extend(farther.flatten());
        needed.sort_unstable();
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for (from, to) in needed {
            match spans.last_mut() {
                Some(last) if from <= last.1 + GAP => last.1 = last.1.max(to),
                _ => spans.push((from, to)),
            }
        }
        let mut readable = true;
        let guest: Vec<(u64, Vec<u8>)> = spans
            .iter()
            .map(|&(from, to)| {
                let mut bytes = vec![0; (to - from) as usize];
                readable &= read(from, &mut bytes);
                (from, bytes)
            })
            .collect();
        if !readable {
            continue;
        }
        let slots = kept_slots::of(fragments());
        let runs = kept_slots::runs(&slots);
        let (start, end) = (spans[0].0, spans[spans.len() - 1].1);
        ids.iter()
            .for_each(|id| region_of[*id as usize] = found.len() as u32);
        found.push(KeptRegion {
            start,
            end,
            ids,
            guest,
            slots,
            runs,
        });
    }
    kept_slots::limit(found.iter_mut().map(|r| &mut r.runs));
    found
}
