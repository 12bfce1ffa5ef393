//! Events to bytes and back.
//!
//! Every event has exactly one encoding and says itself where it ends. The encoder appends
//! to the caller's buffer and allocates nothing else: it runs while a guest thread waits.
//! The decoder borrows from the bytes, never panics, and reports a beginning of an event as
//! [`DecodeError::Incomplete`]. `docs/trace-format.md` has the layout.

mod decode;
mod encode;
pub(crate) mod tags;

pub use decode::Decoder;
pub use encode::Encoder;
