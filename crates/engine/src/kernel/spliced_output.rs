//! Output that a program moves to a standard stream without a buffer in its memory: sendfile,
//! splice, tee and copy_file_range. The bytes are read and written here, and logged with the
//! call, so that a replay has them.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};

use relive_host::sys;
use relive_kabi::{At, End, Moves};
use rustix::pipe::{PipeFlags, pipe_with};

use super::enter::{blocking, interrupted};
use crate::call::Call;
use crate::descriptor::status;
use crate::descriptor_limit::Room;
use crate::failure::{Result, answered};
use crate::task::Task;

const EINVAL: i64 = -(libc::EINVAL as i64);
/// One piece, as much as a pipe holds by default.
const PIECE: usize = 64 * 1024;

/// Where a call takes its bytes from.
struct SpliceSource {
    fd: i32,
    /// Address of the offset to read at; 0 = the descriptor's own position.
    offset: u64,
    /// At most so many bytes.
    len: usize,
    /// Goes on in pieces up to `len` or the end of the file; otherwise one piece is all.
    whole: bool,
    /// Leaves the bytes in the source (tee(2)).
    copies: bool,
    flags: u32,
}

impl SpliceSource {
    /// The source of a call, or the errno (negative) with which the kernel refuses the call.
    fn of(call: &Call) -> std::result::Result<Self, i64> {
        let (Some(row), Some(input), Some(output)) = (call.row, call.input(), call.output()) else {
            return Err(EINVAL);
        };
        let kind = |end: End| match status(call.arg(end.fd) as i32) {
            Some(st) => Ok(st.st_mode & libc::S_IFMT),
            None => Err(-i64::from(libc::EBADF)),
        };
        let offset = |end: End| match end.at {
            At::Pointer(argument) => call.arg(argument),
            _ => 0,
        };
        let (from, to) = (kind(input)?, kind(output)?);
        let pipes = [from, to].map(|kind| kind == libc::S_IFIFO);
        if pipes[0] && offset(input) != 0 || pipes[1] && offset(output) != 0 {
            return Err(-i64::from(libc::ESPIPE));
        }
        let (len, flags, fits) = match row.moves {
            Moves::No => return Err(EINVAL),
            Moves::FromFile {
                len,
                to_file: false,
            } => (len, 0, !pipes[0]),
            Moves::FromFile { len, to_file: true } => (len, 0, [from, to] == [libc::S_IFREG; 2]),
            Moves::ByPipe { len, flags } => (len, call.arg(flags), pipes[0] || pipes[1]),
            Moves::Tees { len, flags } => (len, call.arg(flags), pipes[0] && pipes[1]),
        };
        if !fits || offset(output) != 0 {
            return Err(EINVAL);
        }
        Ok(Self {
            fd: call.arg(input.fd) as i32,
            offset: offset(input),
            len: call.arg(len) as usize,
            whole: matches!(row.moves, Moves::FromFile { .. }),
            copies: matches!(row.moves, Moves::Tees { .. }),
            flags: flags as u32,
        })
    }
}

/// Whether it is a call that moves bytes from one descriptor to another.
#[must_use]
pub fn moves(call: &Call) -> bool {
    call.row.is_some_and(|r| r.moves != Moves::No)
}

/// Makes such a call: `write` writes its bytes to the stream, and the task's log gets the bytes that
/// were written. Returns the result of the call.
///
/// # Errors
/// The turn behind the wait is lost, or a page cannot be opened.
pub fn make(
    task: &mut Task,
    call: &Call,
    write: impl FnOnce(&mut Task, &[u8]) -> i64,
) -> Result<i64> {
    let source = match SpliceSource::of(call) {
        Ok(source) => source,
        Err(e) => return Ok(e),
    };
    let waited = wait(task, call, &source)?;
    if waited < 0 {
        return Ok(waited);
    }
    let start = match source.offset {
        0 => None,
        at => match task.read_u64(at) {
            Ok(offset) => Some(offset),
            Err(e) => return Ok(e),
        },
    };
    let mut bytes = Vec::new();
    let first = loop {
        let room = (source.len - bytes.len()).min(PIECE);
        let n = take(
            task,
            &source,
            start.map(|s| s + bytes.len() as u64),
            room,
            &mut bytes,
        );
        if n <= 0 || !source.whole || bytes.len() == source.len {
            break n;
        }
    };
    if bytes.is_empty() {
        return Ok(first);
    }
    let result = write(task, &bytes);
    if result <= 0 {
        return Ok(result);
    }
    if let Some(start) = start {
        let after = start + result as u64;
        if answered(task.write(source.offset, &after.to_le_bytes()))?.is_ok() {
            task.log.wrote(source.offset, 8);
        }
    }
    task.log.extra.extend_from_slice(&bytes[..result as usize]);
    Ok(result)
}

/// Waits, with the baton given up, until the source is readable. Returns the kernel's result of the wait.
fn wait(task: &mut Task, call: &Call, source: &SpliceSource) -> Result<i64> {
    if source.flags & libc::SPLICE_F_NONBLOCK != 0 || task.log.keeps_baton {
        return Ok(0);
    }
    let mut poll = libc::pollfd {
        fd: source.fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let args = [&raw mut poll as u64, 1, u64::MAX, 0, 0, 0];
    let result = blocking(task, libc::SYS_poll as u32, &args)?;
    Ok(interrupted(task, call, result))
}

/// Appends up to `len` bytes from the source. They come through a pipe of the host, so that the kernel
/// refuses here the transfers that it refuses the guest. Returns the number of bytes, or an errno (negative).
fn take(
    task: &Task,
    source: &SpliceSource,
    offset: Option<u64>,
    len: usize,
    bytes: &mut Vec<u8>,
) -> i64 {
    let _room = Room::for_host(task.traits().keeps);
    // The guest does not run before they are closed.
    let Ok((from, to)) = pipe_with(PipeFlags::CLOEXEC) else {
        return -i64::from(libc::ENOMEM);
    };
    let n = fill(source, offset, &to, len);
    let Ok(there) = usize::try_from(n) else {
        return n;
    };
    let begin = bytes.len();
    bytes.resize(begin + there, 0);
    match File::from(from).read_exact(&mut bytes[begin..]) {
        Ok(()) => n,
        Err(_) => {
            bytes.truncate(begin);
            -i64::from(libc::EIO)
        }
    }
}

/// Moves or copies up to `len` bytes into a pipe.
fn fill(source: &SpliceSource, offset: Option<u64>, pipe: &OwnedFd, len: usize) -> i64 {
    let (from, to) = (source.fd as u64, pipe.as_raw_fd() as u64);
    let (len, flags) = (len as u64, u64::from(source.flags));
    let mut start = offset.unwrap_or(0);
    let at = match offset {
        Some(_) => &raw mut start as u64,
        None => 0,
    };
    let (nr, args) = match source.copies {
        true => (libc::SYS_tee, [from, to, len, flags, 0, 0]),
        false => (libc::SYS_splice, [from, at, to, 0, len, flags]),
    };
    // SAFETY: writes at most the offset, which is ours.
    (unsafe { sys::syscall(nr as u64, args) }) as i64
}
