//! The socket between a replay and its supervisor: whole messages, from the server with a
//! descriptor, to the server with the sender's process id, for which the kernel vouches
//! (unix(7)).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Words of room for what comes beside a message: a header with descriptors, and one with who sent
/// it.
const BESIDE: usize = 2 + super::MOST / 2 + 4;

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
    let mut beside = [0_u64; BESIDE];
    let mut part = libc::iovec {
        iov_base: buf.as_mut_ptr().cast(),
        iov_len: buf.len(),
    };
    // SAFETY: all-zero is a value of this plain structure.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = beside.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&beside);
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_TRUNC;
    let n = loop {
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
        len: n,
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

/// Sends a message, with at most [`super::MOST`] descriptors. Does not wait: who asks has room for its
/// answer, and who never receives any must not stop the server.
///
/// # Errors
/// There is no room, or nobody any more.
pub fn send(fd: i32, bytes: &[u8], descriptors: &[i32]) -> io::Result<()> {
    assert!(
        descriptors.len() <= super::MOST,
        "there is room for no more"
    );
    let mut beside = [0_u64; BESIDE];
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all-zero is a value of this plain structure.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
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
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the header and all that it points to live through the call.
    match unsafe { libc::sendmsg(fd, &raw const header, flags) } {
        n if n < 0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
