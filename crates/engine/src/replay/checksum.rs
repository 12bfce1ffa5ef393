//! Checksums of guest memory during a replay, for `relive verify`: two replays with
//! different translations must see the same memory at the same events.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use relive_host::{addr::PAGE, sys};

use crate::failure::{Failure, Result};
use crate::machine::machine;
use crate::space::{READ, Region};
use crate::task::Task;

/// Where checksums go and how often; from `RELIVE_CHECKSUMS=EVERY:FOLDER`.
pub struct Checksums {
    every: u64,
    folder: PathBuf,
    file: Option<(u32, File)>,
    next: u64,
}

/// Name of the variable.
pub const VARIABLE: &str = "RELIVE_CHECKSUMS";

impl Checksums {
    /// What the environment asks for.
    #[must_use]
    pub fn requested() -> Option<Self> {
        let value = std::env::var(VARIABLE).ok()?;
        let (every, folder) = value.split_once(':')?;
        let every = every.parse().ok().filter(|&n| n > 0)?;
        Some(Self {
            every,
            folder: PathBuf::from(folder),
            file: None,
            next: every,
        })
    }

    /// The value for the environment.
    #[must_use]
    pub fn value(every: u64, folder: &Path) -> String {
        format!("{every}:{}", folder.display())
    }

    /// Takes a checksum if `events` of this process have gone by since the last one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn tick(&mut self, task: &Task, events: u64) -> Result<()> {
        if events < self.next {
            return Ok(());
        }
        self.next = events + self.every;
        self.take(task, events)
    }

    /// Takes a checksum now.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn take(&mut self, task: &Task, events: u64) -> Result<()> {
        let process = task.process.index;
        let told = |e: std::io::Error| Failure::setup(format!("cannot write checksums: {e}"));
        if self.file.as_ref().is_none_or(|(p, _)| *p != process) {
            let file = std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .mode(0o600)
                .open(self.folder.join(process.to_string()))
                .map_err(told)?;
            self.file = Some((process, file));
        }
        let line = format!(
            "event {events} thread {} tick {} memory {:016x}\n",
            task.id(),
            task.ctx.ticks(),
            memory()
        );
        if let Some((_, file)) = &mut self.file {
            file.write_all(line.as_bytes()).map_err(told)?;
        }
        Ok(())
    }
}

/// Sum over all guest pages that are not all zero, of a hash of address and content.
pub(super) fn memory() -> u64 {
    // Opened each time: it belongs to one process, and a replay forks.
    let pagemap = File::open("/proc/self/pagemap").ok();
    let memory = machine().memory();
    let mut sum = 0u64;
    for r in memory.space.iter().filter(|r| r.prot & READ != 0) {
        let mut add = |start: u64, end: u64| {
            for page in (start..end).step_by(PAGE as usize) {
                sum = sum.wrapping_add(hash(page));
            }
        };
        // Anonymous pages that are not there are zeros; asking keeps them from appearing.
        if r.inode != 0 {
            add(r.start, r.end);
        } else if !pagemap.as_ref().is_some_and(|p| scan(p, r, &mut add)) {
            ask(r, &mut add);
        }
    }
    sum
}

/// linux/fs.h, since Linux 6.7.
pub(super) const PAGEMAP_SCAN: u64 = 0xc060_6610;
/// PAGE_IS_PRESENT and PAGE_IS_SWAPPED.
const THERE: u64 = 0x18;

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

/// Passes on the pages of a region that are there, by a walk that skips what was never
/// touched: programs reserve terabytes. `false`, with nothing passed on, where the kernel is
/// too old for it.
fn scan(pagemap: &File, r: &Region, each: &mut impl FnMut(u64, u64)) -> bool {
    let mut found = [PageRegion::default(); 128];
    let mut at = r.start;
    while at < r.end {
        let mut arg = ScanArg {
            size: size_of::<ScanArg>() as u64,
            start: at,
            end: r.end,
            vec: found.as_mut_ptr() as u64,
            vec_len: found.len() as u64,
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
        let Ok(n) = usize::try_from(n) else {
            assert_eq!(
                at, r.start,
                "the kernel scans the first pages of a region only"
            );
            return false;
        };
        for region in &found[..n] {
            each(region.start, region.end);
        }
        at = arg.walk_end.max(at + PAGE);
    }
    true
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
