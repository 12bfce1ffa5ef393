//! The socket between a replay and its supervisor: whole messages, from the server with a
//! descriptor, to the server with the sender's process id, for which the kernel vouches
//! (unix(7)).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::messages::{self, Message};

/// Two ends; what is received at the first one says who sent it.
///
/// # Errors
/// The kernel's refusal.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: fills the array with two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else's.
    let [ours, theirs] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    let on = 1_i32;
    // SAFETY: sets an option of the socket from an integer.
    let set = unsafe {
        libc::setsockopt(
            ours.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PASSCRED,
            (&raw const on).cast(),
            size_of::<i32>() as u32,
        )
    };
    match set {
        0 => Ok((ours, theirs)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for a message. One that is too long for `buf` has an impossible length.
///
/// # Errors
/// The kernel's refusal.
pub fn receive(fd: i32, buf: &mut [u8]) -> io::Result<Message> {
    messages::receive(fd, buf, libc::MSG_TRUNC)
}

/// Sends a message, with at most [`messages::MOST`] descriptors. Does not wait: who asks has room
/// for its answer, and who never receives any must not stop the server.
///
/// # Errors
/// There is no room, or nobody any more.
pub fn send(fd: i32, bytes: &[u8], descriptors: &[i32]) -> io::Result<()> {
    messages::send(fd, bytes, descriptors, libc::MSG_DONTWAIT).map(drop)
}
