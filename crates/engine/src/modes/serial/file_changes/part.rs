//! Which part of a file a call has changed: never less than it did, and seldom more.

use std::os::fd::{AsRawFd, OwnedFd};

use relive_host::addr::PAGE;
use relive_kabi::At;
use rustix::fs::OFlags;

use crate::call::Call;
use crate::descriptor::{open_flags, position, status};
use crate::kernel::changed_files::{ChangedPart, FileChange, FileOperand};
use crate::task::Task;

/// pwritev2(2): at the offset, although the descriptor appends.
const RWF_NOAPPEND: i32 = 0x20;

/// The state of a file before it is changed. No other process changes it until the call is over;
/// but a position may belong to other processes too, and move.
pub struct FileBefore {
    size: u64,
    /// Where the call writes; `None` if it does not.
    start: Option<PartStart>,
}

#[derive(Clone, Copy)]
enum PartStart {
    At(u64),
    /// At the position of a descriptor.
    Position(i32, u64),
}

impl FileBefore {
    /// The state before a call; `size` is that of a file which it names, if it is known.
    pub fn of(task: &Task, call: &Call, target: FileChange, size: Option<u64>) -> Self {
        let size = size.unwrap_or_else(|| self::size(call, target, &None, -1));
        let start = match (target.file, target.part) {
            (FileOperand::Descriptor(argument), ChangedPart::Written(at)) => {
                start(task, call, at, call.arg(argument) as i32, size)
            }
            _ => None,
        };
        Self { size, start }
    }
}

fn start(task: &Task, call: &Call, at: At, fd: i32, size: u64) -> Option<PartStart> {
    let position = || PartStart::Position(fd, position(fd));
    if appends(call, at, fd) {
        return Some(PartStart::At(size));
    }
    Some(match at {
        At::Stream | At::Position => position(),
        At::Offset(offset) => PartStart::At(call.arg(offset)),
        At::Flagged { offset, .. } => match call.arg(offset) {
            u64::MAX => position(),
            at => PartStart::At(at),
        },
        At::Pointer(pointer) => match call.arg(pointer) {
            0 => position(),
            at => PartStart::At(task.read_u64(at).ok()?),
        },
    })
}

/// Whether a call writes at the end of its file.
fn appends(call: &Call, at: At, fd: i32) -> bool {
    let flags = match at {
        At::Flagged { flags, .. } => call.arg(flags) as i32,
        _ => 0,
    };
    let opened = || open_flags(fd).is_some_and(|flags| flags.contains(OFlags::APPEND));
    flags & libc::RWF_APPEND != 0 || flags & RWF_NOAPPEND == 0 && opened()
}

/// The change that a call has made to a file.
pub struct Changed {
    /// The part that has changed: where it starts and ends.
    pub part: (u64, u64),
    /// A part of that which holds zeros now.
    pub zeros: (u64, u64),
    /// The file has become smaller.
    pub cut: bool,
}

/// The change of a call to a file of which the state before is known. `cut`: the file has been cut
/// before, so that bytes which it gets by growing may have been something else once.
pub fn changed(
    call: &Call,
    target: FileChange,
    before: &FileBefore,
    pinned: &Option<OwnedFd>,
    result: i64,
    cut: bool,
) -> Option<Changed> {
    let after = size(call, target, pinned, result);
    let (least, most) = (before.size.min(after), up(before.size.max(after)));
    // Bytes behind the old end are new, to the end of the last page.
    let grown = |(start, end): (u64, u64)| match after == before.size {
        true => (start, end),
        false => (start.min(least), end.max(most)),
    };
    // New bytes are zeros, as they were.
    let resized = match after > before.size && !cut {
        true => (least, up(least)),
        false => (least, most),
    };
    let done = u64::try_from(result).unwrap_or(0);
    let part = match target.part {
        ChangedPart::Written(_) if done == 0 => return None,
        ChangedPart::Written(_) => match before.start {
            Some(PartStart::At(at)) => grown((at, at.saturating_add(done))),
            Some(PartStart::Position(fd, at)) if position(fd) == at + done => {
                grown((at, at + done))
            }
            // Another process has moved it meanwhile.
            _ => (0, most),
        },
        ChangedPart::Cut => resized,
        ChangedPart::Allocated(mode) => match allocated(call, mode, most) {
            Some(part) if after == before.size => part,
            Some((start, end)) => (start.min(resized.0), end.max(resized.1)),
            None => resized,
        },
        ChangedPart::Everything => (0, most),
    };
    if part.0 >= part.1 {
        return None;
    }
    let zeros = match target.part {
        ChangedPart::Allocated(mode) if result == 0 => wiped(call, mode),
        _ => None,
    };
    let (from, to) = zeros.unwrap_or_default();
    Some(Changed {
        part,
        zeros: (from.clamp(part.0, part.1), to.clamp(part.0, part.1)),
        cut: after < before.size,
    })
}

/// The part that fallocate(2) changes within the file, even if it fails on the way.
fn allocated(call: &Call, mode: u8, end: u64) -> Option<(u64, u64)> {
    const MOVES: i32 = libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE;
    if call.arg(mode) as i32 & MOVES != 0 {
        return Some((call.arg(mode + 1), end));
    }
    wiped(call, mode).map(|(from, to)| (from, up(to).min(end)))
}

/// The part that fallocate(2) fills with zeros.
fn wiped(call: &Call, mode: u8) -> Option<(u64, u64)> {
    const ZEROES: i32 = 0x80;
    const WIPES: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE | ZEROES;
    let (start, len) = (call.arg(mode + 1), call.arg(mode + 2));
    let wipes = call.arg(mode) as i32 & WIPES != 0;
    wipes.then(|| (start, start.saturating_add(len)))
}

/// The size of the file that a call changes; of a file to be opened, after or (`result` is
/// negative) before that.
fn size(call: &Call, target: FileChange, pinned: &Option<OwnedFd>, result: i64) -> u64 {
    let fd = match (target.file, pinned) {
        (FileOperand::Descriptor(argument), _) => call.arg(argument) as i32,
        (_, Some(pinned)) => pinned.as_raw_fd(),
        (_, None) => result as i32,
    };
    status(fd).map_or(0, |st| st.st_size as u64)
}

fn up(at: u64) -> u64 {
    at.saturating_add(PAGE - 1) & !(PAGE - 1)
}
