//! The numbers and the lifetime of a host's own descriptors.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

/// A copy of a descriptor at a number above the standard streams', even if one of those is closed.
///
/// # Errors
/// The kernel's refusal.
pub fn above_streams(fd: &impl AsFd) -> io::Result<OwnedFd> {
    Ok(fcntl_dupfd_cloexec(fd, 3)?)
}

/// Keeps a descriptor open over exec, for a host process that is started.
///
/// # Errors
/// It is not open.
pub fn outlive_exec(fd: &impl AsFd) -> io::Result<()> {
    Ok(fcntl_setfd(fd, FdFlags::empty())?)
}
