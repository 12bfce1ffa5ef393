//! What the guest reads from files, kept once and logged by reference.
//!
//! The trace has one store of input (`relive_trace::Input`). While recording, the bytes that a
//! call brought into guest memory are compared with what the store holds already, and the
//! event says where they lie there; if they are new, they are appended. So an event is right by
//! construction: nothing is ever read from the file a second time, and what is said of files
//! (that a descriptor leads to a regular one, that a read goes on where the last one ended)
//! serves only to choose and to guess. What cannot be kept is logged by value.
//!
//! All processes of a tree append to the one store, under a lock that nobody waits for; the
//! supervisor stores the list of its pieces before the events that refer to them.

pub mod descriptors;
mod find;
mod guesses;
pub mod recorded;
pub mod refer;
pub mod store;
