//! The files that a replay gets from outside of its confinement. A replaying process may have been
//! taken over by the recorded program, so it opens nothing by a name: its supervisor (of a
//! timeline: the command) opens for it, on a thread of its own, and hands descriptors over a
//! socket.
//!
//! A request has a fixed size and names no path, only content, the sender itself, or a number.
//! The descriptors that come back are for reading, but for that of the sender's own memory. The
//! server must never trust a request further: the sender may be hostile.
//!
//! All processes of a replay share one socket. A process that asks holds a lock of the kernel's
//! until it has its answer, and knows it by its number: the next process that asks throws away an
//! answer to one that was killed meanwhile.

pub mod client;
mod copies;
mod server;
mod socket;
mod wire;

pub use client::{Proc, attach, copy, need_supervisor, proc_file, report, requested, translations};
pub use server::{Broker, Gathered, Members};
pub use wire::Sum;

#[cfg(test)]
mod tests;
