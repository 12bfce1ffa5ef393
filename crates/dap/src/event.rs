//! The events that a session waits for.

use crate::answers::Request;
use crate::mi::Record;
use crate::wire;

/// An event of a session.
pub enum Event {
    /// A request of the client.
    Request(Request),
    /// A message of the client that is no request: its number, and the fault.
    Nonsense(i64, String),
    /// The client disconnected, or does not speak the protocol.
    ClientGone(Option<wire::Error>),
    /// A record from gdb.
    Gdb(Record),
    /// gdb's output is closed.
    GdbGone,
    /// A line of gdb or Relive for the user.
    Said(String),
    /// No more such lines follow.
    AllSaid,
}
