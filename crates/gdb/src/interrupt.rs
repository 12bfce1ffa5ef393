//! A client that interrupts what takes long while it waits for the answer. Looks at what it has
//! sent, and takes nothing of it: that is `link`'s.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use relive_engine::timeline::Interrupter;
use rustix::event::PollFlags;
use rustix::net::{RecvFlags, recv};

use crate::stream::{Stream, come};

/// What gdb sends for the keyboard's interrupt.
pub const INTERRUPT: u8 = 3;

/// The client's side of the connection, as long as that is open.
pub struct Interrupt {
    from: Weak<Stream>,
    /// Somebody has stopped because of it, and the byte is still to come.
    pub taken: Cell<bool>,
}

impl Interrupt {
    /// Of this connection.
    pub fn of(from: &Rc<Stream>) -> Self {
        Self {
            from: Rc::downgrade(from),
            taken: Cell::new(false),
        }
    }

    /// Whether the client wants no more of this, or has gone.
    fn has_come(&self) -> bool {
        let Some(from) = self.from.upgrade() else {
            return true;
        };
        let Some(ready) = come(&*from, PollFlags::IN | PollFlags::RDHUP, 0) else {
            return false;
        };
        if ready.intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR) {
            return true;
        }
        let mut bytes = [0u8; 4096];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let there = recv(&*from, &mut bytes[..], flags).map_or(0, |(there, _)| there);
        bytes.iter().take(there).any(|b| *b == INTERRUPT)
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

impl Interrupter for Until<'_> {
    fn wanted(&mut self) -> bool {
        let come = self.0.filter(|i| i.has_come());
        come.inspect(|i| i.taken.set(true)).is_some()
    }
}
