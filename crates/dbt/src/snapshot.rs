//! Translations that one process leaves for later ones: the whole code cache with what is
//! known about it, as one file that is mapped instead of translating again.
//!
//! Emitted code depends on nothing but guest bytes, guest addresses and this build of the
//! translator with its options: all of the cache's references are to fixed addresses. So a
//! file fits if its key does, which names build and options. What guest code there is in the
//! new process is another matter: a fragment taken over is *dormant*, found by nothing and
//! linked from nowhere outside its own region, until guest memory has been mapped where it
//! stood and every byte that its region's translations were made from has been compared.
//!
//! A file is never believed blindly: its checksum covers all of it, and every number in it is
//! checked before use. It must never change what guest code does.

use std::fs::File;
use std::os::fd::AsRawFd;

use relive_host::layout::CACHE_START;
use relive_host::sys;
use xxhash_rust::xxh3::Xxh3;

use crate::exits::{Exit, Kind, NONE};
use crate::fragment::{ENTRIES, Entry, Fragment};
use crate::instr_op::InstrOp;
use crate::recover::{Mark, Undo};
use crate::translator::Translator;

/// Reads guest memory for [`Translator::save`]; `false` if that is not possible.
pub type Read<'a> = dyn FnMut(u64, &mut [u8]) -> bool + 'a;
/// Says whether guest memory at an address holds these bytes.
pub type Compare<'a> = dyn FnMut(u64, &[u8]) -> bool + 'a;

/// How [`Translator::load`] brings code into the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// By private maps of the file: pages are read when they are executed.
    Map,
    /// By copying, where no memory may become executable any more.
    Copy,
}

const MAGIC: u64 = 0x3130_444f_4356_4c52;
const PAGE: u64 = 4096;
/// Words of the header; the checksum covers those from [`SUMMED`] on, and all that follows.
const WORDS: usize = SUMMED + count::ALL;
const SUMMED: usize = 4;
/// Bytes of one encoded record.
const EXIT: usize = 32;
const FRAGMENT: usize = 48;
const MARK: usize = 6;
const OP: usize = 3;
/// Stands for dead flags that have not been looked up.
const UNKNOWN: u16 = u16::MAX;
const REGION: usize = 24;
const SPAN: usize = 16;
/// Spans of guest bytes with gaps up to this are one.
const GAP: u64 = 32;
/// Larger files cost more to write and to check than they are worth.
const MOST_BYTES: usize = 96 << 20;

/// Fragments of one region of guest code, waiting for it.
pub(crate) struct Dormant {
    start: u64,
    end: u64,
    fragments: Vec<u32>,
    /// Address and bytes that they depend on.
    guest: Vec<(u64, Vec<u8>)>,
}

/// The counts of a file, in the order of its header: places in the array.
mod count {
    pub const KEPT: usize = 0;
    pub const HOT: usize = 1;
    pub const COLD: usize = 2;
    pub const EXITS: usize = 3;
    pub const FRAGMENTS: usize = 4;
    pub const MARKS: usize = 5;
    pub const REGIONS: usize = 6;
    pub const SPANS: usize = 7;
    pub const GUEST: usize = 8;
    pub const IDS: usize = 9;
    pub const OPS: usize = 10;
    pub const ALL: usize = 11;
}

struct Header([u64; count::ALL]);

impl Header {
    /// Bytes behind the code.
    fn tail(&self) -> Option<u64> {
        [
            (count::EXITS, EXIT),
            (count::FRAGMENTS, FRAGMENT),
            (count::MARKS, MARK),
            (count::OPS, OP),
            (count::REGIONS, REGION),
            (count::SPANS, SPAN),
            (count::IDS, 4),
            (count::GUEST, 1),
        ]
        .iter()
        .try_fold(0u64, |sum, &(n, size)| {
            sum.checked_add(self.0[n].checked_mul(size as u64)?)
        })
    }
}

