//! The file store: copies of the files that the guest mapped, named by their content.
//!
//! Many processes add to one store at once without a lock: a copy is made under a name of
//! its own, hashed as it lies there, and only then renamed to its hash. A file that is there
//! under its hash is therefore always whole.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::error::{Error, Result};
use crate::file_id::{FileId, each_block};
use crate::part::{self, INLINE_MAX, Part, PartSource};

/// Name of the store in a trace.
pub(crate) const NAME: &str = "files";
/// Name of the folder of copies that are set aside.
const ASIDE: &str = "files.aside";

/// Longest encoding of a part that is held in memory, not read again to be written.
const HELD_MAX: usize = 4 << 20;
/// Where a part of a file is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptPart {
    /// In this value: it is small.
    Inline(Vec<u8>),
    /// In this copy.
    Copy(FileId),
}

/// The files folder of one trace.
#[derive(Debug, Clone)]
pub struct FileStore {
    folder: PathBuf,
    /// The folder itself, for a process that cannot reach it by its path.
    open: Option<BorrowedFd<'static>>,
}

impl FileStore {
    /// The store of the trace in `directory`, which [`crate::TraceWriter::create`] made.
    /// Give an absolute path if the process may change its working directory.
    pub fn new(directory: &Path) -> Self {
        Self {
            folder: directory.join(NAME),
            open: None,
        }
    }

    /// A store in the same folder for copies that nothing seems to need any more.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn aside(directory: &Path) -> Result<Self> {
        let folder = directory.join(ASIDE);
        let made = DirBuilder::new().mode(0o700).create(&folder);
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(Error::write(&folder, error))
            }
            _ => Ok(Self { folder, open: None }),
        }
    }

    /// Moves a copy to another store of the same file system.
    ///
    /// # Errors
    /// It is not there, or cannot be moved.
    pub fn give(&self, id: FileId, to: &Self) -> Result<()> {
        let moved = std::fs::rename(self.path(id), to.path(id));
        moved.map_err(|error| Error::write(&self.path(id), error))
    }

    /// Removes a copy.
    ///
    /// # Errors
    /// It is not there, or cannot be removed.
    pub fn remove(&self, id: FileId) -> Result<()> {
        std::fs::remove_file(self.path(id)).map_err(|error| Error::write(&self.path(id), error))
    }

    /// The room that a copy takes on disk, if no other recording has it; 0: it is gone.
    #[must_use]
    pub fn own_room(&self, id: FileId) -> u64 {
        let meta = std::fs::symlink_metadata(self.path(id));
        meta.map_or(0, |meta| match meta.nlink() {
            1 => meta.blocks() * 512,
            _ => 0,
        })
    }

    /// The same store through an open descriptor of its folder ([`FileStore::folder`]), wherever
    /// the path leads now.
    #[must_use]
    pub fn within(self, open: BorrowedFd<'static>) -> Self {
        Self {
            open: Some(open),
            ..self
        }
    }

    /// The folder that the copies lie in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A name in the folder, as descriptor and path for the `*at` calls.
    fn at(&self, name: &str) -> (BorrowedFd<'static>, PathBuf) {
        match self.open {
            Some(folder) => (folder, name.into()),
            None => (CWD, self.folder.join(name)),
        }
    }

    /// Whether the copy with this content is there.
    pub fn has(&self, id: FileId) -> bool {
        let (folder, name) = self.at(&id.to_string());
        rustix::fs::statat(folder, &name, AtFlags::empty()).is_ok()
    }

    /// Makes the copy with this content readable for all users who can enter the trace's folder. A
    /// copy that belongs to another user stays unchanged.
    pub fn show(&self, id: FileId) {
        let (folder, name) = self.at(&id.to_string());
        let _ = rustix::fs::chmodat(folder, &name, Mode::from_raw_mode(0o644), AtFlags::empty());
    }

    /// Lets processes of other users add copies and read existing ones ([`FileStore::show`]).
    ///
    /// # Errors
    /// When the folder is not the calling user's.
    pub fn show_all(&self) -> Result<()> {
        let failed = |error| Error::write(&self.folder, error);
        // Sticky: users cannot remove each other's copies.
        std::fs::set_permissions(&self.folder, Permissions::from_mode(0o1777)).map_err(failed)?;
        self.ids()?.into_iter().for_each(|id| self.show(id));
        Ok(())
    }

    /// Opens the copy with this content without checking it.
    ///
    /// # Errors
    /// When it is not there, or readable for another user only.
    pub fn copy(&self, id: FileId) -> Result<File> {
        let (folder, name) = self.at(&id.to_string());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::openat(folder, &name, flags, Mode::empty())
            .map(File::from)
            .map_err(|error| Error::read(&self.path(id), error.into()))
    }

    /// Path of the copy with this content, whether it is there or not.
    pub fn path(&self, id: FileId) -> PathBuf {
        self.folder.join(id.to_string())
    }

    /// Keeps the content that `source` has now; its file offset is neither used nor moved.
    ///
    /// A source that changes meanwhile yields a mixture of its contents, and the id of exactly the
    /// bytes that were kept.
    ///
    /// # Errors
    /// When `source` is not a regular file open for reading, or the store cannot be written.
    pub fn add(&self, source: &File) -> Result<FileId> {
        let unreadable = |error| Error::read(Path::new("the file to keep"), error);
        if !source.metadata().map_err(unreadable)?.is_file() {
            return Err(Error::NotRegular("not a regular file"));
        }
        // Most files are known already: hashing reads them once and writes nothing.
        let id = FileId::of(source).map_err(unreadable)?;
        self.put(id, |copy| {
            if !is_sparse(source)? && clone_or_copy(source, copy) {
                // The kernel's copy of a special file system's file can come out short.
                let found = FileId::of(copy)?;
                if found == id {
                    return Ok(found);
                }
            }
            copy_through(source, copy)
        })
    }

    /// Has a copy of another store too: by a second name where the file system can.
    ///
    /// # Errors
    /// The other store lacks it or holds another content under its name, or this one cannot be written.
    pub fn take(&self, id: FileId, other: &Self) -> Result<()> {
        let source = other.open(id)?;
        if std::fs::hard_link(other.path(id), self.path(id)).is_ok() {
            return Ok(());
        }
        match self.add(&source)? {
            found if found == id => Ok(()),
            found => Err(Error::FileContent {
                path: other.path(id),
                found,
            }),
        }
    }

    /// Keeps a part of a file, as a copy if it is not small.
    ///
    /// # Errors
    /// When `source` cannot be read, or the store cannot be written.
    pub fn add_part(&self, part: Part, source: &mut dyn PartSource) -> Result<KeptPart> {
        let unreadable = |error| Error::read(Path::new("the file to keep a part of"), error);
        let (mut hasher, mut held) = (blake3::Hasher::new(), Vec::new());
        let encoded = part::encode(part, source, |bytes| {
            hasher.update(bytes);
            if held.len() <= HELD_MAX {
                held.extend_from_slice(bytes);
            }
            Ok(())
        });
        encoded.map_err(unreadable)?;
        if held.len() <= INLINE_MAX {
            return Ok(KeptPart::Inline(held));
        }
        let id = FileId(hasher.finalize().into());
        let id = self.put(id, |copy| {
            if held.len() <= HELD_MAX {
                copy.write_all(&held)?;
                return Ok(id);
            }
            let mut hasher = blake3::Hasher::new();
            part::encode(part, source, |bytes| {
                hasher.update(bytes);
                copy.write_all(bytes)
            })?;
            Ok(FileId(hasher.finalize().into()))
        })?;
        Ok(KeptPart::Copy(id))
    }

    /// Makes a copy with `fill`, which returns the id of its content, unless a copy with the
    /// expected content exists.
    fn put(
        &self,
        expected: FileId,
        fill: impl FnOnce(&mut File) -> io::Result<FileId>,
    ) -> Result<FileId> {
        if self.has(expected) {
            return Ok(expected);
        }
        let temporary = temporary();
        let kept = self.write(&temporary, fill);
        if kept.is_err() {
            // Nothing refers to the half-made copy; failing to remove it costs only space.
            let (folder, name) = self.at(&temporary);
            let _ = rustix::fs::unlinkat(folder, &name, AtFlags::empty());
            // Another writer may have been faster; its copy must not be overwritten.
            if self.has(expected) {
                return Ok(expected);
            }
        }
        kept
    }

    fn write(
        &self,
        temporary: &str,
        fill: impl FnOnce(&mut File) -> io::Result<FileId>,
    ) -> Result<FileId> {
        let (folder, new) = self.at(temporary);
        let failed = |error| Error::write(&self.folder.join(temporary), error);
        let mut copy = create_private_at(folder, &new, false).map_err(failed)?;
        let id = fill(&mut copy).map_err(failed)?;
        let (_, kept) = self.at(&id.to_string());
        rustix::fs::renameat(folder, &new, folder, &kept).map_err(|error| failed(error.into()))?;
        Ok(id)
    }

    /// Opens the copy with this content without hashing it, and only if it is a regular file: the
    /// trace may come from a stranger.
    ///
    /// # Errors
    /// When it is missing, or not a regular file.
    pub fn open(&self, id: FileId) -> Result<File> {
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
        let found = FileId::of(&file).map_err(|error| Error::read(&path, error))?;
        if found != id {
            return Err(Error::FileContent { path, found });
        }
        Ok(file)
    }

    /// Ids of all copies, in order. Other names (copies that a crash left half-made) are skipped. A
    /// missing folder counts as an empty one: archives tend to drop those.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn ids(&self) -> Result<Vec<FileId>> {
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

