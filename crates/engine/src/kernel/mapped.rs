//! Files that the guest maps: which file it is, whether it may be mapped, and the copy of it in the
//! trace. It must never change a file, nor close a descriptor of the guest's.

use std::fs::{File, Metadata};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};

use relive_trace::FileId;
use rustix::fs::{OFlags, SealFlags, fcntl_get_seals};

use crate::descriptor::{self, is_generated, open_flags};
use crate::failure::{Failure, Result};
use crate::file_table::{FILES, FileTable, Stamp};
use crate::image_stream::CHECKPOINTS;
use crate::kept_files;
use crate::machine::Machine;
use crate::sharing::users::USERS;

/// A file being mapped.
pub(super) struct Mapped {
    file: ManuallyDrop<File>,
    meta: Metadata,
    /// Its identity.
    pub inode: u64,
    path: String,
    /// The descriptor may write, so a shared map may too, sooner or later.
    pub writable: bool,
    /// It is /dev/zero: anonymous memory by another name.
    pub zeros: bool,
}

impl Mapped {
    /// The file that a descriptor of the guest leads to.
    ///
    /// # Errors
    /// The errno of mmap(2): it cannot be mapped.
    pub fn open(fd: i32) -> std::result::Result<Self, i32> {
        if fd < 0 {
            return Err(libc::EBADF);
        }
        let file = borrow(fd);
        let meta = file.metadata().map_err(|_| libc::EBADF)?;
        let path = std::fs::read_link(format!("/proc/self/fd/{fd}"))
            .map_or(String::new(), |p| p.to_string_lossy().into_owned());
        let status = open_flags(fd).ok_or(libc::EBADF)?;
        if status.contains(OFlags::PATH) {
            return Err(libc::EBADF);
        }
        let mode = status.bits() as i32 & libc::O_ACCMODE;
        let zeros = meta.file_type().is_char_device() && meta.rdev() == libc::makedev(1, 5);
        // A generated file is on no device; the major number is 0 then.
        let made_up = libc::major(meta.dev()) == 0 && is_generated(fd);
        if !(meta.is_file() || zeros) || made_up {
            // Pipes, folders, most devices and the files of /proc have no map natively either.
            return Err(libc::ENODEV);
        }
        if mode == libc::O_WRONLY {
            return Err(libc::EACCES);
        }
        Ok(Self {
            file,
            inode: identity(&meta),
            meta,
            path,
            writable: mode == libc::O_RDWR && !is_sealed(fd),
            zeros,
        })
    }

    /// Its path.
    pub fn name(&self) -> &str {
        &self.path
    }

    /// The descriptor.
    pub fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// The file itself, by the guest's descriptor.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// The trace's copy of it, made if need be.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn copy(&self, machine: &Machine) -> Result<(FileId, File)> {
        loop {
            let before = set_aside(machine);
            let id = keep_known(machine, &self.file, &self.meta)?;
            match crate::retained_fds::store(&machine.trace).copy(id) {
                Ok(copy) => return Ok((id, copy)),
                // It has been set aside just now.
                Err(_) if set_aside(machine) != before => {}
                Err(error) => return Err(Failure::setup(error)),
            }
        }
    }

    /// Whether it is a program or a library.
    pub fn is_elf(&self) -> bool {
        let mut magic = [0; 4];
        self.file.read_exact_at(&mut magic, 0).is_ok() && magic == *b"\x7fELF"
    }
}

/// How often copies of files have been set aside.
fn set_aside(machine: &Machine) -> u32 {
    let shm = machine.shm.as_ref();
    shm.map_or(0, |shm| CHECKPOINTS.of(shm).files_set_aside())
}

/// A descriptor of the guest's, which is not negative, as a file.
fn borrow(fd: i32) -> ManuallyDrop<File> {
    // SAFETY: ManuallyDrop never closes it; a bad one gives EBADF wherever it is used.
    ManuallyDrop::new(unsafe { File::from_raw_fd(fd) })
}

