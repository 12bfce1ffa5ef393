//! The file store: copies of the files that the guest mapped, named by their content.
//!
//! Many processes add to one store at once without a lock: a copy is made under a name of
//! its own, hashed as it lies there, and only then renamed to its hash. A file that is there
//! under its hash is therefore always whole.

use std::fmt;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;

use crate::bytes::{from_hex, to_hex};
use crate::error::{Error, Result};

/// Name of the store in a trace.
pub(crate) const NAME: &str = "files";

/// Bytes read at a time.
const BLOCK: usize = 256 << 10;

/// Content of a file: its BLAKE3 hash. Prints as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub [u8; 32]);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl fmt::Debug for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for FileId {
    /// Nothing more can be said than that it is none.
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let bytes = from_hex(text).ok_or(())?;
        bytes.try_into().map(Self).map_err(|_| ())
    }
}

/// The files folder of one trace.
#[derive(Debug, Clone)]
pub struct FileStore {
    folder: PathBuf,
}

impl FileStore {
    /// The store of the trace in `directory`, which [`crate::TraceWriter::create`] made.
    /// Give an absolute path if the process may change its working directory.
    pub fn new(directory: &Path) -> Self {
        Self {
            folder: directory.join(NAME),
        }
    }

    /// Path of the copy with this content, whether it is there or not.
    pub fn path(&self, id: FileId) -> PathBuf {
        self.folder.join(id.to_string())
    }

    /// Keeps the content that `source` has now; its file offset is neither used nor moved.
    ///
    /// A source that changes meanwhile yields some content it had in parts, and the id of
    /// exactly what was kept.
    ///
    /// # Errors
    /// When `source` is not a regular file open for reading, or the store cannot be written.
    pub fn add(&self, source: &File) -> Result<FileId> {
        let unreadable = |error| Error::read(Path::new("the file to keep"), error);
        if !source.metadata().map_err(unreadable)?.is_file() {
            return Err(Error::NotRegular("not a regular file"));
        }
        // Most files are known already: hashing reads them once and writes nothing.
        let id = hash(source).map_err(unreadable)?;
        if self.path(id).exists() {
            return Ok(id);
        }
        let temporary = self.temporary();
        let kept = self.keep(source, id, &temporary);
        if kept.is_err() {
            // Nothing refers to the half-made copy; failing to remove it costs only space.
            let _ = std::fs::remove_file(&temporary);
        }
        kept
    }

    fn keep(&self, source: &File, expected: FileId, temporary: &Path) -> Result<FileId> {
        let failed = |error| Error::write(temporary, error);
        let mut copy = create_private(temporary, false).map_err(failed)?;
        let mut id = None;
        if clone_or_copy(source, &copy) {
            // The kernel's copy of a special file system's file can come out short.
            id = Some(hash(&copy).map_err(failed)?).filter(|id| *id == expected);
        }
        let id = match id {
            Some(id) => id,
            None => copy_through(source, &mut copy).map_err(failed)?,
        };
        std::fs::rename(temporary, self.path(id)).map_err(failed)?;
        Ok(id)
    }

    /// A name that no other process and no other thread of this one uses. Process ids can
    /// coincide across pid namespaces and counters across forks, which is why creation
    /// insists on a new file; the clock makes a second try differ.
    fn temporary(&self) -> PathBuf {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        self.folder
            .join(format!(".new-{}-{count}-{now:x}", std::process::id()))
    }

    /// Opens the copy with this content without hashing it.
    pub(crate) fn open(&self, id: FileId) -> Result<File> {
        let path = self.path(id);
        match open_regular(&path) {
            Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Err(Error::NoFile {
                    path: self.folder.clone(),
                    id,
                })
            }
            other => other,
        }
    }

    /// Opens the copy with this content and hashes it.
    pub(crate) fn open_verified(&self, id: FileId) -> Result<File> {
        let file = self.open(id)?;
        let path = self.path(id);
        let found = hash(&file).map_err(|error| Error::read(&path, error))?;
        if found != id {
            return Err(Error::FileContent { path, found });
        }
        Ok(file)
    }

    /// Ids of all copies, in order. Other names (copies that a crash left half-made) are
    /// passed over. No folder is one without copies: archives tend to drop empty ones.
    pub(crate) fn ids(&self) -> Result<Vec<FileId>> {
        let failed = |error| Error::read(&self.folder, error);
        let mut ids = Vec::new();
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ids),
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            ids.extend(name.to_str().and_then(|name| name.parse::<FileId>().ok()));
        }
        ids.sort_unstable();
        Ok(ids)
    }
}

/// Lets the file system copy: sharing blocks if it can, inside the kernel otherwise.
/// `false` means that it does neither, and the copy may hold anything.
fn clone_or_copy(source: &File, copy: &File) -> bool {
    if rustix::fs::ioctl_ficlone(copy, source).is_ok() {
        return true;
    }
    let (mut from, mut to) = (0, 0);
    loop {
        match rustix::fs::copy_file_range(source, Some(&mut from), copy, Some(&mut to), 1 << 30) {
            Ok(0) => return true,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Copies by reading and writing, and hashes what it writes.
fn copy_through(source: &File, copy: &mut File) -> io::Result<FileId> {
    copy.set_len(0)?;
    let mut at = 0;
    let mut hasher = blake3::Hasher::new();
    each_block(source, |block| {
        hasher.update(block);
        copy.write_all_at(block, at)?;
        at += block.len() as u64;
        Ok(())
    })?;
    Ok(FileId(hasher.finalize().into()))
}

/// Hash of a file's whole content, its file offset untouched.
fn hash(file: &File) -> io::Result<FileId> {
    let mut hasher = blake3::Hasher::new();
    each_block(file, |block| {
        hasher.update(block);
        Ok(())
    })?;
    Ok(FileId(hasher.finalize().into()))
}

fn each_block(file: &File, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; BLOCK];
    let mut at = 0;
    loop {
        match file.read_at(&mut buffer, at) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                each(&buffer[..n])?;
                at += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Creates a file that only its owner may read: recordings hold secrets.
pub(crate) fn create_private(path: &Path, replace: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    if replace {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let file = options.open(path)?;
    // The guest's umask is this process's: it must not decide whether we can read our copy.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Opens a file of a trace for reading. A trace may come from a stranger: a link could lead
/// out of it and a pipe would block for ever, so neither is accepted.
pub(crate) fn open_regular(path: &Path) -> Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
        .map_err(|error| Error::read(path, error))?;
    let metadata = file.metadata().map_err(|error| Error::read(path, error))?;
    if !metadata.is_file() {
        return Err(Error::Damaged {
            path: path.to_owned(),
            what: "not a regular file",
        });
    }
    Ok(file)
}
