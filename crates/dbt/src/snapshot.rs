//! Translations that one process leaves for later ones: the whole code cache with its records, as
//! one file that is mapped instead of translating again.
//!
//! Emitted code depends on nothing but guest bytes, guest addresses and this build of the
//! translator with its options and passes: all references in the cache are to fixed addresses. So a
//! file fits if its key does, which names build, options and passes. The guest code of the new
//! process may differ: a fragment taken over is *dormant*, found by nothing and linked only from
//! its own region, until guest memory has been mapped at its address and every byte that its
//! region's translations were made from has been compared.
//!
//! A file is never trusted: its checksum covers all of it (it was compared before if the file
//! counts as checked), and its numbers are checked where they are used. Its records are used in
//! place, in a private map. A file must never change the effect of guest code.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use relive_host::addr::PAGE;
use relive_host::sys;

use crate::exit::{ExitRecord, NONE, UNLINKED};
use crate::fragment::Fragment;
use crate::fragments::SpansById;
use crate::kept_file::{self, HEADER_BYTES, MOST_BYTES, Out, count};
use crate::kept_regions::{Read, regions};
use crate::kept_slots::{self, PageRun};
use crate::marks::MarkRecord;
use crate::taken_over::{self, Compare, Farther, RegionRecord, Span};
use crate::translator::Translator;

impl Translator {
    /// The number of fragments that the file behind `file` offers for this key.
    #[must_use]
    pub fn offered(key: u128, file: &File) -> Option<u64> {
        use std::os::unix::fs::FileExt;
        let mut head = [0; HEADER_BYTES];
        file.read_exact_at(&mut head, 0).ok()?;
        kept_file::offered(key, &head)
    }

    /// Whether translations are of use to other processes: there are no breakpoints, and all passes
    /// name the inputs of their code.
    fn is_plain(&self) -> bool {
        self.breakpoints.is_empty() && self.passes.key().is_some()
    }

    /// Fragments translated here, not taken over.
    #[must_use]
    pub fn fresh(&self) -> u64 {
        self.fresh
    }

    /// Those of them that a file with code in `ranges` would have.
    #[must_use]
    pub fn fresh_in(&self, ranges: &[(u64, u64)]) -> u64 {
        let made = self.frags.made_here();
        let kept = made.filter(|(id, f, farther)| self.region_of(*id, f, farther, ranges) != NONE);
        kept.count() as u64
    }

    /// Fragments taken over.
    #[must_use]
    pub fn taken_over(&self) -> u64 {
        self.taken_over
    }

