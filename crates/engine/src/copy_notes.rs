//! Notes that a copy of a mapped file is what its name says, one for each inode, beside the kept
//! translations: a replay need not hash what has been hashed since the machine was started. A
//! note names size and times of the copy (`translations::checked`). Links move one of these times,
//! so a copy that gets another link gets its note anew. It must never say that a copy is good whose
//! content nobody has compared with its name.

use std::fs::{DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use relive_trace::FileId;

use crate::file_table::FileTable;
use crate::translations::checked;

/// More notes than this are not kept, for long.
const MOST_NOTES: usize = 8192;
/// One process in so many looks how many there are.
const SELDOM: u32 = 16;
/// What a file system may round its times to where it counts nanoseconds: a tick of the kernel's
/// clock, at the lowest frequency that there is.
const TICK: Duration = Duration::from_millis(10);
/// The same elsewhere.
const COARSE: Duration = Duration::from_secs(2);

/// The notes in one folder.
pub struct Notes(PathBuf);

impl Notes {
    /// Those in the folder of what is kept.
    #[must_use]
    pub fn within(kept: &Path) -> Self {
        Self(kept.join("copies"))
    }

    /// Whether a copy, of which this is the inode, has been found good, and is not to be looked at
    /// again.
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

    /// A copy has got a link, or lost one. What was noted of it before it notes of it as it is now:
    /// a write moves the time of the last one, which no link does.
    pub fn renew(&self, id: FileId, before: &Metadata, after: &Metadata) {
        let content = |m: &Metadata| (m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec());
        if content(before) == content(after) && is_over(after.mtime(), after.mtime_nsec()) {
            let (old, new) = (FileTable::stamp(before), FileTable::stamp(after));
            checked::renew(&self.path(id, after), old, new);
        }
    }

    fn path(&self, id: FileId, copy: &Metadata) -> PathBuf {
        // Part of the content's name is enough: the note says which file it is.
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

/// Whether each change of a file from now on gets other times than it has.
#[must_use]
pub fn is_settled(meta: &Metadata) -> bool {
    is_over(meta.mtime(), meta.mtime_nsec()) && is_over(meta.ctime(), meta.ctime_nsec())
}

/// Whether a time of a file is one that no change can get any more.
fn is_over(seconds: i64, nanos: i64) -> bool {
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(seconds), u32::try_from(nanos)) else {
        return false;
    };
    let wait = if nanos == 0 { COARSE } else { TICK };
    let then = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
    let since = SystemTime::now().duration_since(then);
    since.is_ok_and(|since| since > wait)
}