/// The pages of the cache that fragments and stubs lie on, and where they are in the file.
fn pages(hot: u32, cold: u32, end: u32) -> [(u64, u64, u64); 2] {
    let start = CACHE_START;
    let hot = u64::from(hot).next_multiple_of(PAGE);
    let cold = u64::from(cold) / PAGE * PAGE;
    let hot_bytes = hot - start;
    [
        (start, hot_bytes, PAGE),
        (cold, u64::from(end) - cold, PAGE + hot_bytes),
    ]
}

/// How many fragments a file offers, if it has this key; looks at its beginning only.
#[must_use]
pub(crate) fn offered(key: u128, head: &[u8]) -> Option<u64> {
    let word = |i: usize| {
        let bytes = head.get(8 * i..8 * i + 8)?;
        bytes.try_into().map(u64::from_le_bytes).ok()
    };
    let same = word(0)? == MAGIC && word(1)? == key as u64 && word(2)? == (key >> 64) as u64;
    same.then(|| word(SUMMED)).flatten()
}

impl Translator {
    /// How many fragments the file behind `file` offers for this key.
    #[must_use]
    pub fn offered(key: u128, file: &File) -> Option<u64> {
        use std::os::unix::fs::FileExt;
        let mut head = [0; 8 * WORDS];
        file.read_exact_at(&mut head, 0).ok()?;
        offered(key, &head)
    }

    /// Whether translations say nothing but what guest code says: nothing is watched, nowhere
    /// does the guest stop for somebody who looks at it.
    fn is_plain(&self) -> bool {
        self.breakpoints.is_empty() && self.watch.is_empty()
    }

    /// Fragments translated here, not taken over.
    #[must_use]
    pub fn fresh(&self) -> u64 {
        self.fresh
    }

    /// Fragments taken over.
    #[must_use]
    pub fn taken_over(&self) -> u64 {
        self.taken_over
    }

