//! Notes that a copy of a mapped file has the hash in its name, one for each inode, beside the kept
//! translations: a replay need not hash a copy that has been hashed since the machine was started. A
//! note names size and times of the copy (`translations::checked`). A new link changes one of these
//! times, so the note is then renewed. It must never vouch for a copy whose content has not been
//! compared with its name.

use std::fs::{DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use relive_trace::FileId;

use crate::file_table::FileTable;
use crate::translations::checked;

/// More notes than this are not kept for long.
const MOST_NOTES: usize = 8192;
/// One process in so many counts the notes.
const SELDOM: u32 = 16;
/// The greatest granularity of times on a file system that counts nanoseconds: a tick of the kernel's
/// clock, at its lowest frequency.
const TICK: Duration = Duration::from_millis(10);
/// The same on other file systems.
const COARSE: Duration = Duration::from_secs(2);

/// The notes in one folder.
pub struct Notes(PathBuf);

impl Notes {
    /// The notes in the folder of kept translations.
    #[must_use]
    pub fn within(kept: &Path) -> Self {
        Self(kept.join("copies"))
    }

    /// Whether the copy with this inode has been found good, and need not be checked again.
    #[must_use]
    pub fn hold(&self, id: FileId, copy: &Metadata) -> bool {
        !checked::is_due() && checked::says_so(&self.path(id, copy), FileTable::stamp(copy))
    }

    /// Notes that a copy has been hashed since its inode was this, and settled.
    pub fn write(&self, id: FileId, copy: &Metadata) {
        let (path, stamp) = (self.path(id, copy), FileTable::stamp(copy));
        if checked::says_so(&path, stamp) {
            return;
        }
        let _ = DirBuilder::new().mode(0o700).create(&self.0);
        checked::write(&path, stamp);
        if std::process::id().is_multiple_of(SELDOM) {
            self.prune();
        }
    }

    /// Renews the note of a copy that has got a link, or lost one, if it has not been written
    /// meanwhile: a write changes the time of modification, which a link does not.
    pub fn renew(&self, id: FileId, before: &Metadata, after: &Metadata) {
        let content = |m: &Metadata| (m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec());
        if content(before) == content(after) && is_over(after.mtime(), after.mtime_nsec()) {
            let (old, new) = (FileTable::stamp(before), FileTable::stamp(after));
            checked::renew(&self.path(id, after), old, new);
        }
    }

    fn path(&self, id: FileId, copy: &Metadata) -> PathBuf {
        // A part of the hash is enough: inode and stamp identify the file.
        let id = &id.to_string()[..16];
        self.0
            .join(format!("{id}-{:x}-{:x}", copy.dev(), copy.ino()))
    }

    /// Removes the older half of the notes when there are too many.
    fn prune(&self) {
        let Ok(entries) = std::fs::read_dir(&self.0) else {
            return;
        };
        let mut notes: Vec<_> = entries
            .flatten()
            .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path())))
            .collect();
        if notes.len() > MOST_NOTES {
            notes.sort_unstable();
            for (_, path) in &notes[..notes.len() / 2] {
                match std::fs::remove_file(path) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => return,
                    _ => {}
                }
            }
        }
    }
}

/// Whether each later change of a file gives it other times than it has now.
#[must_use]
pub fn is_settled(meta: &Metadata) -> bool {
    is_over(meta.mtime(), meta.mtime_nsec()) && is_over(meta.ctime(), meta.ctime_nsec())
}

/// Whether a time of a file is so old that no change can get it any more.
fn is_over(seconds: i64, nanos: i64) -> bool {
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(seconds), u32::try_from(nanos)) else {
        return false;
    };
    let wait = if nanos == 0 { COARSE } else { TICK };
    let then = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
    let since = SystemTime::now().duration_since(then);
    since.is_ok_and(|since| since > wait)
}
