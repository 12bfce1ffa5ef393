//! Copies of mapped files kept from recording to recording, beside the translations: a
//! library that was copied into one trace is linked into the next, and neither read nor hashed
//! again. A file is known by its inode, size and times. The copies belong to the user alone and must
//! never be written to; `relive verify` hashes them.
//!
//! `files/HASH` is a copy, `files/STAMP` a symbolic link whose text is the hash of the file
//! that had this stamp. A failure here is passed over: the file is copied then.

use std::fs::{DirBuilder, Metadata, hard_link};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use relive_trace::{FileId, FileStore};

use crate::copy_notes::Notes;
use crate::file_table::Stamp;
use crate::translations::store;

/// Copies that no recording has any more take no more than this for long.
const MOST_BYTES: u64 = 1 << 30;
/// One process in so many measures them.
const SELDOM: u32 = 16;
/// Seconds since the last change after which a file's times can be trusted. A file that is
/// written through a shared map gets its times when the kernel writes it back, which may take
/// half a minute.
const SETTLED: i64 = 60;

fn folder() -> Option<PathBuf> {
    Some(store::folder()?.join("files"))
}

fn link(folder: &Path, stamp: Stamp) -> PathBuf {
    folder.join(format!("{:016x}{:016x}", stamp[0], stamp[1]))
}

/// Whether a file was last changed so long ago that its times can be trusted.
fn settled(meta: &Metadata) -> bool {
    let changed = meta.mtime().max(meta.ctime());
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs() as i64);
    now - changed > SETTLED
}

/// Links the copy of a file into a trace, if there is one.
pub fn find(meta: &Metadata, stamp: Stamp, trace: &FileStore) -> Option<FileId> {
    let folder = folder().filter(|_| settled(meta))?;
    let text = std::fs::read_link(link(&folder, stamp)).ok()?;
    let id: FileId = text.to_str()?.parse().ok()?;
    let (kept, there) = (folder.join(id.to_string()), trace.path(id));
    let before = std::fs::symlink_metadata(&kept).ok();
    let linked = match hard_link(&kept, &there) {
        Ok(()) => true,
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(_) => return None,
    };
    let copy = std::fs::symlink_metadata(&there).ok()?;
    let id = (copy.is_file() && copy.len() == meta.len()).then_some(id)?;
    if let Some(before) = before.filter(|_| linked) {
        Notes::within(store::folder()?).renew(id, &before, &copy);
    }
    Some(id)
}

/// Keeps a trace's copy of a file for later recordings.
pub fn remember(meta: &Metadata, stamp: Stamp, id: FileId, trace: &FileStore) {
    let Some(folder) = folder().filter(|_| settled(meta)) else {
        return;
    };
    let keep = || hard_link(trace.path(id), folder.join(id.to_string()));
    let there = |e: &std::io::Error| e.kind() == std::io::ErrorKind::AlreadyExists;
    let mut kept = keep();
    if kept
        .as_ref()
        .is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
    {
        let made = DirBuilder::new().mode(0o700).create(&folder);
        kept = made.and_then(|()| keep());
    }
    if kept.is_ok() || kept.as_ref().is_err_and(there) {
        // The link may be there already, and dangle.
        let name = link(&folder, stamp);
        if symlink(id.to_string(), &name).is_err_and(|e| there(&e)) {
            let _ = std::fs::remove_file(&name);
            let _ = symlink(id.to_string(), &name);
        }
    }
    if std::process::id().is_multiple_of(SELDOM) {
        prune(&folder);
    }
}

/// Removes the oldest copies that no recording has, if they take too much room, and dangling links.
fn prune(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut alone = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.metadata() {
            Ok(meta) if meta.is_file() && meta.nlink() == 1 => {
                alone.push((meta.ctime(), meta.len(), path));
            }
            Ok(meta) if meta.is_symlink() && !path.exists() => {
                let _ = std::fs::remove_file(path);
            }
            _ => {}
        }
    }
    alone.sort_unstable();
    let mut total: u64 = alone.iter().map(|f| f.1).sum();
    for (_, len, path) in alone {
        if total <= MOST_BYTES {
            break;
        }
        if std::fs::remove_file(path).is_ok() {
            total -= len;
        }
    }
}