    /// The file for later processes: translations of guest code in `ranges`, which are not
    /// writable and whose bytes `read` gives. `None` if there is nothing to keep, or too much.
    #[must_use]
    pub fn save(&self, key: u128, ranges: &[(u64, u64)], read: &mut Read<'_>) -> Option<Vec<u8>> {
        let (all, marks) = self.frags.parts();
        let (hot, cold, end) = self.exits.cache.bounds();
        let code = pages(hot, cold, end);
        let estimate = (code[0].1 + code[1].1) as usize
            + self.exits.all.len() * EXIT
            + all.len() * (FRAGMENT + 4)
            + marks.len() * MARK;
        if estimate > MOST_BYTES || !self.is_plain() {
            return None;
        }
        let mut region_of = self.regions_of(ranges);
        let regions = regions(all, &mut region_of, ranges, read);
        let kept = region_of.iter().filter(|r| **r != NONE).count();
        if kept == 0 {
            return None;
        }

        let mut out = vec![0; PAGE as usize];
        for (at, len, _) in code {
            out.extend_from_slice(&self.exits.cache.read(at as u32, len as u32));
        }
        let exits = self.encode_exits(&region_of, &mut out, code);
        out.extend_from_slice(&exits);
        for (fragment, region) in all.iter().zip(&region_of) {
            put_fragment(&mut out, fragment, *region != NONE);
        }
        marks.iter().for_each(|m| put_mark(&mut out, m));
        let ops = self.exits.ops.iter();
        ops.for_each(|op| out.extend_from_slice(&op.to_bytes()));
        let (mut spans, mut guest, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for r in &regions {
            let words = [r.start, r.end];
            words
                .iter()
                .for_each(|w| out.extend_from_slice(&w.to_le_bytes()));
            out.extend_from_slice(&(r.fragments.len() as u32).to_le_bytes());
            out.extend_from_slice(&(r.guest.len() as u32).to_le_bytes());
            for (at, bytes) in &r.guest {
                spans.extend_from_slice(&at.to_le_bytes());
                spans.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                guest.extend_from_slice(bytes);
            }
            r.fragments
                .iter()
                .for_each(|id| ids.extend_from_slice(&id.to_le_bytes()));
        }
        let mut header = Header([0; count::ALL]);
        for (place, n) in [
            (count::KEPT, kept as u64),
            (count::HOT, hot.into()),
            (count::COLD, cold.into()),
            (count::EXITS, self.exits.all.len() as u64),
            (count::FRAGMENTS, all.len() as u64),
            (count::MARKS, marks.len() as u64),
            (count::REGIONS, regions.len() as u64),
            (count::SPANS, (spans.len() / SPAN) as u64),
            (count::GUEST, guest.len() as u64),
            (count::IDS, (ids.len() / 4) as u64),
            (count::OPS, self.exits.ops.len() as u64),
        ] {
            header.0[place] = n;
        }
        for part in [spans, ids, guest] {
            out.extend_from_slice(&part);
        }
        for (i, word) in header.0.iter().enumerate() {
            let at = 8 * (SUMMED + i);
            out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let sum = checksum(&out);
        for (i, word) in [MAGIC, key as u64, (key >> 64) as u64, sum]
            .iter()
            .enumerate()
        {
            out[8 * i..8 * i + 8].copy_from_slice(&word.to_le_bytes());
        }
        Some(out)
    }

    /// For each fragment the range that it lies in, if it is to be kept.
    fn regions_of(&self, ranges: &[(u64, u64)]) -> Vec<u32> {
        let (all, _) = self.frags.parts();
        let place = |f: &Fragment| {
            let inside = |r: &(u64, u64)| r.0 <= f.pc && f.end <= r.1;
            let fits = f.live && !f.step && self.frags.find(f.pc).is_some();
            let found = fits.then(|| ranges.iter().position(inside)).flatten();
            found.map_or(NONE, |i| i as u32)
        };
        let mut region_of: Vec<u32> = all.iter().map(place).collect();
        for (id, fragment) in all.iter().enumerate() {
            if self.frags.find(fragment.pc) != Some(id as u32) {
                region_of[id] = NONE;
            }
        }
        region_of
    }

    /// Encodes the exits; those linked across regions, or with what is not kept, go to their
    /// stubs again, in the copy of the code in `out` too.
    fn encode_exits(
        &self,
        region_of: &[u32],
        out: &mut [u8],
        code: [(u64, u64, u64); 2],
    ) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.exits.all.len() * EXIT);
        for exit in &self.exits.all {
            let mut target = NONE;
            if exit.linked {
                let to = self.frags.find(exit.pc).unwrap_or(NONE);
                let region = |id: u32| region_of.get(id as usize).copied().unwrap_or(NONE);
                if region(to) != NONE && region(to) == region(exit.frag) {
                    target = to;
                } else {
                    let rel = exit.stub.wrapping_sub(exit.site + 4);
                    for (at, len, offset) in code {
                        let site = u64::from(exit.site);
                        if (at..at + len).contains(&site) {
                            let i = (offset + site - at) as usize;
                            out[i..i + 4].copy_from_slice(&rel.to_le_bytes());
                        }
                    }
                }
            }
            let dead = exit.dead.unwrap_or(UNKNOWN).to_le_bytes();
            bytes.extend_from_slice(&[exit.kind as u8, exit.len, dead[0], dead[1]]);
            bytes.extend_from_slice(&exit.aux.to_le_bytes());
            bytes.extend_from_slice(&exit.pc.to_le_bytes());
            for word in [exit.frag, exit.site, exit.stub, target] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        bytes
    }

    /// Takes over a file of [`Translator::save`]; this translator must be fresh or flushed.
    /// Returns how many fragments it offers; 0, and nothing changed, if it is not of use here.
    pub fn load(&mut self, key: u128, file: &File, place: Place) -> u64 {
        assert!(self.frags.next_id() == 0, "the code cache is in use");
        if !self.is_plain() {
            return 0;
        }
        let Some(view) = View::of(file) else { return 0 };
        let bytes = view.bytes();
        let (_, _, end) = self.exits.cache.bounds();
        let Some(parsed) = parse(key, bytes, end) else {
            return 0;
        };
        for (at, len, offset) in pages(parsed.hot, parsed.cold, end) {
            let placed = match place {
                Place::Map => map(file, at, len, offset),
                Place::Copy => false,
            };
            if !placed {
                let part = &bytes[offset as usize..(offset + len) as usize];
                self.exits.cache.write(at as u32, part);
            }
        }
        self.exits.cache.take_over(parsed.hot, parsed.cold);
        self.exits.all = parsed.exits;
        self.exits.ops = parsed.ops;
        self.frags.take_over(parsed.fragments, parsed.marks);
        self.dormant = parsed.dormant;
        self.taken_over = parsed.kept;
        self.stats.taken_over += parsed.kept;
        parsed.kept
    }

    /// Guest code now lies in `start..end`, where it cannot be written: dormant fragments that
    /// were made from the very same bytes there come into use.
    pub fn activate(&mut self, start: u64, end: u64, same: &mut Compare<'_>) {
        if !self.is_plain() {
            self.dormant.clear();
        }
        let mut i = 0;
        while i < self.dormant.len() {
            let region = &self.dormant[i];
            if region.start < start || region.end > end {
                i += 1;
                continue;
            }
            let region = self.dormant.swap_remove(i);
            if region.guest.iter().all(|(at, bytes)| same(*at, bytes)) {
                region.fragments.iter().for_each(|id| self.frags.index(*id));
                self.fill_table(&region.fragments);
            }
        }
    }
}

impl Translator {
    /// Gives fragments the table slots that their landings were made for, all at once: one
    /// after the other they would cost a stop and a page fault each.
    fn fill_table(&mut self, fragments: &[u32]) {
        let mut slots = Vec::with_capacity(fragments.len());
        for id in fragments {
            let fragment = self.frags.get(*id);
            for (kind, slot) in [
                (Entry::Jump, fragment.pc),
                (Entry::Return, fragment.pc.wrapping_sub(1)),
            ] {
                slots.extend(fragment.entry(kind).map(|at| (slot, u64::from(at))));
            }
        }
        slots.sort_unstable();
        self.table.populate(slots.iter().map(|(slot, _)| *slot));
        for (slot, landing) in slots {
            if self.table.is_free(slot) {
                self.table.set(slot, landing);
            }
        }
    }
}

/// Groups the kept fragments by region, with the guest bytes that they depend on. A region
/// whose bytes cannot be read is not kept.
fn regions(
    all: &[Fragment],
    region_of: &mut [u32],
    ranges: &[(u64, u64)],
    read: &mut Read<'_>,
) -> Vec<Dormant> {
    let mut found = Vec::new();
    for number in 0..ranges.len() as u32 {
        let members = || (0..all.len() as u32).filter(|id| region_of[*id as usize] == number);
        let fragments: Vec<u32> = members().collect();
        if fragments.is_empty() {
            continue;
        }
        let mut needed: Vec<(u64, u64)> = members()
            .map(|id| (all[id as usize].pc, all[id as usize].end))
            .collect();
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
            for id in fragments {
                region_of[id as usize] = NONE;
            }
            continue;
        }
        let (start, end) = (spans[0].0, spans[spans.len() - 1].1);
        found.push(Dormant {
            start,
            end,
            fragments,
            guest,
        });
    }
    found
}

