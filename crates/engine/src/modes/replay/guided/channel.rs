//! The socket of a guided replay: orders come in, sometimes with a descriptor, answers go out.

use std::io::{self, Read, Write};

use crate::timeline::{Reply, Request, receive, send};

/// The socket.
pub struct Channel {
    fd: i32,
    /// What came with the last message.
    descriptor: Option<i32>,
}

impl Channel {
    pub fn new(fd: i32) -> Self {
        Self {
            fd,
            descriptor: None,
        }
    }

    /// The next order; `None` when nobody is there any more, or nobody who can be understood.
    pub fn receive(&mut self) -> Option<(Request, Vec<u8>)> {
        receive(self).ok()
    }

    /// Answers. Nobody is there any more: ends.
    pub fn send(&mut self, reply: &Reply, bytes: &[u8]) {
        if send(self, reply, bytes).is_err() {
            relive_host::sys::exit_group(0);
        }
    }

    /// The descriptor that came with the last message.
    pub fn take_descriptor(&mut self) -> Option<i32> {
        self.descriptor.take()
    }

    /// Whether a message is there, or nobody any more: a run stops for either.
    pub fn is_wanted(&self) -> bool {
        let mut byte = 0u8;
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        // SAFETY: looks at one byte of what is there.
        unsafe { libc::recv(self.fd, (&raw mut byte).cast(), 1, flags) >= 0 }
    }
}

impl Read for Channel {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // Room for one descriptor, aligned as a cmsghdr is.
        let mut control = [0u64; 4];
        let mut part = libc::iovec {
            iov_base: buf.as_mut_ptr().cast(),
            iov_len: buf.len(),
        };
        // SAFETY: all-zero is a value of this plain structure.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        // SAFETY: the header and all that it points to live through the call.
        let n = unsafe { libc::recvmsg(self.fd, &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has filled the header; a message is looked at only if it is there.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            if !first.is_null() && (*first).cmsg_type == libc::SCM_RIGHTS {
                self.descriptor = Some(libc::CMSG_DATA(first).cast::<i32>().read_unaligned());
            }
        }
        Ok(n as usize)
    }
}

impl Write for Channel {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        // SAFETY: the buffer outlives the call.
        let n = unsafe { libc::write(self.fd, buf.as_ptr().cast(), buf.len()) };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(n as usize)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
