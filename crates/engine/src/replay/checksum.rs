//! Checksums of guest memory during a replay, for `relive verify`: two replays with
//! different translations must see the same memory at the same events.

use std::fs::File;
use std::io::Write;
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
    let memory = machine().memory();
    memory
        .space
        .iter()
        .filter(|r| r.prot & READ != 0)
        .fold(0u64, |sum, r| sum.wrapping_add(region(r)))
}

fn region(r: &Region) -> u64 {
    const STEP: u64 = 1024 * PAGE;
    let mut sum = 0u64;
    let mut at = r.start;
    while at < r.end {
        let end = r.end.min(at + STEP);
        let mut present = [1u8; 1024];
        if r.inode == 0 {
            // Anonymous pages that are not there are zeros; asking keeps them from appearing.
            // SAFETY: the vector has a byte for each page of the range.
            unsafe {
                sys::syscall(
                    libc::SYS_mincore as u64,
                    [at, end - at, present.as_mut_ptr() as u64, 0, 0, 0],
                )
            };
        }
        for (page, _) in (at..end)
            .step_by(PAGE as usize)
            .zip(present)
            .filter(|&(_, p)| p & 1 == 1)
        {
            sum = sum.wrapping_add(hash(page));
        }
        at = end;
    }
    sum
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
