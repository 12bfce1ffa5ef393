//! The pages of a guest's memory that hold something: their checksum, and a list of those that its maps do not show
//! by themselves. Must never pass over a page that the kernel does not list.

use std::fs::File;
use std::os::fd::AsRawFd;

use relive_host::{addr::PAGE, sys};
use serde::{Deserialize, Serialize};

use super::Memory;
use crate::failure::{Failure, Result};
use crate::space::{READ, Region};

/// Pages of memory whose content a session image must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRange {
    /// The first address.
    pub start: u64,
    /// Behind the last one.
    pub end: u64,
    /// Without content they would be zeros, and not pages of a file.
    pub blank: bool,
}

/// A sum over guest memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySum {
    /// Of a hash of address and content of each page.
    pub sum: u64,
    /// How many pages there are: those that are not all zero, and all of files. The same in each replay.
    pub pages: u64,
}

impl Memory {
    /// Sum over all pages that are not all zero, of a hash of address and content. `pages`: the process's list of pages
    /// (proc_pid_pagemap(5)).
    ///
    /// # Errors
    /// The kernel lists a part of the pages only.
    pub fn sum(&self, pages: Option<&File>) -> Result<MemorySum> {
        let mut sum = MemorySum::default();
        for r in self.space.iter().filter(|r| r.prot & READ != 0) {
            let mut add = |start: u64, end: u64| {
                for page in (start..end).step_by(PAGE as usize) {
                    let hash = hash(page);
                    sum.sum = sum.sum.wrapping_add(hash);
                    // Which pages are there with zeros is chance.
                    sum.pages += u64::from(hash != 0 || r.inode != 0);
                }
            };
            // Anonymous pages that are not there are zeros; asking keeps them from appearing.
            if r.inode != 0 {
                add(r.start, r.end);
                continue;
            }
            let scanned = match pages {
                Some(pages) => scan(pages, r, 0, &mut add)?,
                None => false,
            };
            if !scanned {
                ask(r, &mut add);
            }
        }
        Ok(sum)
    }

    /// Where memory may hold something else than its maps show by themselves: the pages that private maps have
    /// in place of zeros or of pages of a file, and all of shared maps. Without a list, which a process in a root without `/proc`
    /// cannot open, all pages of private maps of files too.
    ///
    /// # Errors
    /// The kernel does not list them.
    pub fn own_pages(&self, pages: Option<&File>) -> Result<Vec<PageRange>> {
        let unlisted = |why: &str| {
            Failure::setup(format!(
                "the pages of a process are not listed ({why}), which session images need"
            ))
        };
        if pages.is_none() && rustix::system::sysinfo().totalswap > 0 {
            return Err(unlisted("it has no /proc, and pages may be swapped out"));
        }
        let mut all = Vec::new();
        for r in self.space.iter() {
            let blank = r.copy.is_none();
            let mut add = |start, end| all.push(PageRange { start, end, blank });
            match pages {
                _ if r.shared => add(r.start, r.end),
                Some(pages) if scan(pages, r, IS_FILE, &mut add)? => {}
                Some(_) => {
                    return Err(unlisted("the kernel has no PAGEMAP_SCAN, Linux 6.7"));
                }
                None if r.inode == 0 => ask(r, &mut add),
                None => add(r.start, r.end),
            }
        }
        Ok(all)
    }
}

/// linux/fs.h, since Linux 6.7.
pub const PAGEMAP_SCAN: u64 = 0xc060_6610;
/// PAGE_IS_PRESENT and PAGE_IS_SWAPPED.
const THERE: u64 = 0x18;
/// PAGE_IS_FILE: of a file, or shared.
const IS_FILE: u64 = 0x4;

/// `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Passes on the pages of a region that are there, by a walk that skips untouched ones: programs
/// reserve terabytes. Pages of the category `without` are left out. `false`, with nothing passed on, where
/// the kernel is too old for it.
///
/// # Errors
/// The kernel lists a part of the region's pages only.
fn scan(pagemap: &File, r: &Region, without: u64, each: &mut impl FnMut(u64, u64)) -> Result<bool> {
    let mut found = [PageRegion::default(); 128];
    let mut at = r.start;
    while at < r.end {
        let mut arg = ScanArg {
            size: size_of::<ScanArg>() as u64,
            start: at,
            end: r.end,
            vec: found.as_mut_ptr() as u64,
            vec_len: found.len() as u64,
            category_inverted: without,
            category_mask: without,
            category_anyof_mask: THERE,
            return_mask: THERE,
            ..ScanArg::default()
        };
        let fd = pagemap.as_raw_fd() as u64;
        // SAFETY: the kernel fills `found`, of which it knows the length, and `arg`.
        let n = unsafe {
            sys::syscall(
                libc::SYS_ioctl as u64,
                [fd, PAGEMAP_SCAN, &raw mut arg as u64, 0, 0, 0],
            )
        };
        let n = match usize::try_from(n) {
            Ok(n) => n,
            Err(_) if at == r.start => return Ok(false),
            Err(_) => {
                let errno = -(n as i64);
                return Err(Failure::setup(format!(
                    "the kernel lists no pages from {at:#x} on (errno {errno}), and a checksum needs all"
                )));
            }
        };
        for region in &found[..n] {
            each(region.start, region.end);
        }
        at = arg.walk_end.max(at + PAGE);
    }
    Ok(true)
}

/// The same with mincore(2), page by page.
fn ask(r: &Region, each: &mut impl FnMut(u64, u64)) {
    const STEP: u64 = 1024 * PAGE;
    let mut at = r.start;
    while at < r.end {
        let end = r.end.min(at + STEP);
        let mut present = [1u8; 1024];
        // SAFETY: the vector has a byte for each page of the range.
        unsafe {
            sys::syscall(
                libc::SYS_mincore as u64,
                [at, end - at, present.as_mut_ptr() as u64, 0, 0, 0],
            )
        };
        for (page, _) in (at..end)
            .step_by(PAGE as usize)
            .zip(present)
            .filter(|&(_, p)| p & 1 == 1)
        {
            each(page, page + PAGE);
        }
        at = end;
    }
}

/// Hash of a page, 0 if it is all zero or cannot be read (behind the end of its file).
fn hash(page: u64) -> u64 {
    let mut bytes = [0u8; PAGE as usize];
    if relive_host::copy::read(relive_host::GuestAddr(page), &mut bytes).is_err() {
        return 0;
    }
    let (mut h, mut any) = (page, 0u64);
    for w in bytes.chunks_exact(8) {
        let w = u64::from_le_bytes(w.try_into().unwrap_or_default());
        any |= w;
        h = (h.rotate_left(23) ^ w).wrapping_mul(0xff51_afd7_ed55_8ccd);
    }
    if any == 0 { 0 } else { h ^ (h >> 29) }
}