fn put_fragment(out: &mut Vec<u8>, f: &Fragment, kept: bool) {
    out.extend_from_slice(&f.pc.to_le_bytes());
    out.extend_from_slice(&f.end.to_le_bytes());
    for at in f.entries {
        out.extend_from_slice(&at.to_le_bytes());
    }
    out.extend_from_slice(&f.first_mark.to_le_bytes());
    out.extend_from_slice(&f.marks.to_le_bytes());
    out.extend_from_slice(&[u8::from(kept), u8::from(f.step)]);
    out.extend_from_slice(&[0; 8]);
}

fn put_mark(out: &mut Vec<u8>, mark: &Mark) {
    out.extend_from_slice(&mark.cache.to_le_bytes());
    out.extend_from_slice(&mark.guest.to_le_bytes());
    let undo = match mark.undo {
        Undo::Exact => [0, 0],
        Undo::Rcx => [1, 0],
        Undo::Push => [2, 0],
        Undo::RcxPush => [3, 0],
        Undo::JumpMiss => [4, 0],
        Undo::ReturnMiss => [5, 0],
        Undo::Scratch(reg) => [6, reg],
    };
    out.extend_from_slice(&undo);
}

/// A file's content, checked.
struct Parsed {
    kept: u64,
    hot: u32,
    cold: u32,
    exits: Vec<Exit>,
    fragments: Vec<Fragment>,
    marks: Vec<Mark>,
    ops: Vec<InstrOp>,
    dormant: Vec<Dormant>,
}

