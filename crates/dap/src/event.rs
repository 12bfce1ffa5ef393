//! What a session waits for.

use crate::answers::Request;
use crate::mi::Record;
use crate::wire;

/// What happens.
pub enum Event {
    /// The client asks for something.
    Request(Request),
    /// The client sent a message that is no request: its number, and what is wrong.
    Nonsense(i64, String),
    /// The client is gone, or does not speak the protocol.
    ClientGone(Option<wire::Error>),
    /// gdb says something to us.
    Gdb(Record),
    /// gdb's output is closed.
    GdbGone,
    /// gdb or Relive say something to the person.
    Said(String),
    /// They will say no more.
    AllSaid,
}
