//! The little that the engine knows of the guest's descriptors: which lead to standard
//! streams, and which are the host's.

use relive_kabi::FdEffect;

use super::stream_aliases;
use crate::call::Call;
use crate::descriptor::status;
use crate::failure::Result;
use crate::task::Task;

/// Updates the table of streams and the known descriptors after a call.
pub fn after(task: &Task, call: &Call, result: i64) {
    let effect = call.fds();
    if effect == FdEffect::None || !task.traits().keeps {
        return;
    }
    let fd = |argument: u8| call.arg(argument) as i32;
    let new = result as i32;
    match effect {
        FdEffect::Closes(argument) => created(task, fd(argument)),
        FdEffect::ClosesRange => closed_range(task, call, result),
        _ if result < 0 => {}
        FdEffect::Creates => created(task, new),
        FdEffect::CreatesPair(argument) => {
            let pair = task.read::<8>(call.arg(argument)).map(u64::from_le_bytes);
            for fd in pair.map_or([-1; 2], |pair| [pair as i32, (pair >> 32) as i32]) {
                created(task, fd);
            }
        }
        FdEffect::CreatesAt(argument) => {
            let made = task.read::<4>(call.arg(argument)).map(i32::from_le_bytes);
            created(task, made.unwrap_or(-1));
        }
        FdEffect::Copies(argument) => {
            task.machine().descriptor_kinds.forget(new);
            task.process.state().streams.dup(fd(argument), new);
        }
        FdEffect::Opens(opening) => {
            leads_to(task, new, stream_aliases::opened(task, call, opening, new))
        }
        FdEffect::Finds => leads_to(task, new, stream_aliases::stream(task.machine(), new)),
        FdEffect::Receives(argument) => {
            for fd in stream_aliases::received(task, call, argument, result) {
                leads_to(task, fd, stream_aliases::stream(task.machine(), fd));
            }
        }
        FdEffect::None | FdEffect::Table => {}
    }
}

fn closed_range(task: &Task, call: &Call, result: i64) {
    let [first, last, flags, ..] = call.args.map(|arg| arg as u32);
    task.machine()
        .descriptor_kinds
        .forget_many(flags & libc::CLOSE_RANGE_UNSHARE != 0);
    if result >= 0 && flags & libc::CLOSE_RANGE_CLOEXEC == 0 {
        task.process.state().streams.close_range(first, last);
    }
}

/// Notes a new descriptor, which leads to a stream or to another object.
fn leads_to(task: &Task, fd: i32, stream: Option<u8>) {
    task.machine().descriptor_kinds.forget(fd);
    let streams = &mut task.process.state().streams;
    match stream {
        Some(stream) => streams.leads(fd, stream),
        None => streams.close(fd),
    }
}

/// A descriptor is closed, or leads to an object that the kernel has just made: to no stream.
pub(super) fn created(task: &Task, fd: i32) {
    leads_to(task, fd, None);
}

/// The table of descriptors becomes another process's too: its changes to the table are seen only by
/// asking the kernel.
pub fn share(task: &Task) {
    task.machine().descriptor_kinds.forget_many(true);
    task.process.state().streams.share(|fd| {
        let st = status(fd)?;
        Some((st.st_dev, st.st_ino))
    });
}

/// The descriptors that are the host's, in order.
pub(super) fn own(task: &Task) -> impl Iterator<Item = i32> + use<> {
    let mut all = [None; 6];
    let kept = task.process.state().retained_fds;
    let open = task.machine().memory().translator.descriptors();
    let open = open.chain(crate::input::shared_store::own());
    let open = open.chain(kept.iter().flat_map(|r| r.descriptors()));
    for (slot, fd) in all.iter_mut().zip(open) {
        *slot = Some(fd);
    }
    all.sort_unstable();
    all.into_iter().flatten()
}

/// close_range(2), around the host's descriptors.
pub fn close_range(task: &mut Task, call: &Call) -> Result<i64> {
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
                    return Ok(result);
                }
            }
            from = own + 1;
        }
    }
    if from == first || from <= last {
        return Ok(part(from, last));
    }
    // The range ends at a descriptor of the host. Where no part of it was closed, the kernel has not seen
    // the flags yet: it checks them before it looks for a descriptor, and there is none of this number.
    Ok(part(u32::MAX, u32::MAX))
}

#[cfg(test)]
mod tests;
