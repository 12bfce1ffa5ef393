//! State of both halves of the codec of records: the senders that a lane refers to.

use crate::bytes::Malformed;
use crate::id::{Origin, Path, TaskId};
use crate::name::NameId;

/// Senders that a lane remembers.
const SENDERS: usize = 32;

/// The first byte of a record.
pub(crate) mod tag {
    pub const KIND: u8 = 3;
    pub const DEFINE: u8 = 0;
    pub const RECEIPT: u8 = 1;
    pub const PRIMITIVE: u8 = 2;
    pub const CANCELLED: u8 = 3;
    pub const PATH: u8 = 1 << 2;
    /// Another epoch; the kind is [`DEFINE`].
    pub const EPOCH: u8 = 1 << 7;
    /// A dependence on another process's epoch; the kind is [`DEFINE`].
    pub const DEPENDS: u8 = 1 << 5;
    /// A sender or name that was not referred to before.
    pub const NEW: u8 = 1 << 3;
    /// A part of a payload; the kind is [`DEFINE`].
    pub const PAYLOAD: u8 = 1 << 3;
    /// Another place than the last one.
    pub const PLACE: u8 = 1 << 4;
    pub const CONTENT: u8 = 1 << 5;
    /// Another entry point than the one with the lane's name.
    pub const ENTRY: u8 = 1 << 6;
}

/// A family of tasks that sends requests, and the place that it last sent one from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) process: NameId,
    pub(crate) origin: u8,
    pub(crate) name: NameId,
    pub(crate) place: u64,
}

impl Sender {
    pub(crate) fn of(task: &TaskId) -> Self {
        let (origin, name, place) = match task.origin {
            Origin::Root(name) => (0, name, 0),
            Origin::Gate(name, place) => (1, name, place),
            Origin::Outside(name) => (2, name, 0),
        };
        Self {
            process: task.process,
            origin,
            name,
            place,
        }
    }

    fn same(&self, other: &Self) -> bool {
        (self.process, self.origin, self.name) == (other.process, other.origin, other.name)
    }

    pub(crate) fn task(&self, path: Path) -> Result<TaskId, Malformed> {
        let origin = match self.origin {
            0 if self.place == 0 => Origin::Root(self.name),
            1 => Origin::Gate(self.name, self.place),
            2 if self.place == 0 => Origin::Outside(self.name),
            _ => return Err(Malformed("a sender's origin is unknown")),
        };
        Ok(TaskId {
            process: self.process,
            origin,
            path,
        })
    }
}

/// The last senders of a lane; a new one takes the oldest one's slot.
#[derive(Debug, Default)]
pub(crate) struct Senders {
    pub(crate) slots: Vec<Sender>,
    next: usize,
    pub(crate) last: usize,
}

impl Senders {
    pub(crate) fn find(&mut self, sender: &Sender) -> Option<usize> {
        if self
            .slots
            .get(self.last)
            .is_none_or(|slot| !slot.same(sender))
        {
            self.last = self.slots.iter().position(|slot| slot.same(sender))?;
        }
        Some(self.last)
    }

    pub(crate) fn add(&mut self, sender: Sender) {
        match self.slots.len() < SENDERS {
            true => self.slots.push(sender),
            false => self.slots[self.next] = sender,
        }
        self.last = self.next;
        self.next = (self.next + 1) % SENDERS;
    }
}
