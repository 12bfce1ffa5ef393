//! Bytes that the guest reads from files, kept once and logged by reference.
//!
//! The trace has one store of input (`relive_trace::Input`). While recording, the bytes that a
//! call brought into guest memory are compared with the store's bytes, and the event has their place
//! there; new bytes are appended. So an event is right by construction: the file must never be read a
//! second time, and knowledge of files (that a descriptor leads to a regular one, that a read goes on
//! at the end of the last one) serves only to choose and to guess. Bytes that cannot be kept are logged
//! by value.
//!
//! All processes of a tree append to the one store, under a lock for which no process waits; the
//! supervisor stores the list of its pieces before the events that refer to them.

pub mod descriptors;
mod find;
mod guesses;
pub mod recorded;
pub mod refer;
pub mod shared_store;