    /// The file for later processes: translations of guest code in `ranges`, which are not writable
    /// and whose bytes `read` gives. `None` if there is nothing to keep, or too much.
    #[must_use]
    pub fn save(&self, key: u128, ranges: &[(u64, u64)], read: &mut Read<'_>) -> Option<Vec<u8>> {
        let (all, marks) = self.frags.parts();
        let (hot, cold, end) = self.exits.cache.bounds();
        let code = kept_file::pages(hot, cold, end);
        let estimate = (code[0].1 + code[1].1) as usize
            + self.exits.all.len() * size_of::<ExitRecord>()
            + all.len() * (size_of::<Fragment>() + 20)
            + marks.len() * size_of::<MarkRecord>();
        if estimate > MOST_BYTES || !self.is_plain() {
            return None;
        }
        let farther = self.frags.all_farther();
        let mut region_of = self.regions_of(ranges, &farther);
        let regions = regions(all, &farther, &mut region_of, ranges, read);
        let mut by_pc: Vec<(u64, u32)> = Vec::new();
        for (id, fragment) in all.iter().enumerate() {
            if region_of[id] != NONE {
                by_pc.push((fragment.pc, id as u32));
            }
        }
        let kept = by_pc.len() as u64;
        if kept == 0 {
            return None;
        }

        let table = regions.iter().flat_map(|r| &r.runs);
        let table: u64 = table.map(PageRun::len).sum();
        let mut out = Out::with_room(estimate + table as usize);
        for (at, len, _) in code {
            out.bytes(&self.exits.cache.read(at as u32, len as u32));
        }
        let chains = self.chains(&region_of, &mut out.0, code);
        out.set(count::KEPT, kept);
        out.set(count::HOT, hot.into());
        out.set(count::COLD, cold.into());
        let fragments = all.iter().enumerate().map(|(id, fragment)| Fragment {
            incoming: chains.first[id],
            region: region_of[id],
            live: u8::from(region_of[id] != NONE),
            ..*fragment
        });
        out.section(count::FRAGMENTS, fragments);
        let exits = self.exits.all.iter().zip(&chains.next);
        out.section(
            count::EXITS,
            exits.map(|(exit, next)| {
                let mut exit = *exit;
                exit.next_incoming = *next;
                exit
            }),
        );
        out.section(count::MARKS, marks.iter().copied());
        let ops = self.exits.ops.iter().flat_map(|op| op.to_bytes());
        out.section(count::OPS, ops);
        let records = regions.iter().map(|r| RegionRecord {
            start: r.start,
            end: r.end,
            ids: r.ids.len() as u32,
            spans: r.guest.len() as u32,
            runs: r.runs.len() as u32,
            zero: 0,
        });
        out.section(count::REGIONS, records);
        out.section(
            count::IDS,
            regions.iter().flat_map(|r| r.ids.iter().copied()),
        );
        let mut offset = 0;
        let spans = regions.iter().flat_map(|r| &r.guest).map(|(at, bytes)| {
            let (at, len) = (*at, bytes.len() as u32);
            offset += len;
            Span {
                at,
                len,
                offset: offset - len,
            }
        });
        out.section(count::SPANS, spans);
        out.section(
            count::RUNS,
            regions.iter().flat_map(|r| r.runs.iter().copied()),
        );
        out.section(
            count::BUCKETS,
            taken_over::buckets(&by_pc, NONE).into_iter(),
        );
        let guest = regions.iter().flat_map(|r| &r.guest);
        out.section(
            count::GUEST,
            guest.flat_map(|(_, bytes)| bytes.iter().copied()),
        );
        let farther = farther.iter();
        let farther = farther.filter(|(id, _)| region_of[**id as usize] != NONE);
        out.section(
            count::FARTHER,
            farther.flat_map(|(id, spans)| {
                let id = *id as u32;
                spans.iter().map(move |&span| Farther::new(id, span))
            }),
        );
        out.set(count::HASHED, self.hashed.is_mapped().into());
        let never = u64::from(self.shadow.is_forbidden());
        out.set(count::PAIRED, 2 * never + u64::from(self.paired));
        out.0.resize(out.0.len().next_multiple_of(PAGE as usize), 0);
        let mut pages = 0;
        for region in &regions {
            pages += kept_slots::append(&region.runs, &region.slots, &mut out.0);
        }
        out.set(count::TABLE, pages);
        Some(out.finish(key))
    }

    /// For each fragment the range that holds all its dependencies, if it is to be kept.
    fn regions_of(&self, ranges: &[(u64, u64)], farther: &SpansById) -> Vec<u32> {
        let (all, _) = self.frags.parts();
        let place = |(id, f): (u32, &Fragment)| {
            let farther = farther.get(&id.into()).map_or(&[][..], Vec::as_slice);
            self.region_of(id, f, farther, ranges)
        };
        (0..).zip(all.iter()).map(place).collect()
    }

    /// The range that a fragment lies in with all bytes that it depends on, if it can be kept; or `NONE`.
    fn region_of(
        &self,
        id: u32,
        f: &Fragment,
        farther: &[(u64, u64)],
        ranges: &[(u64, u64)],
    ) -> u32 {
        let inside = |r: &(u64, u64)| {
            let holds = |start, end| r.0 <= start && end <= r.1;
            holds(f.pc, f.end) && farther.iter().all(|s| holds(s.0, s.1))
        };
        let has_site = self.with_sites.contains_key(&f.pc);
        let fits = f.is_live() && !f.is_step() && !has_site && self.frags.find(f.pc) == Some(id);
        let found = fits.then(|| ranges.iter().position(inside)).flatten();
        found.map_or(NONE, |i| i as u32)
    }

