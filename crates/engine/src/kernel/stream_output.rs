//! Output to the recording's standard streams: numbered over the whole tree while recording;
//! `modes/replay/output_order.rs` writes it again in that order. Must never be written without the lock that
//! orders it.

use relive_host::{GuestAddr, copy, sys};
use relive_kabi::Arg;
use relive_kabi::structs::{MMSGHDR, MMSGHDR_LEN, MSGHDR_IOV, MSGHDR_IOVLEN};

use super::enter::interrupted;
use super::{spliced_output, stream_aliases};
use crate::call::Call;
use crate::descriptor::status;
use crate::failure::Result;
use crate::task::Task;

/// Whether a call moves its output from a file to the stream, without a buffer in guest memory.
pub fn is_spliced(call: &Call) -> bool {
    spliced_output::moves(call)
}

/// The stream that a call writes to, 0 if none.
pub fn stream_of(task: &Task, call: &Call) -> u8 {
    let Some(fd) = call.output().map(|end| call.arg(end.fd) as i32) else {
        return 0;
    };
    if fd < 0 || !task.traits().keeps {
        return 0;
    }
    task.process.state().streams.find(fd, |fd| {
        let st = status(fd)?;
        Some((st.st_dev, st.st_ino))
    })
}

/// Makes the call, with these arguments for the kernel, under the lock that orders the output of
/// all processes. The baton is kept: the order of outputs is also the order of the threads.
pub fn make(task: &mut Task, call: &Call, stream: u8, args: &[u64; 6]) -> i64 {
    locked(task, call, stream, call.nr, args)
}

/// As [`make`], for spliced output.
///
/// # Errors
/// Those of [`spliced_output::make`].
pub fn make_spliced(task: &mut Task, call: &Call, stream: u8) -> Result<i64> {
    let fd = call.output().map_or(u64::MAX, |end| call.arg(end.fd));
    spliced_output::make(task, call, |task, bytes| {
        let args = [fd, bytes.as_ptr() as u64, bytes.len() as u64, 0, 0, 0];
        locked(task, call, stream, libc::SYS_write as u32, &args)
    })
}

/// Writes under the lock; the result is numbered.
fn locked(task: &mut Task, call: &Call, stream: u8, nr: u32, args: &[u64; 6]) -> i64 {
    let shm = task
        .machine()
        .shm
        .as_ref()
        .expect("a recording has shared memory");
    let writer = crate::ids::thread_of(task.tid);
    while !shm.lock_output(writer) {
        if task.ctx.pending != 0 {
            return interrupted(task, call, sys::INTERRUPTED as i64);
        }
    }
    // SAFETY: only reads guest memory, through the kernel.
    let mut write = || unsafe { sys::syscall_interruptible(u64::from(nr), args) } as i64;
    let result = task.mode().in_turn(task, &mut write);
    let is_output = result > 0 && !unread(task, call, stream, args, result as u64);
    let order = shm.unlock_output(is_output);
    if order.is_some() {
        (task.log.order, task.log.stream) = (order, stream);
    }
    interrupted(task, call, result)
}

/// Whether the kernel took bytes for written that are nowhere: null(4) reads none of them, and a replay
/// has nothing to write.
fn unread(task: &Task, call: &Call, stream: u8, args: &[u64; 6], len: u64) -> bool {
    let seen = Call {
        args: *args,
        ..*call
    };
    stream_aliases::drops_output(task.machine(), stream)
        && !is_spliced(call)
        && gather(task, &seen, len).is_none()
}

/// The bytes that a call with the result `len` wrote, from the guest's buffers.
pub fn gather(task: &Task, call: &Call, len: u64) -> Option<Vec<u8>> {
    let memory = usize::from(call.output()?.memory?);
    let at = call.args[memory];
    let mut out = Vec::new();
    match call.row?.args[memory] {
        Arg::Iovec { count, .. } => take_vector(task, at, call.arg(count), len, &mut out)?,
        Arg::Msghdr { .. } => take_message(task, at, len, &mut out)?,
        Arg::Mmsghdr { .. } => {
            for message in (0..len).map(|k| at + u64::from(MMSGHDR) * k) {
                let sent = task.read(message + u64::from(MMSGHDR_LEN)).ok()?;
                take_message(task, message, u32::from_le_bytes(sent).into(), &mut out)?;
            }
        }
        _ => take(at, len, &mut out)?,
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
    let word = |offset: u32| task.read_u64(at + u64::from(offset)).ok();
    take_vector(task, word(MSGHDR_IOV)?, word(MSGHDR_IOVLEN)?, len, out)
}

#[cfg(test)]
mod tests;