fn parse(key: u128, bytes: &[u8], cache_end: u32) -> Option<Parsed> {
    let word = |i: usize| {
        let word = bytes.get(8 * i..8 * i + 8)?;
        word.try_into().map(u64::from_le_bytes).ok()
    };
    offered(key, bytes)?;
    if bytes.len() < PAGE as usize || word(3)? != checksum(bytes) {
        return None;
    }
    let mut header = Header([0; count::ALL]);
    for (i, n) in header.0.iter_mut().enumerate() {
        *n = word(SUMMED + i)?;
    }
    let (hot, cold) = (
        u32::try_from(header.0[count::HOT]).ok()?,
        u32::try_from(header.0[count::COLD]).ok()?,
    );
    if u64::from(hot) < CACHE_START || hot > cold || cold > cache_end {
        return None;
    }
    let [_, (_, cold_bytes, cold_at)] = pages(hot, cold, cache_end);
    let tail = cold_at + cold_bytes;
    if tail.checked_add(header.tail()?)? != bytes.len() as u64 {
        return None;
    }
    let mut rest = Rest(&bytes[tail as usize..]);
    let mut exits = rest.records::<EXIT, _>(header.0[count::EXITS], exit)?;
    let mut fragments = rest.records::<FRAGMENT, _>(header.0[count::FRAGMENTS], fragment)?;
    let marks = rest.records::<MARK, _>(header.0[count::MARKS], mark)?;
    let ops = rest.records::<OP, _>(header.0[count::OPS], |b| InstrOp::from_bytes(*b))?;
    let inside = |at: u32| u64::from(at) >= CACHE_START && at <= cache_end - 4;
    let known = |id: u32| id == NONE || (id as usize) < fragments.len();
    let ops_known = |e: &Exit| e.kind != Kind::Instr || (e.aux as usize) < ops.len();
    let sound = exits.iter().all(ops_known)
        && exits.iter().all(|e| {
            known(e.frag) && known(e.next_incoming) && inside(e.site | CACHE_START as u32)
        })
        && fragments.iter().all(|f| {
            let marks_end = u64::from(f.first_mark) + u64::from(f.marks);
            marks_end <= header.0[count::MARKS]
                && ENTRIES.iter().all(|k| f.entry(*k).is_none_or(inside))
        });
    if !sound {
        return None;
    }
    // On disk the chain of links is each exit's target.
    for (number, exit) in exits.iter_mut().enumerate() {
        if let Some(target) = fragments.get_mut(exit.next_incoming as usize) {
            exit.linked = true;
            exit.next_incoming = target.incoming;
            target.incoming = number as u32;
        }
    }
    Some(Parsed {
        kept: header.0[count::KEPT],
        hot,
        cold,
        dormant: dormant(&header, &mut rest, fragments.len())?,
        exits,
        fragments,
        marks,
        ops,
    })
}

