//! Messages with descriptors over a unix socket (unix(7)), and their senders, for which the kernel
//! vouches. Must never interpret a message: its content is the matter of its two ends.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::Pid;

/// Most descriptors that come with one message.
pub const MOST: usize = 64;
/// Room for the ancillary data of a message: descriptors, and the sender.
const BESIDE: usize = rustix::cmsg_space!(ScmRights(MOST), ScmCredentials(1));

/// A message that was received.
#[derive(Default)]
pub struct Message {
    /// Bytes of it; 0: the other end is closed.
    pub len: usize,
    /// The process that sent it, if the socket asks for that.
    pub sender: Option<Pid>,
    /// The descriptors that came with it.
    pub descriptors: Vec<OwnedFd>,
}

/// Waits for a message, or for the next part of a stream. With [`RecvFlags::TRUNC`], a message that is
/// too long for `buf` has a `len` above the buffer's.
///
/// # Errors
/// The kernel's refusal.
pub fn receive(from: BorrowedFd<'_>, buf: &mut [u8], flags: RecvFlags) -> io::Result<Message> {
    let mut room = [MaybeUninit::uninit(); BESIDE];
    let mut beside = RecvAncillaryBuffer::new(&mut room);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let len = loop {
        match recvmsg(from, &mut [IoSliceMut::new(buf)], &mut beside, flags) {
            Ok(received) => break received.bytes,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    };
    let mut message = Message {
        len,
        ..Message::default()
    };
    for part in beside.drain() {
        match part {
            RecvAncillaryMessage::ScmRights(descriptors) => message.descriptors.extend(descriptors),
            RecvAncillaryMessage::ScmCredentials(sender) => message.sender = Some(sender.pid),
            _ => {}
        }
    }
    Ok(message)
}

/// Sends a message, with at most [`MOST`] descriptors. Returns the number of bytes sent, which is all
/// but on a stream. A closed other end is an error, and raises no SIGPIPE.
///
/// # Errors
/// The kernel's refusal.
pub fn send(
    to: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<usize> {
    let mut room = [MaybeUninit::uninit(); BESIDE];
    let mut beside = SendAncillaryBuffer::new(&mut room);
    if !descriptors.is_empty() {
        assert!(descriptors.len() <= MOST, "there is room for no more");
        beside.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = flags | SendFlags::NOSIGNAL;
    Ok(sendmsg(to, &[IoSlice::new(bytes)], &mut beside, flags)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_sent_arrives_with_its_descriptors() {
        let (ours, theirs) = UnixStream::pair().expect("a socket");
        let (mut kept, sent) = UnixStream::pair().expect("a socket");
        let n = send(
            ours.as_fd(),
            b"seven",
            &[sent.as_fd(); 2],
            SendFlags::empty(),
        );
        assert_eq!(n.expect("there is room"), 5);
        drop(sent);
        let mut bytes = [0; 8];
        let message = receive(theirs.as_fd(), &mut bytes, RecvFlags::empty()).expect("a message");
        assert_eq!((message.len, message.sender), (5, None));
        assert_eq!(message.descriptors.len(), 2);
        drop(message);
        let end = kept.read(&mut bytes).expect("both copies are closed");
        assert_eq!(end, 0);
        drop(ours);
        let message = receive(theirs.as_fd(), &mut bytes, RecvFlags::empty()).expect("the end");
        assert_eq!(message.len, 0);
    }
}
