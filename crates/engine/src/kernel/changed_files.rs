//! Which calls change files: one table, and how the file is found that a call changes.

use std::ffi::{CString, OsStr};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use relive_host::{GuestAddr, copy};

use super::Call;
use super::mapped::{identity, identity_at};

/// A call that changes a file.
pub struct Row {
    nr: i64,
    pub which: Which,
    pub what: What,
}

/// Which file it changes.
pub enum Which {
    /// That of a descriptor, by the number of its argument.
    Descriptor(usize),
    /// That of the path in its first argument.
    Named,
    /// The one that it opens.
    Opened { path: usize, flags: Flags },
}

/// Where a call that opens a file says whether it is to be cut.
pub enum Flags {
    /// In an argument.
    At(usize),
    /// In the structure that an argument points to.
    How(usize),
    /// It always does.
    Always,
}

/// Which part it changes.
pub enum What {
    /// As many bytes as it returns, at the descriptor's position or at an offset that is an argument.
    Written { offset: Option<usize> },
    /// The same; an argument points to the offset, or is null.
    Through { offset: usize },
    /// The size.
    Cut,
    /// As fallocate(2) is asked to.
    Allocated,
    /// All of it.
    Everything,
}

const fn row(nr: i64, which: Which, what: What) -> Row {
    Row { nr, which, what }
}

const fn written(nr: i64, offset: Option<usize>) -> Row {
    row(nr, Which::Descriptor(0), What::Written { offset })
}

const fn through(nr: i64) -> Row {
    row(nr, Which::Descriptor(2), What::Through { offset: 3 })
}

const fn opened(nr: i64, path: usize, flags: Flags) -> Row {
    row(nr, Which::Opened { path, flags }, What::Cut)
}

static ROWS: [Row; 17] = [
    written(libc::SYS_write, None),
    written(libc::SYS_writev, None),
    written(libc::SYS_sendfile, None),
    written(libc::SYS_pwrite64, Some(3)),
    written(libc::SYS_pwritev, Some(3)),
    written(libc::SYS_pwritev2, Some(3)),
    through(libc::SYS_splice),
    through(libc::SYS_copy_file_range),
    row(libc::SYS_ftruncate, Which::Descriptor(0), What::Cut),
    row(libc::SYS_fallocate, Which::Descriptor(0), What::Allocated),
    row(libc::SYS_ioctl, Which::Descriptor(0), What::Everything),
    row(libc::SYS_truncate, Which::Named, What::Cut),
    opened(libc::SYS_open, 0, Flags::At(1)),
    opened(libc::SYS_creat, 0, Flags::Always),
    opened(libc::SYS_openat, 1, Flags::At(2)),
    opened(libc::SYS_openat2, 1, Flags::How(2)),
    opened(libc::SYS_open_by_handle_at, NO_PATH, Flags::At(2)),
];

/// In place of a path: the call names the file in another way.
const NO_PATH: usize = 9;
/// Requests of ioctl(2) that change the content of a file.
const CLONES: [u64; 2] = [0x4004_9409, 0x4020_940d];

/// Whether a call may change the content of a file, by its number.
pub fn may_change(nr: u16) -> bool {
    ROWS.iter().any(|r| r.nr == i64::from(nr))
}

/// The row of a call that may change a file.
pub fn find(call: &Call) -> Option<&'static Row> {
    let row = ROWS.iter().find(|r| r.nr == i64::from(call.nr))?;
    let changes = match &row.which {
        Which::Opened { flags, .. } => cuts(call, flags),
        _ => row.nr != libc::SYS_ioctl || CLONES.contains(&call.args[1]),
    };
    changes.then_some(row)
}

fn cuts(call: &Call, flags: &Flags) -> bool {
    let flags = match flags {
        Flags::Always => return true,
        Flags::At(argument) => call.args[*argument],
        Flags::How(argument) => copy::read_u64(GuestAddr(call.args[*argument])).unwrap_or(0),
    };
    flags & libc::O_TRUNC as u64 != 0
}

/// What a path in a call names.
pub enum Named {
    /// A regular file: identity and size.
    File(u64, u64),
    /// Nothing: what is made there is a regular file.
    Nothing,
    /// What cannot be mapped, or is not known.
    Other,
}

/// What a path in a call names now. It makes no descriptor, whose number the guest could miss.
pub fn named(call: &Call) -> Named {
    let path = match find(call).map(|row| &row.which) {
        None | Some(Which::Opened { path: NO_PATH, .. }) => return Named::Other,
        Some(Which::Opened { path, .. }) => *path,
        Some(_) => 0,
    };
    let Some(mut text) = text(call.args[path]) else {
        return Named::Other;
    };
    let folder = call.int(0);
    if path != 0 && folder != libc::AT_FDCWD && text.first() != Some(&b'/') {
        text.splice(0..0, format!("/proc/self/fd/{folder}/").into_bytes());
    }
    match std::fs::metadata(OsStr::from_bytes(&text)) {
        Ok(meta) if meta.is_file() => Named::File(identity(&meta), meta.len()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Named::Nothing,
        _ => Named::Other,
    }
}

/// Holds the file that is named by the path in a call's first argument, without any effect on it.
pub fn pin(call: &Call) -> Option<OwnedFd> {
    let path = CString::new(text(call.args[0])?).ok()?;
    // SAFETY: the path outlives the call.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
    // SAFETY: the descriptor is new; nobody else has it.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The file that a call with this result may have changed (an identity). Other threads may have changed
/// what its name or descriptor leads to meanwhile.
pub fn changed(call: &Call, result: i64) -> Option<u64> {
    match find(call)?.which {
        _ if result < 0 => None,
        Which::Descriptor(argument) => identity_at(call.int(argument)),
        Which::Named => match named(call) {
            Named::File(file, _) => Some(file),
            _ => None,
        },
        Which::Opened { .. } => identity_at(result as i32),
    }
}

fn text(at: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    copy::read_cstr(GuestAddr(at), libc::PATH_MAX as usize, &mut text).ok()?;
    Some(text)
}