fn dormant(header: &Header, rest: &mut Rest<'_>, fragments: usize) -> Option<Vec<Dormant>> {
    let regions = rest.records::<REGION, _>(header.0[count::REGIONS], |b| {
        Some((u64_at(b, 0), u64_at(b, 8), u32_at(b, 16), u32_at(b, 20)))
    })?;
    let spans = rest.records::<SPAN, _>(header.0[count::SPANS], |b| {
        Some((u64_at(b, 0), u64_at(b, 8)))
    })?;
    let ids = rest.records::<4, _>(header.0[count::IDS], |b| {
        let id = u32_at(b, 0);
        ((id as usize) < fragments).then_some(id)
    })?;
    let (mut spans, mut ids) = (spans.into_iter(), ids.into_iter());
    regions
        .into_iter()
        .map(|(start, end, members, guests)| {
            let mut guest = Vec::new();
            for (at, len) in spans.by_ref().take(guests as usize) {
                guest.push((at, rest.take(usize::try_from(len).ok()?)?.to_vec()));
            }
            Some(Dormant {
                start,
                end,
                fragments: ids.by_ref().take(members as usize).collect(),
                guest,
            })
        })
        .collect()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn exit(b: &[u8; EXIT]) -> Option<Exit> {
    let kind = *Kind::ALL.get(usize::from(b[0]))?;
    let mut exit = Exit::new(kind, u32_at(b, 16), u64_at(b, 8));
    (exit.len, exit.aux) = (b[1], u32_at(b, 4));
    exit.dead = Some(u16::from_le_bytes([b[2], b[3]])).filter(|d| *d != UNKNOWN);
    (exit.site, exit.stub) = (u32_at(b, 20), u32_at(b, 24));
    exit.next_incoming = u32_at(b, 28);
    Some(exit)
}

fn fragment(b: &[u8; FRAGMENT]) -> Option<Fragment> {
    Some(Fragment {
        pc: u64_at(b, 0),
        end: u64_at(b, 8),
        entries: [16, 20, 24, 28].map(|at| u32_at(b, at)),
        first_mark: u32_at(b, 32),
        marks: u16::from_le_bytes([b[36], b[37]]),
        live: b[38] != 0,
        step: b[39] != 0,
        incoming: NONE,
    })
}

fn mark(b: &[u8; MARK]) -> Option<Mark> {
    Some(Mark {
        cache: u16::from_le_bytes([b[0], b[1]]),
        guest: u16::from_le_bytes([b[2], b[3]]),
        undo: match b[4] {
            0 => Undo::Exact,
            1 => Undo::Rcx,
            2 => Undo::Push,
            3 => Undo::RcxPush,
            4 => Undo::JumpMiss,
            5 => Undo::ReturnMiss,
            6 if b[5] < 16 => Undo::Scratch(b[5]),
            _ => return None,
        },
    })
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    fn records<const N: usize, T>(
        &mut self,
        n: u64,
        read: impl Fn(&[u8; N]) -> Option<T>,
    ) -> Option<Vec<T>> {
        let bytes = self.take(usize::try_from(n).ok()?.checked_mul(N)?)?;
        let (records, _) = bytes.as_chunks::<N>();
        records.iter().map(read).collect()
    }
}

/// Of everything but the words in front of it.
fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(&bytes[8 * SUMMED..]);
    sum.digest()
}

/// Maps a part of the file over the cache; `false` if the kernel does not like it.
fn map(file: &File, at: u64, len: u64, offset: u64) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let fd = file.as_raw_fd() as u64;
    let args = [at, len, prot as u64, flags as u64, fd, offset];
    // SAFETY: the range lies in the code cache, as `parse` has checked, which is empty; a map
    // that is refused leaves it as it was.
    len == 0 || unsafe { sys::syscall(libc::SYS_mmap as u64, args) } >= 0
}

/// A file in memory, to be read once.
struct View {
    at: u64,
    len: usize,
}

impl View {
    fn of(file: &File) -> Option<Self> {
        let len = usize::try_from(file.metadata().ok()?.len()).ok()?;
        if !(PAGE as usize..=2 * MOST_BYTES).contains(&len) {
            return None;
        }
        let (prot, flags) = (libc::PROT_READ, libc::MAP_PRIVATE);
        let fd = file.as_raw_fd() as u64;
        let args = [0, len as u64, prot as u64, flags as u64, fd, 0];
        // SAFETY: a fresh read-only map. Files are replaced, never changed, and lie where only
        // their owner can write.
        let at = unsafe { sys::syscall(libc::SYS_mmap as u64, args) };
        (at > 0).then_some(Self { at: at as u64, len })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: our own map of this length, which lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.at as *const u8, self.len) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: our own map, which nothing refers to any more.
        unsafe {
            sys::syscall(
                libc::SYS_munmap as u64,
                [self.at, self.len as u64, 0, 0, 0, 0],
            )
        };
    }
}
