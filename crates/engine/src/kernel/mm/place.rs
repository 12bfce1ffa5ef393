//! The place of a map, and the lock that keeps the place free until the map is made.

use std::sync::MutexGuard;

use relive_host::addr::PAGE;
use relive_host::layout;

use crate::machine::Machine;
use crate::memory::Memory;
use crate::space;

pub(in crate::kernel) const MAP_FIXED_NOREPLACE: i32 = 0x10_0000;

/// The lock on the guest's memory from the choice of a place to the map there: no other thread may
/// choose it meanwhile.
#[derive(Default)]
pub struct Held(Option<MutexGuard<'static, Memory>>);

impl Held {
    /// Takes the lock, unless it is held already.
    pub fn lock(&mut self, machine: &'static Machine) -> &mut Memory {
        self.0.get_or_insert_with(|| machine.memory())
    }

    /// Releases the lock.
    pub fn release(&mut self) {
        self.0 = None;
    }
}

/// A place for a map, as the flags of mmap(2) ask for one.
///
/// # Errors
/// The errno of mmap(2).
pub(in crate::kernel) fn choose(
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
