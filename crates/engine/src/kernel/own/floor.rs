//! The numbers from which on the host's descriptors lie. A lower number is never looked at more closely.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::kernel::fds;
use crate::task::Task;

/// No descriptor of the host's has a lower number. Numbers from here on are checked more closely.
pub(super) static FLOOR: AtomicI32 = AtomicI32::new(i32::MAX);

/// Notes that the host's descriptors are at this number or above.
pub fn begin_at(floor: i32) {
    FLOOR.store(floor, Ordering::Relaxed);
}

/// Whether a descriptor may be one of the host's, which is seldom; [`fds::own`] decides.
#[inline]
pub(in crate::kernel) fn may_be(fd: u64) -> bool {
    fd as i32 >= FLOOR.load(Ordering::Relaxed)
}

/// Whether a descriptor is one of the host's.
pub(super) fn is_own(task: &Task, fd: i32) -> bool {
    may_be(fd as u64) && fds::own(task).any(|own| own == fd)
}
