//! The little that the engine knows of the guest's descriptors: which lead to standard
//! streams, and which cannot make a call sleep.

use std::fs::File;
use std::os::fd::FromRawFd;

use relive_kabi::FdEffect;

use super::live::generic;
use super::{Answer, Call, Reply};
use crate::failure::{Result, die};
use crate::machine::{Mode, machine};
use crate::sharing::users::Users;
use crate::task::Task;

/// Keeps the table of streams true after a call that succeeded.
pub fn after(task: &Task, call: &Call, result: i64) {
    let effect = call
        .sub
        .map_or_else(|| call.row.map_or(FdEffect::None, |r| r.fds), |s| s.fds);
    if effect == FdEffect::None || !task.tape.recording() {
        return;
    }
    let mut state = task.process.state();
    let streams = &mut state.streams;
    if let FdEffect::Closes(i) = effect {
        streams.close(call.int(usize::from(i)));
        return;
    }
    if result < 0 {
        return;
    }
    match i64::from(call.nr) {
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => streams.dup(call.int(0), result as i32),
        libc::SYS_fcntl if effect == FdEffect::Creates => streams.dup(call.int(0), result as i32),
        libc::SYS_close_range if call.int(2) as u32 & libc::CLOSE_RANGE_CLOEXEC == 0 => {
            streams.close_range(call.args[0] as u32, call.args[1] as u32)
        }
        _ if effect == FdEffect::Creates => streams.close(result as i32),
        _ => {}
    }
}

/// The one descriptor that is the host's.
fn own() -> i32 {
    machine().memory().translator.fd()
}

/// close(2): the host's descriptor is not there.
pub fn close(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    guarded(task, call, answer, call.int(0))
}

/// dup2(2) and dup3(2) onto the host's descriptor: beyond the limit.
pub fn dup2(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    guarded(task, call, answer, call.int(1))
}

fn guarded(task: &mut Task, call: &Call, answer: Option<&Answer>, fd: i32) -> Result<Reply> {
    Ok(Reply::Value(match answer {
        Some(a) => a.result,
        None if own() == fd => -i64::from(libc::EBADF),
        None => generic(task, call),
    }))
}

/// close_range(2), around the host's descriptor.
pub fn close_range(_: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    if let Some(a) = answer {
        return Ok(Reply::Value(a.result));
    }
    let (first, last) = (call.args[0] as u32, call.args[1] as u32);
    let part = |first: u32, last: u32| {
        // SAFETY: closes descriptors of the guest.
        (unsafe {
            relive_host::sys::syscall(
                u64::from(call.nr),
                [first.into(), last.into(), call.args[2], 0, 0, 0],
            )
        }) as i64
    };
    Ok(Reply::Value(match own() as u32 {
        own if first <= last && (first..=last).contains(&own) => {
            let below = if first < own { part(first, own - 1) } else { 0 };
            if below == 0 && own < last {
                part(own + 1, last)
            } else {
                below
            }
        }
        _ => part(first, last),
    }))
}

/// Notes the guest memory that a write to a file has changed, because the file is mapped
/// shared.
pub fn note_shared(task: &mut Task, call: &Call, result: i64) {
    let positioned = match i64::from(call.nr) {
        libc::SYS_write | libc::SYS_writev => false,
        libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_pwritev2 => true,
        _ => return,
    };
    if result <= 0 {
        return;
    }
    let users = machine().shm.as_ref().map(|s| &s.header().shared);
    let any = users.map_or_else(|| machine().memory().space.has_shared_files(), Users::any);
    if !any {
        return;
    }
    // SAFETY: the guest's descriptor is only borrowed.
    let file = std::mem::ManuallyDrop::new(unsafe { File::from_raw_fd(call.int(0)) });
    let Ok(meta) = file.metadata() else { return };
    let start = if positioned {
        call.args[3]
    } else {
        // SAFETY: only asks for the position, which is behind what was written.
        (unsafe { libc::lseek(call.int(0), 0, libc::SEEK_CUR) } - result) as u64
    };
    let identity = super::memory::identity(&meta);
    let mut memory = machine().memory();
    let views: Vec<(u64, u64)> = memory
        .space
        .shared_views(identity, start, result as u64)
        .collect();
    let seen: u64 = views.iter().map(|v| v.1).sum();
    if seen < result as u64
        && let (Some(shm), Mode::Record) = (&machine().shm, machine().mode)
        && let Some(other) =
            shm.header()
                .shared
                .maps(&shm.header().processes, identity, machine().baton.process())
    {
        die(&super::unsupported(
            call,
            &format!(
                "process {other} of the recording maps this file shared, and the writer does not: what it writes is on no tape"
            ),
        ));
    }
    for &(addr, len) in &views {
        memory.code_changed(addr, addr + len);
    }
    drop(memory);
    views
        .into_iter()
        .for_each(|(addr, len)| task.log.wrote(addr, len));
}

/// Whether a call that its row says may sleep really may, on this descriptor: reading and
/// writing regular files does not, and need not cost a switch.
pub fn may_sleep(_task: &Task, call: &Call) -> bool {
    if !machine().baton.shared() {
        return true;
    }
    match i64::from(call.nr) {
        libc::SYS_read
        | libc::SYS_write
        | libc::SYS_readv
        | libc::SYS_writev
        | libc::SYS_pread64
        | libc::SYS_pwrite64 => !is_regular(call.int(0)),
        _ => true,
    }
}

fn is_regular(fd: i32) -> bool {
    // SAFETY: fstat fills the structure; a bad descriptor is an error.
    unsafe {
        let mut st: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &raw mut st) == 0 && st.st_mode & libc::S_IFMT == libc::S_IFREG
    }
}
