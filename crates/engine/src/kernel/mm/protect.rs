//! mprotect(2). It must never give a page a protection that the file behind it forbids.

use relive_host::addr::PAGE;

use crate::call::Call;
use crate::call::reply::Reply;
use crate::failure::Result;
use crate::kernel::limits;
use crate::kernel::operation::RecordedResult;
use crate::memory::Memory;
use crate::registry::NOT_QUIET;
use crate::space::{READ, Region, WRITE, pages};
use crate::task::Task;

fn errno(e: i32) -> Result<Reply> {
    Ok(Reply::Value(-i64::from(e)))
}

/// mprotect(2).
pub fn mprotect(task: &mut Task, call: &Call, told: RecordedResult) -> Result<Reply> {
    let [start, len, prot, ..] = call.args;
    if told == Some(-i64::from(libc::EACCES)) {
        // The file may forbid it, and in replay its copy would not.
        return errno(libc::EACCES);
    }
    let (down, up) = (libc::PROT_GROWSDOWN as u64, libc::PROT_GROWSUP as u64);
    // Older recordings did not check whether the region grows.
    let accepted = told == Some(0);
    if start % PAGE != 0 || prot & (down | up) == down | up && !accepted {
        return errno(libc::EINVAL);
    }
    let Some(len) = pages(len) else {
        return if len == 0 {
            Ok(Reply::Value(told.unwrap_or(0)))
        } else {
            errno(libc::ENOMEM)
        };
    };
    let Some(end) = start.checked_add(len) else {
        return errno(libc::ENOMEM);
    };
    if prot & !(down | up | 0xf) != 0 {
        return errno(libc::EINVAL);
    }
    let mut memory = task.machine().memory();
    let start = match prot & (down | up) {
        0 => start,
        _ if accepted && (prot & up != 0 || !grows_at(&memory, start, end)) => start,
        way => match grown_from(&memory, start, end, way == down) {
            Ok(from) => from,
            Err(e) => return errno(e),
        },
    };
    if let Err(e) = task.may_change(&memory, start, end) {
        return errno(e);
    }
    let is_shut = |region: &Region| region.prot & (READ | WRITE) & !(prot as u32) != 0;
    let together = !task.machine().registry.single() && task.mode().order().cuts_accesses();
    if together && memory.space.overlapping(start, end).any(is_shut) {
        drop(memory);
        match task.is_undisturbed() {
            true => task.mode().order().takes_access(task)?,
            false => return errno(NOT_QUIET),
        }
        memory = task.machine().memory();
    }
    let writable = prot as u32 & WRITE != 0;
    if writable && !accepted && !limits::may_become_writable(task, &memory, start, end) {
        return errno(libc::ENOMEM);
    }
    Reply::done(memory.protect(start, end, prot as u32 & 7))
}

/// pkey_mprotect(2) on a processor without protection keys.
pub fn pkey_mprotect(task: &mut Task, call: &Call, told: RecordedResult) -> Result<Reply> {
    const NO_KEY: i32 = -1;
    match call.int(3) {
        NO_KEY => mprotect(task, call, told),
        _ => errno(libc::EINVAL),
    }
}

/// Whether a region grows downwards, as the stack of the first thread does.
fn grows_at(memory: &Memory, start: u64, end: u64) -> bool {
    let region = memory.space.overlapping(start, end).next();
    region.is_some_and(|r| r.traits.grows || &*r.name == crate::map_names::STACK)
}

/// The start of a change of protection that includes the rest of a growing region (mprotect(2),
/// `PROT_GROWSDOWN`). No region grows upwards.
fn grown_from(memory: &Memory, start: u64, end: u64, down: bool) -> std::result::Result<u64, i32> {
    let region = memory.space.overlapping(start, end).next();
    let region = region.filter(|r| down || r.start <= start);
    match region.ok_or(libc::ENOMEM)?.start {
        from if down && grows_at(memory, start, end) => Ok(from),
        _ => Err(libc::EINVAL),
    }
}