/// Whether the file that a descriptor leads to can never be written through a map that is made now
/// (memfd_create(2), "File sealing").
fn is_sealed(fd: i32) -> bool {
    // Fails on a file that cannot be sealed.
    let seals = descriptor::borrow(fd).and_then(|fd| fcntl_get_seals(fd).ok());
    seals.is_some_and(|seals| seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE))
}

/// Whether a file that was changed last at this second since 1970 is taken to stay as it is.
pub fn is_settled(changed: i64) -> bool {
    const LONG: i64 = 60 * 60;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    now.saturating_sub(changed) > LONG
}

/// A number for a file, from device, inode and time of birth; never 0. A file system may give the inode
/// of a removed file to the next one (ext4 does so at once), which is not the same file: the records of
/// a file's users and writers outlive the file. Where files have no time of birth (statx(2)), device
/// and inode alone decide, and the next file is taken for the removed one.
#[must_use]
pub fn identity(meta: &Metadata) -> u64 {
    let born = meta.created().ok();
    let born = born.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    let born = born.map_or(0, |t| t.as_nanos() as u64);
    let mixed = born.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // System V segments have the second bit set (`segments::IDENTITY`).
    ((meta.ino() ^ meta.dev().rotate_left(40) ^ mixed) & (u64::MAX >> 2)).max(1)
}

/// The same, of the file that a descriptor of the guest leads to.
#[must_use]
pub fn identity_at(fd: i32) -> Option<u64> {
    if fd < 0 {
        return None;
    }
    borrow(fd).metadata().ok().as_ref().map(identity)
}

/// Puts a file's content into the trace. A file that the tree has mapped before, and whose inode shows
/// no change since, is not read again.
///
/// # Errors
/// The trace cannot be written.
pub fn keep(machine: &Machine, file: &File) -> Result<FileId> {
    keep_known(machine, file, &file.metadata().map_err(Failure::setup)?)
}

/// The files whose content is in the trace. A flight recording sets copies of files aside that nothing in it names any
/// more: what was known before is not known from then on.
#[derive(Clone, Copy)]
pub(super) struct KnownFiles<'a> {
    table: &'a FileTable,
    set_aside: u32,
}

impl KnownFiles<'_> {
    /// The content of a known file.
    pub fn find(&self, stamp: Stamp) -> Option<FileId> {
        self.table.find(self.now(stamp)).map(FileId)
    }

    /// Remembers a file.
    pub fn insert(&self, stamp: Stamp, id: FileId) {
        self.table.insert(self.now(stamp), id.0);
    }

    fn now(&self, [one, two]: Stamp) -> Stamp {
        [one, two ^ u64::from(self.set_aside) << 32]
    }
}

/// The files whose content is in the trace, if a file's times (the file by its identity) show
/// its changes: writes through a map change them too late, or not at all.
pub(super) fn known_files(machine: &Machine, file: u64) -> Option<KnownFiles<'_>> {
    let shm = machine.shm.as_ref()?;
    let known = KnownFiles {
        table: FILES.of(shm),
        set_aside: set_aside(machine),
    };
    (!USERS.of(shm).ever_written(file)).then_some(known)
}

/// The same, of a file with this metadata, just read.
pub(super) fn keep_known(machine: &Machine, file: &File, meta: &Metadata) -> Result<FileId> {
    let known = known_files(machine, identity(meta));
    let stamp = FileTable::stamp(meta);
    if let Some(id) = known.and_then(|files| files.find(stamp)) {
        return Ok(id);
    }
    let store = crate::retained_fds::store(&machine.trace);
    // The times of a file that the tree has written to through a map show its changes too late:
    // `known` is `None` then.
    let lasting = known.filter(|_| !crate::retained_fds::is_changed());
    let kept = lasting.and_then(|_| kept_files::find(meta, stamp, &store));
    let id = match kept {
        Some(id) => id,
        None => {
            let id = store.add(file).map_err(Failure::setup)?;
            if lasting.is_some() {
                kept_files::remember(meta, stamp, id, &store);
            }
            id
        }
    };
    crate::retained_fds::added(&store, id);
    if let Some(table) = known.filter(|_| FileTable::settled(meta)) {
        table.insert(stamp, id);
    }
    Ok(id)
}
