//! Output that a program moves to a standard stream without having it in its memory: sendfile,
//! splice, tee and copy_file_range. The bytes are read and written here, and logged with the
//! call, so that a replay has them.

use relive_host::sys;

use super::live::interrupted;
use super::{Call, blocking, fds};
use crate::task::Task;

/// One piece, as much as a pipe holds by default.
const PIECE: usize = 64 * 1024;

/// Where a call takes its bytes from.
struct Source {
    fd: i32,
    /// Address of the offset to read at; 0 = the descriptor's own position.
    offset: u64,
    /// At most so many bytes.
    len: usize,
    /// In pieces up to the end, and not what is there.
    whole: bool,
    /// Leaves the bytes where they are.
    copies: bool,
    flags: u32,
}

impl Source {
    /// `None` for what the kernel refuses.
    fn of(call: &Call) -> Option<Self> {
        let kind = |fd: i32| fds::status(fd).map_or(0, |st| st.st_mode & libc::S_IFMT);
        let pipe = |i: usize| kind(call.int(i)) == libc::S_IFIFO;
        let file = |i: usize| kind(call.int(i)) == libc::S_IFREG;
        let (fd, offset, len, whole, flags) = match i64::from(call.nr) {
            libc::SYS_sendfile => (1, call.args[2], call.args[3], true, 0),
            libc::SYS_splice if pipe(0) || pipe(2) => {
                (0, call.args[1], call.args[4], false, call.args[5])
            }
            libc::SYS_tee if pipe(0) && pipe(1) => (0, 0, call.args[2], false, call.args[3]),
            libc::SYS_copy_file_range if file(0) && file(2) && call.args[3] == 0 => {
                (0, call.args[1], call.args[4], true, 0)
            }
            _ => return None,
        };
        let onto = i64::from(call.nr) == libc::SYS_splice && call.args[3] != 0;
        (!onto).then_some(Self {
            fd: call.int(fd),
            offset,
            len: len as usize,
            whole,
            copies: i64::from(call.nr) == libc::SYS_tee,
            flags: flags as u32,
        })
    }
}

/// Whether it is one of these calls.
#[must_use]
pub fn moves(nr: u32) -> bool {
    matches!(
        i64::from(nr),
        libc::SYS_sendfile | libc::SYS_splice | libc::SYS_tee | libc::SYS_copy_file_range
    )
}

/// Takes the bytes of a call into the task's log; `write` writes them to the stream. The result
/// of the call.
pub fn make(task: &mut Task, call: &Call, write: impl FnOnce(&mut Task, &[u8]) -> i64) -> i64 {
    let Some(source) = Source::of(call) else {
        return -i64::from(libc::EINVAL);
    };
    if let Err(e) = wait(task, call, &source) {
        return e;
    }
    let start = match source.offset {
        0 => None,
        at => match task.read_u64(at) {
            Ok(offset) => Some(offset),
            Err(e) => return e,
        },
    };
    let mut bytes = Vec::new();
    let first = loop {
        let room = (source.len - bytes.len()).min(PIECE);
        let n = take(
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
        return first;
    }
    let result = write(task, &bytes);
    if result <= 0 {
        return result;
    }
    if let Some(start) = start {
        let after = start + result as u64;
        if task.write(source.offset, &after.to_le_bytes()).is_ok() {
            task.log.wrote(source.offset, 8);
        }
    }
    task.log.extra.extend_from_slice(&bytes[..result as usize]);
    result
}

/// Waits, with the baton given up, until there is something to read.
fn wait(task: &mut Task, call: &Call, source: &Source) -> Result<(), i64> {
    if source.flags & libc::SPLICE_F_NONBLOCK != 0 || task.log.keeps_baton {
        return Ok(());
    }
    let mut poll = libc::pollfd {
        fd: source.fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let args = [&raw mut poll as u64, 1, u64::MAX, 0, 0, 0];
    let result = blocking(task, libc::SYS_poll as u32, &args);
    match interrupted(task, call, result) {
        n if n < 0 => Err(n),
        _ => Ok(()),
    }
}

/// Appends up to `len` bytes; as read(2) answers.
fn take(source: &Source, offset: Option<u64>, len: usize, bytes: &mut Vec<u8>) -> i64 {
    let from = bytes.len();
    bytes.resize(from + len, 0);
    let n = match (source.copies, offset) {
        (true, _) => peek(source, &mut bytes[from..]),
        (false, offset) => read(source.fd, offset, &mut bytes[from..]),
    };
    bytes.truncate(from + n.max(0) as usize);
    n
}

fn read(fd: i32, offset: Option<u64>, buffer: &mut [u8]) -> i64 {
    let (at, len) = (buffer.as_mut_ptr() as u64, buffer.len() as u64);
    let (nr, offset) = match offset {
        Some(o) => (libc::SYS_pread64, o),
        None => (libc::SYS_read, 0),
    };
    // SAFETY: fills the buffer.
    (unsafe { sys::syscall(nr as u64, [fd as u64, at, len, offset, 0, 0]) }) as i64
}

/// Looks at what is in a pipe, by way of one of ours.
fn peek(source: &Source, buffer: &mut [u8]) -> i64 {
    let mut ends = [0i32; 2];
    // SAFETY: makes two descriptors, closed below before the guest runs.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return -i64::from(libc::ENOMEM);
        }
        let args = [
            source.fd as u64,
            ends[1] as u64,
            buffer.len() as u64,
            u64::from(source.flags),
            0,
            0,
        ];
        let n = sys::syscall(libc::SYS_tee as u64, args) as i64;
        let n = if n > 0 {
            read(ends[0], None, &mut buffer[..n as usize])
        } else {
            n
        };
        libc::close(ends[0]);
        libc::close(ends[1]);
        n
    }
}
