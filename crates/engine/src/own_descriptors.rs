//! Where descriptors of a host's own lie, and how long they live.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

/// The same at a number that no standard stream has, even if one is closed.
///
/// # Errors
/// The kernel's refusal.
pub fn above_streams(fd: &impl AsFd) -> io::Result<OwnedFd> {
    Ok(fcntl_dupfd_cloexec(fd, 3)?)
}

/// A host process that is started finds it open.
///
/// # Errors
/// It is not open.
pub fn outlive_exec(fd: &impl AsFd) -> io::Result<()> {
    Ok(fcntl_setfd(fd, FdFlags::empty())?)
}
