//! The format of a file of translations: a header of counts, the pages of the code cache, lists of
//! records, and pages of the branch table. Nothing in a file is trusted: its checksum covers all of
//! it, and a file with inconsistent content is refused.

use std::fs::File;
use std::sync::Arc;

use bytemuck::{Pod, bytes_of};
use relive_host::addr::PAGE;
use relive_host::layout::CACHE_START;
use xxhash_rust::xxh3::Xxh3;

use crate::cache::TAIL;
use crate::exit::ExitRecord;
use crate::fragment::Fragment;
use crate::instr_op::InstrOp;
use crate::marks::MarkRecord;
use crate::records::Mapped;
use crate::taken_over::{Lists, TakenOver};
use crate::view::View;

const MAGIC: u64 = 0x3530_444f_4356_4c52;
/// Words of the header; the checksum covers those from [`SUMMED`] on, and all that follows.
const WORDS: usize = SUMMED + count::ALL;
const SUMMED: usize = 4;
/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 8 * WORDS;
/// Sections begin at multiples of this.
const ALIGN: usize = 8;
/// Bytes of an operation.
const OP: usize = 3;
/// Larger files cost more to write and to check than they are worth.
pub(crate) const MOST_BYTES: usize = 128 << 20;

/// The counts of a file, in the order of its header: places in the array.
pub(crate) mod count {
    pub(crate) const KEPT: usize = 0;
    pub(crate) const HOT: usize = 1;
    pub(crate) const COLD: usize = 2;
    pub(crate) const FRAGMENTS: usize = 3;
    pub(crate) const EXITS: usize = 4;
    pub(crate) const MARKS: usize = 5;
    pub(crate) const OPS: usize = 6;
    pub(crate) const REGIONS: usize = 7;
    pub(crate) const IDS: usize = 8;
    pub(crate) const SPANS: usize = 9;
    /// Runs of pages of the branch table.
    pub(crate) const RUNS: usize = 10;
    pub(crate) const BUCKETS: usize = 11;
    pub(crate) const GUEST: usize = 12;
    pub(crate) const FARTHER: usize = 13;
    /// 1 if branches use the hashed table.
    pub(crate) const HASHED: usize = 14;
    /// Pages in the runs, at the end of the file.
    pub(crate) const TABLE: usize = 15;
    /// 1 if calls may be paired, 2 if they can never be in this program.
    pub(crate) const PAIRED: usize = 16;
    pub(crate) const ALL: usize = 17;
}

pub(crate) struct Header([u64; count::ALL]);

/// The pages of the cache that fragments and stubs lie on, and where they are in the file.
pub(crate) fn pages(hot: u32, cold: u32, end: u32) -> [(u64, u64, u64); 2] {
    let start = CACHE_START;
    let hot = u64::from(hot).next_multiple_of(PAGE);
    let cold = u64::from(cold) / PAGE * PAGE;
    let hot_bytes = hot - start;
    [
        (start, hot_bytes, PAGE),
        (cold, u64::from(end) - cold, PAGE + hot_bytes),
    ]
}

/// The number of fragments that a file offers, if it has this key; reads its beginning only.
#[must_use]
pub(crate) fn offered(key: u128, head: &[u8]) -> Option<u64> {
    let word = |i: usize| {
        let bytes = head.get(8 * i..8 * i + 8)?;
        bytes.try_into().map(u64::from_le_bytes).ok()
    };
    let same = word(0)? == MAGIC && word(1)? == key as u64 && word(2)? == (key >> 64) as u64;
    same.then(|| word(SUMMED)).flatten()
}

/// A file in the making.
pub(crate) struct Out(pub(crate) Vec<u8>);