    /// The chains of links in the file. Exits linked across regions, or to fragments that are not
    /// kept, go to their stubs again, in the copy of the code in `out` too.
    fn chains(&self, region_of: &[u32], out: &mut [u8], code: [(u64, u64, u64); 2]) -> Chains {
        let mut chains = Chains {
            first: vec![NONE; region_of.len()],
            next: vec![UNLINKED; self.exits.all.len()],
        };
        let region = |id: u32| region_of.get(id as usize).copied().unwrap_or(NONE);
        for (number, exit) in self.exits.all.iter().enumerate() {
            if !exit.linked() {
                continue;
            }
            let to = self.frags.find(exit.pc).unwrap_or(NONE);
            if region(to) != NONE && region(to) == region(exit.frag) {
                let first = &mut chains.first[to as usize];
                chains.next[number] = std::mem::replace(first, number as u32);
                continue;
            }
            let rel = exit.stub.wrapping_sub(exit.site + 4);
            for (at, len, offset) in code {
                let site = u64::from(exit.site);
                if (at..at + len).contains(&site) {
                    let i = (offset + site - at) as usize;
                    out[i..i + 4].copy_from_slice(&rel.to_le_bytes());
                }
            }
        }
        chains
    }

    /// Takes over a file of [`Translator::save`]; this translator must be fresh or flushed.
    /// `checked`: this very file has been loaded before, and has not changed since. Returns how
    /// many fragments it offers; 0, and nothing changed, if it is not of use here.
    pub fn load(&mut self, key: u128, file: &File, checked: bool) -> u64 {
        assert!(self.frags.next_id() == 0, "the code cache is in use");
        if !self.is_plain() {
            return 0;
        }
        let Some((view, header, table)) = kept_file::open(key, file, checked) else {
            return 0;
        };
        let view = Arc::new(view);
        let (_, _, end) = self.exits.cache.bounds();
        let Some(parsed) = kept_file::parse(&view, header, table, end) else {
            return 0;
        };
        if parsed.hashed && self.hashed.need().is_err() {
            return 0;
        }
        // A program maps the same again as in earlier runs.
        if parsed.paired & 2 != 0 {
            self.forbid_pairs();
        } else if parsed.paired & 1 != 0 && self.shadow.is_forbidden() {
            return 0;
        }
        self.paired = parsed.paired & 1 != 0;
        for (at, len, offset) in kept_file::pages(parsed.hot, parsed.cold, end) {
            if !map(file, at, len, offset) {
                let part = &view.bytes()[offset as usize..(offset + len) as usize];
                if self.exits.cache.prepare().is_err() {
                    return 0;
                }
                self.exits.cache.write(at as u32, part);
            }
        }
        self.exits.cache.take_over(parsed.hot, parsed.cold);
        self.exits.all.clear();
        self.exits.all.take_over(parsed.exits);
        self.exits.ops = parsed.ops;
        let (fragments, marks) = (parsed.fragments, parsed.marks);
        self.frags.take_over(fragments, marks, parsed.found_by);
        self.taken_over = parsed.kept;
        self.stats.taken_over += parsed.kept;
        parsed.kept
    }

    /// Guest code now lies in `start..end`, where it cannot be written: dormant fragments that were
    /// made from the very same bytes there come into use. They get the table slots of their
    /// landings, whole pages of them: set one after the other, each slot would cost a stop and a
    /// page fault.
    pub fn activate(&mut self, start: u64, end: u64, same: &mut Compare<'_>) {
        let plain = self.is_plain();
        let Some(taken_over) = self.frags.taken_over() else {
            return;
        };
        if !plain {
            taken_over.forget_dormant();
        }
        for (run, kept) in taken_over.wake(start, end, same) {
            self.table.adopt(run, kept);
        }
    }
}

/// For each fragment the first exit that is linked to it, and for each exit the next one.
struct Chains {
    first: Vec<u32>,
    next: Vec<u32>,
}

/// Maps a part of the file over the cache; `false` if the kernel refuses.
fn map(file: &File, at: u64, len: u64, offset: u64) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let prot = libc::PROT_READ | libc::PROT_EXEC;
    let fd = file.as_raw_fd() as u64;
    let args = [at, len, prot as u64, flags as u64, fd, offset];
    // SAFETY: the range lies in the code cache, as `parse` has checked, which is empty; a map
    // that is refused leaves it as it was.
    len == 0 || unsafe { sys::syscall(libc::SYS_mmap as u64, args) } >= 0
}
