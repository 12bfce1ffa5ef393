//! The little that the engine knows of the guest's descriptors: which lead to standard
//! streams, and which cannot make a call sleep.

use relive_kabi::{FdEffect, Transfer};

use super::{Answer, Call, Reply, leads};
use crate::failure::Result;
use crate::machine::machine;
use crate::task::Task;

/// Keeps the table of streams true after a call that succeeded.
pub fn after(task: &Task, call: &Call, result: i64) {
    let effect = call
        .sub
        .map_or_else(|| call.row.map_or(FdEffect::None, |r| r.fds), |s| s.fds);
    if effect == FdEffect::None || !task.mode().traits().keeps {
        return;
    }
    match effect {
        FdEffect::Closes(i) => crate::input::forget(call.int(usize::from(i))),
        _ if i64::from(call.nr) == libc::SYS_close_range => {
            crate::input::forget_many(call.int(2) as u32 & libc::CLOSE_RANGE_UNSHARE != 0);
        }
        _ => crate::input::forget(result as i32),
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
    let mut found = false;
    for fd in leads::came(task, call, result) {
        crate::input::forget(fd);
        if let Some(stream) = leads::stream(fd) {
            streams.leads(fd, stream);
            found = true;
        }
    }
    if found {
        return;
    }
    match i64::from(call.nr) {
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => streams.dup(call.int(0), result as i32),
        libc::SYS_fcntl if effect == FdEffect::Creates => streams.dup(call.int(0), result as i32),
        libc::SYS_close_range if call.int(2) as u32 & libc::CLOSE_RANGE_CLOEXEC == 0 => {
            streams.close_range(call.args[0] as u32, call.args[1] as u32)
        }
        libc::SYS_open | libc::SYS_openat | libc::SYS_creat => match super::files::named(call) {
            Some(old) => streams.dup(old, result as i32),
            None => streams.close(result as i32),
        },
        _ if effect == FdEffect::Creates => streams.close(result as i32),
        _ => {}
    }
}

/// The kernel has made a descriptor beside the result of a call.
pub(super) fn created(task: &Task, fd: i32) {
    crate::input::forget(fd);
    task.process.state().streams.close(fd);
}

/// The table of descriptors will be another process's too: what it does with it is seen by
/// asking only.
pub fn share(task: &Task) {
    crate::input::forget_many(true);
    task.process.state().streams.share(|fd| {
        let st = status(fd)?;
        Some((st.st_dev, st.st_ino))
    });
}

/// The descriptors that are the host's, in order.
pub(super) fn own(task: &Task) -> impl Iterator<Item = i32> + use<> {
    let mut all = [None; 5];
    let kept = task.process.state().reach;
    let open = machine().memory().translator.descriptors();
    let open = open.chain(crate::input::own());
    let open = open.chain(kept.iter().flat_map(|r| r.descriptors()));
    for (slot, fd) in all.iter_mut().zip(open) {
        *slot = Some(fd);
    }
    all.sort_unstable();
    all.into_iter().flatten()
}

/// close_range(2), around the host's descriptors.
pub fn close_range(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
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
    let mut from = first;
    for own in own(task).map(|own| own as u32) {
        if (from..=last).contains(&own) {
            if from < own {
                let result = part(from, own - 1);
                if result != 0 {
                    return Ok(Reply::Value(result));
                }
            }
            from = own + 1;
        }
    }
    // Nothing of the guest's is left, if the last one was the host's.
    let rest = from == first || from <= last;
    Ok(Reply::Value(if rest { part(from, last) } else { 0 }))
}

/// Whether a call that its row says may sleep really may, on these descriptors: what only moves
/// bytes to and from regular files does not, and need not cost a switch.
pub fn may_sleep(task: &Task, call: &Call) -> bool {
    if task.log.keeps_baton {
        return false;
    }
    if !task.mode().others_see() {
        return true;
    }
    let mut ends = ends(call).map(|(fd, _)| crate::input::is_regular(task, fd));
    match ends.next() {
        None => true,
        Some(first) => !first || !ends.all(|regular| regular),
    }
}

/// The descriptors that a call takes something from or brings something to, and the option of a
/// socket that says how long it waits there at most.
fn ends(call: &Call) -> impl Iterator<Item = (i32, i32)> {
    let end = |column: Transfer, option: i32| Some((call.arg(column.fd()?) as i32, option));
    let input = call.row.and_then(|r| end(r.input, libc::SO_RCVTIMEO));
    let output = call.row.and_then(|r| end(r.output, libc::SO_SNDTIMEO));
    input.into_iter().chain(output)
}

/// Whether a call waits on a socket for as long as SO_RCVTIMEO or SO_SNDTIMEO allows: then it is
/// never made again (signal(7)).
pub fn times_out(call: &Call) -> bool {
    ends(call).any(|(fd, option)| limits_waits(fd, option))
}

/// Whether the option of a socket limits how long calls wait.
fn limits_waits(fd: i32, option: i32) -> bool {
    let mut limit = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let mut size = size_of::<libc::timeval>() as u32;
    // SAFETY: fills the structure, or fails on what is no socket.
    let asked = unsafe {
        let (to, size) = ((&raw mut limit).cast(), &raw mut size);
        libc::getsockopt(fd, libc::SOL_SOCKET, option, to, size)
    };
    asked == 0 && (limit.tv_sec, limit.tv_usec) != (0, 0)
}

/// Whether there is such a descriptor, and more can be done with it than to name it.
pub(super) fn takes_requests(fd: i32) -> bool {
    // SAFETY: only asks.
    let status = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    status >= 0 && status & libc::O_PATH == 0
}

/// What fstat(2) says of a descriptor; `None` for a bad one.
pub fn status(fd: i32) -> Option<libc::stat> {
    // SAFETY: for plain integers all-zero bytes are a value.
    let mut st: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: fills the structure.
    let asked = unsafe { libc::fstat(fd, &raw mut st) };
    (asked == 0).then_some(st)
}
