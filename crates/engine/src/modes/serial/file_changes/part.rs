//! Which part of a file a call has changed: never less than it did, and seldom more.

use std::os::fd::{AsRawFd, OwnedFd};

use relive_host::addr::PAGE;

use crate::kernel::changed_files::{Row, What, Which};
use crate::kernel::{Call, status};
use crate::task::Task;

/// What is known of a file before it is changed. Nobody else changes it until the call is over;
/// but a position may belong to other processes too, and move.
pub struct Before {
    size: u64,
    /// Where the call writes; `None` if it does not.
    start: Option<Start>,
}

#[derive(Clone, Copy)]
enum Start {
    At(u64),
    /// At the position of a descriptor.
    Position(i32, u64),
}

impl Before {
    /// The state before a call; `size` is that of a file which it names, if it is known.
    pub fn of(task: &Task, call: &Call, row: &Row, size: Option<u64>) -> Self {
        let size = size.unwrap_or_else(|| self::size(call, row, &None, -1));
        let start = match row.which {
            Which::Descriptor(argument) => start(task, call, row, call.int(argument), size),
            _ => None,
        };
        Self { size, start }
    }
}

fn start(task: &Task, call: &Call, row: &Row, fd: i32, size: u64) -> Option<Start> {
    let position = || Start::Position(fd, position(fd));
    // SAFETY: only asks.
    let appends = unsafe { libc::fcntl(fd, libc::F_GETFL) } & libc::O_APPEND != 0;
    let appends =
        appends || i64::from(call.nr) == libc::SYS_pwritev2 && call.int(5) & libc::RWF_APPEND != 0;
    Some(match row.what {
        What::Written { .. } if appends => Start::At(size),
        What::Written { offset: None } => position(),
        What::Written { offset: Some(at) } => match call.args[at] {
            u64::MAX => position(),
            at => Start::At(at),
        },
        What::Through { offset } => match call.args[offset] {
            0 => position(),
            at => Start::At(task.read_u64(at).ok()?),
        },
        What::Cut | What::Allocated | What::Everything => return None,
    })
}

/// What a call has done to a file.
pub struct Changed {
    /// The part that has changed: where it starts and ends.
    pub part: (u64, u64),
    /// The file has become smaller.
    pub cut: bool,
}

/// What a call has done to a file of which the state before is known. `cut`: the file has been cut
/// before, so that what it gets by growing may have been something else once.
pub fn changed(
    call: &Call,
    row: &Row,
    before: &Before,
    pinned: &Option<OwnedFd>,
    result: i64,
    cut: bool,
) -> Option<Changed> {
    let after = size(call, row, pinned, result);
    let (least, most) = (before.size.min(after), up(before.size.max(after)));
    // What was behind the end is new, to the end of the last page.
    let grown = |(start, end): (u64, u64)| match after == before.size {
        true => (start, end),
        false => (start.min(least), end.max(most)),
    };
    // What is new is zeros, as it was.
    let resized = match after > before.size && !cut {
        true => (least, up(least)),
        false => (least, most),
    };
    let done = u64::try_from(result).unwrap_or(0);
    let part = match row.what {
        What::Written { .. } | What::Through { .. } if done == 0 => return None,
        What::Written { .. } | What::Through { .. } => match before.start {
            Some(Start::At(at)) => grown((at, at.saturating_add(done))),
            Some(Start::Position(fd, at)) if position(fd) == at + done => grown((at, at + done)),
            // Somebody has moved it meanwhile.
            _ => (0, most),
        },
        What::Cut => resized,
        What::Allocated => match allocated(call, most) {
            Some((start, end)) => (start.min(resized.0), end.max(resized.1)),
            None => resized,
        },
        What::Everything => (0, most),
    };
    (part.0 < part.1).then_some(Changed {
        part,
        cut: after < before.size,
    })
}

/// The part that fallocate(2) changes within the file, even if it fails on the way.
fn allocated(call: &Call, end: u64) -> Option<(u64, u64)> {
    const ZEROES: i32 = 0x80;
    const WIPES: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE | ZEROES;
    const MOVES: i32 = libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE;
    let (start, len) = (call.args[2], call.args[3]);
    match call.int(1) {
        mode if mode & MOVES != 0 => Some((start, end)),
        mode if mode & WIPES != 0 => Some((start, up(start.saturating_add(len)).min(end))),
        _ => None,
    }
}

/// The size of the file that a call changes; of one that is to be opened, after or (`result` is
/// negative) before that.
fn size(call: &Call, row: &Row, pinned: &Option<OwnedFd>, result: i64) -> u64 {
    let fd = match (&row.which, pinned) {
        (Which::Descriptor(argument), _) => call.int(*argument),
        (_, Some(pinned)) => pinned.as_raw_fd(),
        (_, None) => result as i32,
    };
    status(fd).map_or(0, |st| st.st_size as u64)
}

fn up(at: u64) -> u64 {
    at.saturating_add(PAGE - 1) & !(PAGE - 1)
}

/// The position of a descriptor; 0 where it has none.
fn position(fd: i32) -> u64 {
    // SAFETY: only asks.
    unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }.max(0) as u64
}
