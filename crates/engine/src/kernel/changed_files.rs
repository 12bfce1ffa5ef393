//! Which file a call changes, and which part of it, as the call's row says.

use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use relive_kabi::{At, Changes, End, Opening};
use rustix::fs::{Mode, OFlags, open};

use super::mapped::{identity, identity_at};
use crate::call::Call;
use crate::input::descriptors::is_regular;
use crate::task::Task;

/// The file that a call changes, and the part of it.
#[derive(Clone, Copy)]
pub struct FileChange {
    pub file: FileOperand,
    pub part: ChangedPart,
}

/// The file that a call changes.
#[derive(Clone, Copy)]
pub enum FileOperand {
    /// That of a descriptor, by the number of its argument.
    Descriptor(u8),
    /// That of the path in an argument.
    Named(u8),
    /// The one that it opens.
    Opened(Opening),
}

/// The part of the file that a call changes.
#[derive(Clone, Copy)]
pub enum ChangedPart {
    /// As many bytes as it returns.
    Written(At),
    /// The size.
    Cut,
    /// As fallocate(2) is asked to, by arguments from this one on: mode, offset, length.
    Allocated(u8),
    /// All of it.
    Everything,
}

/// The change that a call may make to a file.
pub fn find(task: &Task, call: &Call) -> Option<FileChange> {
    if let Some(End { fd, at, .. }) = call.output().filter(|end| end.at != At::Stream) {
        return target(FileOperand::Descriptor(fd), ChangedPart::Written(at));
    }
    if let Some(opening) = call.opening() {
        return match task.strings.open_flags(call, opening) & libc::O_TRUNC as u64 {
            0 => None,
            _ => target(FileOperand::Opened(opening), ChangedPart::Cut),
        };
    }
    match call.changes() {
        Changes::Nothing => None,
        Changes::Size(fd) => target(FileOperand::Descriptor(fd), ChangedPart::Cut),
        Changes::SizeOfNamed(path) => target(FileOperand::Named(path), ChangedPart::Cut),
        Changes::Space(fd) => target(FileOperand::Descriptor(fd), ChangedPart::Allocated(fd + 1)),
        Changes::All(fd) => target(FileOperand::Descriptor(fd), ChangedPart::Everything),
    }
}

/// The same, of a file that can be mapped: no other than a regular one can be.
pub fn find_mappable(task: &Task, call: &Call) -> Option<FileChange> {
    find(task, call).filter(|change| match change.file {
        FileOperand::Descriptor(argument) => is_regular(task, call.arg(argument) as i32),
        FileOperand::Named(_) | FileOperand::Opened(_) => true,
    })
}

fn target(file: FileOperand, part: ChangedPart) -> Option<FileChange> {
    Some(FileChange { file, part })
}

/// The file that a path in a call names.
pub enum PathTarget {
    /// A regular file: identity and size.
    File(u64, u64),
    /// None yet: a file that the call makes there is a regular one.
    Nothing,
    /// One that cannot be mapped, or an unknown one.
    Other,
}

/// The file that a path in a call names now. Opens no descriptor, whose number the guest could miss.
pub fn named(task: &Task, call: &Call) -> PathTarget {
    let path = match find(task, call).map(|target| target.file) {
        Some(
            FileOperand::Opened(Opening {
                path: Some(path), ..
            })
            | FileOperand::Named(path),
        ) => path,
        _ => return PathTarget::Other,
    };
    let Some(mut text) = text(task, call, path) else {
        return PathTarget::Other;
    };
    if let Some(before) = path.checked_sub(1) {
        let folder = call.arg(before) as i32;
        if folder != libc::AT_FDCWD && text.first() != Some(&b'/') {
            text.splice(0..0, format!("/proc/self/fd/{folder}/").into_bytes());
        }
    }
    match std::fs::metadata(OsStr::from_bytes(&text)) {
        Ok(meta) if meta.is_file() => PathTarget::File(identity(&meta), meta.len()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => PathTarget::Nothing,
        _ => PathTarget::Other,
    }
}

/// Holds the file that is named by the path in an argument, without any effect on it.
pub fn pin(task: &Task, call: &Call, path: u8) -> Option<OwnedFd> {
    let path = CString::new(text(task, call, path)?).ok()?;
    open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// The file that a call with this result may have changed (an identity). Meanwhile other threads may
/// have made its name or descriptor lead to another file.
pub fn changed(task: &Task, call: &Call, result: i64) -> Option<u64> {
    match find(task, call)?.file {
        _ if result < 0 => None,
        FileOperand::Descriptor(argument) => identity_at(call.arg(argument) as i32),
        FileOperand::Named(_) => match named(task, call) {
            PathTarget::File(file, _) => Some(file),
            _ => None,
        },
        FileOperand::Opened(_) => identity_at(result as i32),
    }
}

fn text(task: &Task, call: &Call, path: u8) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let read = (task.strings).read(call, path.into(), libc::PATH_MAX as usize, &mut text);
    read.ok()?;
    Some(text)
}
