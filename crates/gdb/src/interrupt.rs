//! A client that interrupts what takes long while it waits for the answer. Looks at what it has
//! sent, and takes nothing of it: that is `link`'s.

use std::cell::Cell;
use std::os::fd::RawFd;

use relive_engine::timeline::Wanted;

/// What gdb sends for the keyboard's interrupt.
pub const INTERRUPT: u8 = 3;

/// The client's side of the connection, as long as that is open.
pub struct Interrupt {
    fd: RawFd,
    /// Somebody has stopped because of it, and the byte is still to come.
    pub taken: Cell<bool>,
}

impl Interrupt {
    /// Of the connection with this descriptor.
    pub fn of(fd: RawFd) -> Self {
        Self {
            fd,
            taken: Cell::new(false),
        }
    }

    /// Whether the client wants no more of this, or has gone.
    fn has_come(&self) -> bool {
        let mut poll = libc::pollfd {
            fd: self.fd,
            events: libc::POLLIN | libc::POLLRDHUP,
            revents: 0,
        };
        // SAFETY: one entry, which outlives the call.
        if unsafe { libc::poll(&raw mut poll, 1, 0) } <= 0 {
            return false;
        }
        if poll.revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0 {
            return true;
        }
        let mut bytes = [0u8; 4096];
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        // SAFETY: the buffer outlives the call, which fills at most its length.
        let n = unsafe { libc::recv(self.fd, bytes.as_mut_ptr().cast(), bytes.len(), flags) };
        let there = bytes.get(..usize::try_from(n).unwrap_or(0));
        there.is_some_and(|b| b.contains(&INTERRUPT))
    }
}

/// Asked by somebody who goes on until the client interrupts.
pub struct Until<'i>(pub Option<&'i Interrupt>);

impl Until<'_> {
    /// Whether somebody has stopped because of it.
    pub fn has_stopped(&self) -> bool {
        self.0.is_some_and(|i| i.taken.get())
    }
}

impl Wanted for Until<'_> {
    fn wanted(&mut self) -> bool {
        let come = self.0.filter(|i| i.has_come());
        come.inspect(|i| i.taken.set(true)).is_some()
    }
}
