//! Calls that change the guest's memory map, and those to which the host's own map would show. Every
//! address is ours to choose; a replay takes the tape's instead, so that a later version may choose
//! differently. They must never map, or release, what lies outside the guest's windows.

mod heap;
mod holes;
mod map;
mod protect;
mod remap;
#[cfg(test)]
mod tests;

pub use heap::Break;
pub use holes::{mincore, msync};
pub use map::Map;
pub use protect::mprotect;
pub use remap::Remap;

use std::sync::MutexGuard;

use relive_host::addr::PAGE;
use relive_host::layout;

use super::call::Call;
use super::operation::Told;
use super::reply::Reply;
use crate::failure::Result;
use crate::machine::Machine;
use crate::memory::Memory;
use crate::space::{self, pages};
use crate::task::Task;

/// The end of what the kernel gives to a process.
const ADDRESSES: u64 = 0x7fff_ffff_f000;
pub(super) const MAP_FIXED_NOREPLACE: i32 = 0x10_0000;

/// The lock on the guest's memory from the choice of a place to the map there: no other thread may
/// choose it meanwhile.
#[derive(Default)]
pub struct Held(Option<MutexGuard<'static, Memory>>);

impl Held {
    /// Takes it, unless it is held already.
    pub fn lock(&mut self, machine: &'static Machine) -> &mut Memory {
        self.0.get_or_insert_with(|| machine.memory())
    }

    /// Gives it up.
    pub fn release(&mut self) {
        self.0 = None;
    }
}

/// A place for a map, as the flags of mmap(2) ask for one.
///
/// # Errors
/// The errno of mmap(2).
pub(super) fn choose(
    space: &mut space::AddressSpace,
    hint: u64,
    len: u64,
    flags: i32,
    low: bool,
) -> std::result::Result<u64, i32> {
    let end = hint.checked_add(len);
    let fits = |end: Option<u64>| end.is_some_and(|e| layout::guest_may_map_range(hint, e));
    if flags & (libc::MAP_FIXED | MAP_FIXED_NOREPLACE) != 0 {
        if !hint.is_multiple_of(PAGE) {
            return Err(libc::EINVAL);
        }
        if !fits(end) {
            return Err(if hint < layout::WINDOW_START {
                libc::EPERM
            } else {
                libc::ENOMEM
            });
        }
        if flags & MAP_FIXED_NOREPLACE != 0 && !space.is_free(hint, hint + len) {
            return Err(libc::EEXIST);
        }
        return Ok(hint);
    }
    let hint_page = hint & !(PAGE - 1);
    if hint_page != 0 && hint_page == hint && fits(end) && space.is_free(hint, hint + len) {
        return Ok(hint);
    }
    space
        .find_free(len, low)
        .or_else(|| {
            if low {
                space.find_free(len, false)
            } else {
                None
            }
        })
        .ok_or(libc::ENOMEM)
}

/// munmap(2).
pub fn munmap(task: &mut Task, call: &Call, _: Told) -> Result<Reply> {
    let invalid = Ok(Reply::Value(-i64::from(libc::EINVAL)));
    let [start, len, ..] = call.args;
    let (Some(len), true) = (pages(len), start % PAGE == 0) else {
        return invalid;
    };
    let Some(end) = start.checked_add(len).filter(|&end| end <= ADDRESSES) else {
        return invalid;
    };
    release(&mut task.machine().memory(), start, end);
    Ok(Reply::Value(0))
}

/// Unmaps what is mapped in a range; outside the window that is nothing.
fn release(memory: &mut Memory, start: u64, end: u64) {
    let overlapping = memory.space.overlapping(start, end);
    let parts: Vec<(u64, u64)> = overlapping
        .map(|r| (r.start.max(start), r.end.min(end)))
        .collect();
    for (s, e) in parts {
        memory.unmap(s, e);
    }
}