impl Out {
    /// A file with an empty header, with room for about this many bytes.
    pub(crate) fn with_room(bytes: usize) -> Self {
        let mut out = Vec::with_capacity(bytes + bytes / 8 + PAGE as usize);
        out.resize(PAGE as usize, 0);
        Self(out)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn set(&mut self, place: usize, n: u64) {
        let at = 8 * (SUMMED + place);
        self.0[at..at + 8].copy_from_slice(&n.to_le_bytes());
    }

    /// Appends a list, and its length to the header.
    pub(crate) fn section<T: Pod>(&mut self, place: usize, records: impl Iterator<Item = T>) {
        self.0.resize(self.0.len().next_multiple_of(ALIGN), 0);
        let mut n = 0;
        for record in records {
            self.0.extend_from_slice(bytes_of(&record));
            n += 1;
        }
        self.set(place, n);
    }

    pub(crate) fn finish(mut self, key: u128) -> Vec<u8> {
        let sum = checksum(&self.0);
        for (i, word) in [MAGIC, key as u64, (key >> 64) as u64, sum]
            .iter()
            .enumerate()
        {
            self.0[8 * i..8 * i + 8].copy_from_slice(&word.to_le_bytes());
        }
        self.0
    }
}

/// A file's content.
pub(crate) struct Parsed {
    pub(crate) kept: u64,
    pub(crate) hot: u32,
    pub(crate) cold: u32,
    pub(crate) exits: Mapped<ExitRecord>,
    pub(crate) fragments: Mapped<Fragment>,
    pub(crate) marks: Mapped<MarkRecord>,
    pub(crate) ops: Vec<InstrOp>,
    pub(crate) found_by: TakenOver,
    pub(crate) hashed: bool,
    pub(crate) paired: u64,
}

/// The file in memory, if it has this key: its header, all before the table's pages, and these.
pub(crate) fn open(key: u128, file: &File, checked: bool) -> Option<(View, Header, View)> {
    let mut view = View::of(file, 2 * MOST_BYTES)?;
    let word = |i: usize| {
        let word = view.bytes().get(8 * i..8 * i + 8)?;
        word.try_into().map(u64::from_le_bytes).ok()
    };
    offered(key, view.bytes())?;
    if view.len() < PAGE as usize {
        return None;
    }
    if !checked {
        view.populate();
        if word(3)? != checksum(view.bytes()) {
            return None;
        }
    }
    let mut header = Header([0; count::ALL]);
    for (i, n) in header.0.iter_mut().enumerate() {
        *n = word(SUMMED + i)?;
    }
    let pages = usize::try_from(header.0[count::TABLE]).ok()?;
    let table = view.len().checked_sub(pages.checked_mul(PAGE as usize)?)?;
    let table = view.split_off(table)?;
    table.protect();
    Some((view, header, table))
}

pub(crate) fn parse(
    view: &Arc<View>,
    header: Header,
    table: View,
    cache_end: u32,
) -> Option<Parsed> {
    let (hot, cold) = (
        u32::try_from(header.0[count::HOT]).ok()?,
        u32::try_from(header.0[count::COLD]).ok()?,
    );
    if u64::from(hot) < CACHE_START || hot > cold || cold > cache_end - TAIL {
        return None;
    }
    let [_, (_, cold_bytes, cold_at)] = pages(hot, cold, cache_end);
    let mut rest = Rest {
        view,
        header,
        at: usize::try_from(cold_at + cold_bytes).ok()?,
    };
    let fragments = rest.section(count::FRAGMENTS)?;
    let exits = rest.section(count::EXITS)?;
    let marks = rest.section(count::MARKS)?;
    let ops: Mapped<u8> = rest.section(count::OPS)?;
    let (ops, _) = ops.all().as_chunks::<OP>();
    let ops = ops.iter().map(|b| InstrOp::from_bytes(*b));
    let ops = ops.collect::<Option<Vec<_>>>()?;
    let lists = Lists {
        regions: rest.section(count::REGIONS)?,
        ids: rest.section(count::IDS)?,
        spans: rest.section(count::SPANS)?,
        runs: rest.section(count::RUNS)?,
        buckets: rest.section(count::BUCKETS)?,
        guest: rest.section(count::GUEST)?,
        farther: rest.section(count::FARTHER)?,
    };
    if rest.at.next_multiple_of(PAGE as usize) != view.len() {
        return None;
    }
    Some(Parsed {
        kept: rest.header.0[count::KEPT],
        hashed: rest.header.0[count::HASHED] != 0,
        paired: rest.header.0[count::PAIRED],
        hot,
        cold,
        exits,
        fragments,
        marks,
        ops,
        found_by: TakenOver::new(lists, table)?,
    })
}

/// The unread lists.
struct Rest<'a> {
    view: &'a Arc<View>,
    header: Header,
    at: usize,
}

impl Rest<'_> {
    /// The next list.
    fn section<T: Pod>(&mut self, place: usize) -> Option<Mapped<T>> {
        let at = self.at.checked_next_multiple_of(ALIGN)?;
        let n = usize::try_from(self.header.0[place]).ok()?;
        let list = Mapped::new(self.view, at, n)?;
        self.at = at + n * size_of::<T>();
        Some(list)
    }
}

/// The checksum of everything but the words in front of it.
fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(&bytes[8 * SUMMED..]);
    sum.digest()
}
