//! Interrupts of long operations by a client that waits for the answer. Only peeks at the input:
//! `link` alone consumes it.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use relive_engine::timeline::Interrupter;
use rustix::event::PollFlags;
use rustix::net::{RecvFlags, recv};

use crate::stream::{Stream, come};

/// The byte that gdb sends for an interrupt from the keyboard.
pub const INTERRUPT: u8 = 3;

/// The client's side of the connection, as long as that is open.
pub struct Interrupt {
    from: Weak<Stream>,
    /// An operation has stopped because of it, and the byte is still unread.
    pub taken: Cell<bool>,
}

impl Interrupt {
    /// For this connection.
    pub fn of(from: &Rc<Stream>) -> Self {
        Self {
            from: Rc::downgrade(from),
            taken: Cell::new(false),
        }
    }

    /// Whether the client has interrupted, or disconnected.
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

/// The condition of an operation that goes on until the client interrupts.
pub struct Until<'i>(pub Option<&'i Interrupt>);

impl Until<'_> {
    /// Whether the operation has stopped because of it.
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
