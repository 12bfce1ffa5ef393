//! The socket between a replay and its supervisor: whole messages, from the server with a
//! descriptor, to the server with the sender's process id, for which the kernel vouches
//! (unix(7)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair, sockopt,
};

use crate::messages::{self, Message};

/// Two ends; a message received at the first one names its sender.
///
/// # Errors
/// The kernel's refusal.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    sockopt::set_socket_passcred(&ours, true)?;
    Ok((ours, theirs))
}

/// Waits for a message. One that is too long for `buf` has an impossible length.
///
/// # Errors
/// The kernel's refusal.
pub fn receive(from: &impl AsFd, buf: &mut [u8]) -> io::Result<Message> {
    messages::receive(from.as_fd(), buf, RecvFlags::TRUNC)
}

/// Sends a message, with at most [`messages::MOST`] descriptors. Does not wait: a process that asks
/// has room for its answer, and one that never receives any must not stop the server.
///
/// # Errors
/// There is no room, or the other end is closed.
pub fn send(to: &impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    messages::send(to.as_fd(), bytes, descriptors, SendFlags::DONTWAIT).map(drop)
}
