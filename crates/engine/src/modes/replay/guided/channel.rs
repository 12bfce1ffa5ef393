//! The socket of a guided replay: orders come in, sometimes with a descriptor, answers go out.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{RecvFlags, recv};

use crate::guide::framing::{receive, send};
use crate::guide::protocol::{Request, Response};
use crate::messages;

/// The socket.
pub struct Channel {
    socket: OwnedFd,
    /// The descriptor that came with the last message.
    descriptor: Option<OwnedFd>,
}

impl Channel {
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            descriptor: None,
        }
    }

    /// The next order; `None` when the other end is closed, or sends no order.
    pub fn receive(&mut self) -> Option<(Request, Vec<u8>)> {
        receive(self).ok()
    }

    /// Answers.
    ///
    /// # Errors
    /// The other end is closed.
    pub fn send(&mut self, reply: &Response, bytes: &[u8]) -> io::Result<()> {
        send(self, reply, bytes)
    }

    /// The descriptor that came with the last message.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }

    /// Whether a message is there, or the other end is closed: a run stops for either.
    pub fn is_wanted(&self) -> bool {
        let mut byte = [0u8];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(&self.socket, &mut byte, flags).is_ok()
    }
}

impl Read for Channel {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let message = messages::receive(self.socket.as_fd(), buf, RecvFlags::empty())?;
        if let Some(descriptor) = message.descriptors.into_iter().next() {
            self.descriptor = Some(descriptor);
        }
        Ok(message.len)
    }
}

impl Write for Channel {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.socket, buf)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
