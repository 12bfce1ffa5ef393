//! Packed recordings used in place: each is unpacked once, into Relive's cache folder, and removed
//! after it was unused for a while.
//!
//! A packed recording is identified by its place on the disk and its time of change, so that
//! another file under the same name is never mistaken for it.

use std::fs::{self, DirBuilder, File};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use relive_engine::Failure;

use crate::unfinished::Unfinished;
use crate::unpack;

/// The folder for unpacked recordings in the cache.
const UNPACKED: &str = "unpacked";
/// Recordings unused for this long are removed.
const UNUSED: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// First bytes of a packed recording (RFC 8878, 3.1.1).
const MAGIC: [u8; 4] = 0xfd2f_b528u32.to_le_bytes();

/// The folder with the content of a packed recording.
///
/// # Errors
/// It is not a packed recording, it is damaged, or the cache cannot be written.
pub fn folder(file: &Path) -> Result<PathBuf, Failure> {
    let no = |e: &dyn std::fmt::Display| {
        Failure::setup(format!(
            "{} cannot be used packed ({e}): unpack it first with relive unpack",
            file.display()
        ))
    };
    let mut magic = [0; 4];
    let mut opened = File::open(file).map_err(|e| no(&e))?;
    if opened.read_exact(&mut magic).is_err() || magic != MAGIC {
        return Err(Failure::setup(format!(
            "{} is a file and no recording, packed or not",
            file.display()
        )));
    }
    let about = opened.metadata().map_err(|e| no(&e))?;
    let base = base().map_err(|e| no(&e))?;
    prune(&base);
    let to = base.join(format!(
        "{:x}-{:x}-{:x}-{:x}.{:09}-{:x}.{:09}",
        about.dev(),
        about.ino(),
        about.len(),
        about.mtime(),
        about.mtime_nsec(),
        about.ctime(),
        about.ctime_nsec()
    ));
    if !to.is_dir() {
        let make = || {
            let new = tempfile::Builder::new().prefix("new-").tempdir_in(&base);
            new.map_err(|e| no(&e))
        };
        let (new, _unfinished) = Unfinished::begin(make, |new| new.path())?;
        unpack::into(file, new.path())?;
        // Whole under its name or not there; another command may have been faster.
        let new = new.keep();
        if let Err(e) = fs::rename(&new, &to) {
            let _ = fs::remove_dir_all(&new);
            if !to.is_dir() {
                return Err(no(&e));
            }
        }
    }
    // Used now.
    let touched = File::open(&to).and_then(|folder| folder.set_modified(SystemTime::now()));
    touched.map_err(|e| no(&e))?;
    Ok(to)
}

/// The folder of all unpacked recordings, which no other user can write to.
fn base() -> std::io::Result<PathBuf> {
    let nothing = || std::io::Error::other("there is no folder for what Relive keeps");
    let cache = relive_engine::kept_folder().ok_or_else(nothing)?;
    let base = cache.join(UNPACKED);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&base);
    made?;
    let own = rustix::process::geteuid().as_raw();
    for folder in [&cache, &base] {
        let about = fs::metadata(folder)?;
        if about.uid() != own || about.mode() & 0o022 != 0 {
            return Err(std::io::Error::other(format!(
                "others can write to {}",
                folder.display()
            )));
        }
    }
    Ok(base)
}

/// Removes recordings unused for long. A failure is left to the next time.
fn prune(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let used = entry.metadata().and_then(|about| about.modified());
        let unused = used.ok().and_then(|used| used.elapsed().ok());
        if unused.is_some_and(|time| time > UNUSED) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