/// A name that no other process and no other thread of this one uses. Process ids can
/// coincide across pid namespaces and counters across forks, which is why creation
/// insists on a new file; the clock makes a second try differ.
fn temporary() -> String {
    /// Counts the names. Process-wide: they are unique in the process.
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!(".new-{}-{count}-{now:x}", std::process::id())
}

/// Lets the file system copy: by sharing blocks if it can, else inside the kernel. `false`: it does
/// neither, and the copy may hold anything.
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

/// Whether a file has holes: its length may be far more than there is room for.
fn is_sparse(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    Ok(metadata.blocks().saturating_mul(512) < metadata.len())
}

/// Copies by reading and writing, and hashes the bytes. Zeros become holes in the copy.
fn copy_through(source: &File, copy: &mut File) -> io::Result<FileId> {
    copy.set_len(0)?;
    let mut at = 0;
    let mut hasher = blake3::Hasher::new();
    each_block(source, |block| {
        hasher.update(block);
        if block.iter().any(|&byte| byte != 0) {
            copy.write_all_at(block, at)?;
        }
        at += block.len() as u64;
        Ok(())
    })?;
    copy.set_len(at)?;
    Ok(FileId(hasher.finalize().into()))
}

/// Creates a file that only its owner may read: recordings hold secrets.
pub(crate) fn create_private(path: &Path, replace: bool) -> io::Result<File> {
    create_private_at(CWD, path, replace)
}

fn create_private_at(folder: BorrowedFd<'_>, path: &Path, replace: bool) -> io::Result<File> {
    let how = if replace { OFlags::TRUNC } else { OFlags::EXCL };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | how;
    let file = File::from(rustix::fs::openat(
        folder,
        path,
        flags,
        Mode::from_raw_mode(0o600),
    )?);
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
