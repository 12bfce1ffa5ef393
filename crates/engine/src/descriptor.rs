//! Questions to the kernel about a descriptor of the guest's, by its number. Must change nothing.

use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{
    CWD, Mode, OFlags, PROC_SUPER_MAGIC, SeekFrom, Stat, fcntl_getfl, fstat, fstatfs, openat,
};
use rustix::io::{FdFlags, fcntl_getfd};

/// The descriptor of a number; `None` for a number that none has.
pub fn borrow(fd: i32) -> Option<BorrowedFd<'static>> {
    // SAFETY: the guest's descriptors stay open as long as the guest wants; the kernel answers a question
    // about a closed one with an error.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// The status of a descriptor by fstat(2); `None` for a bad one.
pub fn status(fd: i32) -> Option<Stat> {
    fstat(borrow(fd)?).ok()
}

/// The flags with which its file is open; `None` for a bad one.
pub fn open_flags(fd: i32) -> Option<OFlags> {
    fcntl_getfl(borrow(fd)?).ok()
}

/// Its own flags; `None` for a bad one.
pub fn flags(fd: i32) -> Option<FdFlags> {
    fcntl_getfd(borrow(fd)?).ok()
}

/// The position of a descriptor; 0 where it has none.
pub fn position(fd: i32) -> u64 {
    borrow(fd).map_or(0, |fd| {
        rustix::fs::seek(fd, SeekFrom::Current(0)).unwrap_or(0)
    })
}

/// Whether the descriptor is open, and not only as a place in the file tree (`O_PATH`).
pub(super) fn takes_requests(fd: i32) -> bool {
    open_flags(fd).is_some_and(|flags| !flags.contains(OFlags::PATH))
}

/// The kind of file system that a descriptor leads to (statfs(2)).
pub fn file_system(fd: i32) -> Option<i64> {
    Some(fstatfs(borrow(fd)?).ok()?.f_type)
}

/// Whether a descriptor leads to /proc or /sys.
pub fn is_generated(fd: i32) -> bool {
    file_system(fd).is_some_and(|fs| [PROC_SUPER_MAGIC, libc::SYSFS_MAGIC].contains(&fs))
}

/// A folder, by its path from another one; only as a place in the file tree. Links are followed.
pub fn folder(from: i32, path: &CStr) -> Option<OwnedFd> {
    let from = match from {
        libc::AT_FDCWD => CWD,
        from => borrow(from)?,
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(from, path, flags, Mode::empty()).ok()
}

/// The process whose memory a file of `/proc` is, by the kernel's name for the file: `…/PID/mem`,
/// `…/PID/task/TID/mem`. A thread's own folder, `…/TID/mem`, gives the thread.
#[must_use]
pub fn owner(fd: i32) -> Option<u32> {
    let name = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    let name = name.to_str()?;
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let folder = name.strip_suffix("/mem")?;
    let mut parts = folder.rsplit('/');
    let number: u32 = parts.next()?.parse().ok()?;
    match (parts.next(), parts.next()) {
        (Some("task"), Some(process)) => process.parse().ok(),
        _ => Some(number),
    }
}
