//! The numbers from which on the host's descriptors lie. A lower number is never looked at more closely.

use crate::kernel::fds;
use crate::task::Task;

/// Whether a descriptor may be one of the host's, which is seldom; [`fds::own`] decides.
#[inline]
pub(in crate::kernel) fn may_be(task: &Task, fd: u64) -> bool {
    fd as i32 >= task.machine().fd_floor
}

/// Whether a descriptor is one of the host's.
#[inline]
pub(super) fn is_own(task: &Task, fd: i32) -> bool {
    may_be(task, fd as u64) && fds::own(task).any(|own| own == fd)
}
