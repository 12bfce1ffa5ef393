//! Output to the recording's standard streams: numbered over the whole tree while
//! recording; `modes/replay/output.rs` writes it again in that order.

use relive_host::{GuestAddr, copy, sys};

use super::live::interrupted;
use super::{Call, moved};
use crate::machine::machine;
use crate::task::Task;

/// The argument with the descriptor that a call writes to, by its number.
pub fn written(nr: u32) -> Option<usize> {
    Some(match i64::from(nr) {
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwrite64
        | libc::SYS_pwritev
        | libc::SYS_pwritev2
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_sendfile
        | libc::SYS_vmsplice => 0,
        libc::SYS_tee => 1,
        libc::SYS_splice | libc::SYS_copy_file_range => 2,
        _ => return None,
    })
}

/// Whether a call moves its output there, without having it in its memory.
pub fn is_moved(nr: u32) -> bool {
    moved::moves(nr)
}

/// The stream that a call writes to, 0 if none.
pub fn stream_of(task: &Task, call: &Call) -> u8 {
    let Some(fd) = written(call.nr).map(|argument| call.int(argument)) else {
        return 0;
    };
    if fd < 0 || !task.mode().traits().keeps {
        return 0;
    }
    task.process.state().streams.find(fd, |fd| {
        let st = super::status(fd)?;
        Some((st.st_dev, st.st_ino))
    })
}

/// Makes the call, with these arguments for the kernel, under the lock that orders the output of
/// all processes. The baton is kept: the order of outputs is also the order of the threads.
pub fn make(task: &mut Task, call: &Call, stream: u8, args: &[u64; 6]) -> i64 {
    locked(task, call, stream, call.nr, args)
}

/// As [`make`], for output that is moved to the stream.
pub fn make_moved(task: &mut Task, call: &Call, stream: u8) -> i64 {
    let fd = written(call.nr).map_or(-1, |argument| call.int(argument));
    moved::make(task, call, |task, bytes| {
        let args = [
            fd as u64,
            bytes.as_ptr() as u64,
            bytes.len() as u64,
            0,
            0,
            0,
        ];
        locked(task, call, stream, libc::SYS_write as u32, &args)
    })
}

/// Writes under the lock; the result is numbered.
fn locked(task: &mut Task, call: &Call, stream: u8, nr: u32, args: &[u64; 6]) -> i64 {
    let shm = machine()
        .shm
        .as_ref()
        .expect("a recording has shared memory");
    while !shm.lock_output(task.tid) {
        if task.ctx.pending != 0 {
            return interrupted(task, call, sys::INTERRUPTED as i64);
        }
    }
    // SAFETY: only reads guest memory, through the kernel.
    let result = unsafe { sys::syscall_interruptible(u64::from(nr), args) } as i64;
    let order = shm.unlock_output(result > 0);
    if order.is_some() {
        (task.log.order, task.log.stream) = (order, stream);
    }
    interrupted(task, call, result)
}

/// The bytes that a call wrote, which returned `len`, from the guest's buffers.
pub fn gather(task: &Task, call: &Call, len: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match i64::from(call.nr) {
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 | libc::SYS_vmsplice => {
            take_vector(task, call.args[1], call.args[2], len, &mut out)?;
        }
        libc::SYS_sendmsg => take_message(task, call.args[1], len, &mut out)?,
        libc::SYS_sendmmsg => {
            // `struct mmsghdr`: the message, the number of its bytes.
            for message in (0..len).map(|k| call.args[1] + 64 * k) {
                let sent = u32::from_le_bytes(task.read(message + 56).ok()?);
                take_message(task, message, sent.into(), &mut out)?;
            }
        }
        _ => take(call.args[1], len, &mut out)?,
    }
    Some(out)
}

fn take(addr: u64, n: u64, out: &mut Vec<u8>) -> Option<()> {
    let from = out.len();
    out.resize(from + n as usize, 0);
    copy::read(GuestAddr(addr), &mut out[from..]).ok()
}

fn take_vector(task: &Task, at: u64, count: u64, len: u64, out: &mut Vec<u8>) -> Option<()> {
    let mut left = len;
    for part in (0..count).map(|k| at + 16 * k) {
        let base = task.read_u64(part).ok()?;
        let n = task.read_u64(part + 8).ok()?.min(left);
        if n > 0 {
            take(base, n, out)?;
        }
        left -= n;
    }
    Some(())
}

/// From a `struct msghdr`.
fn take_message(task: &Task, at: u64, len: u64, out: &mut Vec<u8>) -> Option<()> {
    let (vector, count) = (task.read_u64(at + 16).ok()?, task.read_u64(at + 24).ok()?);
    take_vector(task, vector, count, len, out)
}
