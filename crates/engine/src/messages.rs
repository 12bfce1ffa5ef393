//! Messages with descriptors over a unix socket (unix(7)), and who sent them, for which the kernel
//! vouches.
//! Nothing here may read a message: what is in it is between its two ends.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Most descriptors that come with one message.
pub const MOST: usize = 64;
/// Words of room for what comes beside a message: a header with descriptors, and one with who sent
/// it.
const BESIDE: usize = 2 + MOST / 2 + 4;

/// A message that was received.
#[derive(Default)]
pub struct Message {
    /// Bytes of it; 0: nobody can send any more.
    pub len: usize,
    /// The process that sent it, if the socket asks for that; 0 otherwise.
    pub sender: i32,
    /// What came with it.
    pub descriptors: Vec<OwnedFd>,
}

/// Waits for a message, or for the next part of a stream. With `MSG_TRUNC` one that is too long for
/// `buf` has an impossible length.
///
/// # Errors
/// The kernel's refusal.
pub fn receive(fd: i32, buf: &mut [u8], flags: i32) -> io::Result<Message> {
    let mut beside = [0_u64; BESIDE];
    let mut part = part(buf.as_mut_ptr(), buf.len());
    let mut header = header(&mut part);
    header.msg_control = beside.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&beside);
    let flags = flags | libc::MSG_CMSG_CLOEXEC;
    let len = loop {
        // SAFETY: the header and all that it points to live through the call.
        let n = unsafe { libc::recvmsg(fd, &raw mut header, flags) };
        let e = io::Error::last_os_error();
        match usize::try_from(n) {
            Ok(n) => break n,
            Err(_) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(e),
        }
    };
    let mut message = Message {
        len,
        ..Message::default()
    };
    // SAFETY: the kernel has filled the header; each part is looked at only if it is there, and
    // has the type that its kind says.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(&raw const header);
        while !at.is_null() {
            let data = libc::CMSG_DATA(at);
            match (*at).cmsg_type {
                libc::SCM_RIGHTS => {
                    let bytes = (*at).cmsg_len - libc::CMSG_LEN(0) as usize;
                    for i in 0..bytes / size_of::<i32>() {
                        let fd = data.cast::<i32>().add(i).read_unaligned();
                        message.descriptors.push(OwnedFd::from_raw_fd(fd));
                    }
                }
                libc::SCM_CREDENTIALS => {
                    message.sender = data.cast::<libc::ucred>().read_unaligned().pid;
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(&raw const header, at);
        }
    }
    Ok(message)
}

/// Sends a message, with at most [`MOST`] descriptors; returns how many of its bytes were taken,
/// which of a whole message is all. Nobody dies of a signal because nobody is there any more.
///
/// # Errors
/// The kernel's refusal.
pub fn send(fd: i32, bytes: &[u8], descriptors: &[i32], flags: i32) -> io::Result<usize> {
    assert!(descriptors.len() <= MOST, "there is room for no more");
    let mut beside = [0_u64; BESIDE];
    let mut part = part(bytes.as_ptr().cast_mut(), bytes.len());
    let mut header = header(&mut part);
    if !descriptors.is_empty() {
        let size = size_of_val(descriptors) as u32;
        header.msg_control = beside.as_mut_ptr().cast();
        // SAFETY: there is room for one header with so many descriptors.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(size) as usize;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(size) as usize;
            let data = libc::CMSG_DATA(first).cast::<i32>();
            for (i, descriptor) in descriptors.iter().enumerate() {
                data.add(i).write_unaligned(*descriptor);
            }
        }
    }
    // SAFETY: the header and all that it points to live through the call, which only reads them.
    let n = unsafe { libc::sendmsg(fd, &raw const header, flags | libc::MSG_NOSIGNAL) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

fn part(start: *mut u8, len: usize) -> libc::iovec {
    libc::iovec {
        iov_base: start.cast(),
        iov_len: len,
    }
}

/// The header of a message with one part, and nothing beside it.
fn header(part: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: all-zero is a value of this plain structure.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut *part;
    header.msg_iovlen = 1;
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_sent_arrives_with_its_descriptors() {
        let (ours, theirs) = UnixStream::pair().expect("a socket");
        let (mut kept, sent) = UnixStream::pair().expect("a socket");
        let n = send(ours.as_raw_fd(), b"seven", &[sent.as_raw_fd(); 2], 0);
        assert_eq!(n.expect("there is room"), 5);
        drop(sent);
        let mut bytes = [0; 8];
        let message = receive(theirs.as_raw_fd(), &mut bytes, 0).expect("a message");
        assert_eq!((message.len, message.sender), (5, 0));
        assert_eq!(message.descriptors.len(), 2);
        drop(message);
        let end = kept.read(&mut bytes).expect("both copies are closed");
        assert_eq!(end, 0);
        drop(ours);
        let message = receive(theirs.as_raw_fd(), &mut bytes, 0).expect("the end");
        assert_eq!(message.len, 0);
    }
}
