//! The files that the trace has already, for all processes of the tree: a program that execs a thousand
//! times must not have its libraries read a thousand times.
//!
//! Lives in the shared memory: atomics only; an entry must never be changed once it is whole.

use std::fs::{File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::section::{Section, Shareable};

const SLOTS: usize = 4096;
const EMPTY: u32 = 0;
const WHOLE: u32 = 2;

/// A file as its inode describes it: 128 bits of hash over device, inode, size and times.
pub type Stamp = [u64; 2];

/// An open-addressing table from stamp to content.
#[repr(C)]
pub struct FileTable {
    slots: [FileRecord; SLOTS],
}

#[repr(C)]
struct FileRecord {
    state: AtomicU32,
    stamp: [AtomicU64; 2],
    content: [AtomicU64; 4],
}

/// Files whose content is in the trace already.
pub static FILES: Section<FileTable> = Section::new();

/// Kept translations that a process of the tree has checked.
pub static CHECKED: Section<FileTable> = Section::new();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for FileTable {}

impl FileTable {
    /// The stamp of a file.
    #[must_use]
    pub fn stamp(meta: &Metadata) -> Stamp {
        Self::of_parts(&[
            meta.dev(),
            meta.ino(),
            meta.size(),
            meta.mtime() as u64,
            meta.mtime_nsec() as u64,
            meta.ctime() as u64,
            meta.ctime_nsec() as u64,
        ])
    }

    /// The same of an open file, by a call that a replay may make; `None` if the kernel refuses.
    #[must_use]
    pub fn stamp_of(file: &File) -> Option<Stamp> {
        let stat = relive_host::sys::fstat(file.as_raw_fd()).ok()?;
        Some(Self::of_parts(&[
            stat.st_dev,
            stat.st_ino,
            stat.st_size as u64,
            stat.st_mtime as u64,
            stat.st_mtime_nsec as u64,
            stat.st_ctime as u64,
            stat.st_ctime_nsec as u64,
        ]))
    }

    /// The stamp of a part of a file.
    #[must_use]
    pub fn stamp_of_part(meta: &Metadata, start: u64, end: u64) -> Stamp {
        let [one, two] = Self::stamp(meta);
        Self::of_parts(&[one, two, start, end])
    }

    fn of_parts(parts: &[u64]) -> Stamp {
        let mix = |seed: u64| {
            parts.iter().fold(seed, |h, p| {
                (h.rotate_left(29) ^ p).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (h >> 31)
            })
        };
        [mix(0x243f_6a88_85a3_08d3), mix(0x1319_8a2e_0370_7344)]
    }

    /// Whether the times of a file can be trusted: it was not changed within the last two
    /// seconds (a later change might get the same time stamp).
    #[must_use]
    pub fn settled(meta: &Metadata) -> bool {
        let changed = meta.mtime().max(meta.ctime());
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| d.as_secs() as i64);
        meta.is_file() && now - changed > 2
    }

    /// The content of a known file.
    #[must_use]
    pub fn find(&self, stamp: Stamp) -> Option<[u8; 32]> {
        for slot in self.probe(stamp) {
            match slot.state.load(Ordering::Acquire) {
                EMPTY => return None,
                WHOLE if slot.matches(stamp) => {
                    let mut id = [0; 32];
                    for (bytes, word) in id.chunks_exact_mut(8).zip(&slot.content) {
                        bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
                    }
                    return Some(id);
                }
                _ => {}
            }
        }
        None
    }

    /// Remembers a file; forgets it quietly when the table is full.
    pub fn insert(&self, stamp: Stamp, content: [u8; 32]) {
        for slot in self.probe(stamp) {
            if slot
                .state
                .compare_exchange(EMPTY, 1, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
            {
                for (word, v) in slot.stamp.iter().zip(stamp) {
                    word.store(v, Ordering::Relaxed);
                }
                for (word, bytes) in slot.content.iter().zip(content.chunks_exact(8)) {
                    word.store(
                        u64::from_le_bytes(bytes.try_into().unwrap_or_default()),
                        Ordering::Relaxed,
                    );
                }
                slot.state.store(WHOLE, Ordering::Release);
                return;
            }
        }
    }

    fn probe(&self, stamp: Stamp) -> impl Iterator<Item = &FileRecord> {
        let start = stamp[0] as usize % SLOTS;
        (0..16).map(move |i| &self.slots[(start + i) % SLOTS])
    }
}

impl FileRecord {
    fn matches(&self, stamp: Stamp) -> bool {
        self.stamp
            .iter()
            .zip(stamp)
            .all(|(a, b)| a.load(Ordering::Relaxed) == b)
    }
}
