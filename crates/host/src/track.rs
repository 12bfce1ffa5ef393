//! Tracked accesses: translated code tells the host of the memory that it is about to access, for
//! instance to find data races. A process that tracks runs all guest threads on one host thread.
//!
//! In front of a tracked access the emitted code looks into a *filter*: a table of the accesses that
//! the host has seen last, one for reads and one for writes. An entry is a *key*: the address and the
//! number of the *era*, which the host changes whenever it wants to be told
//! of everything again. Only an access without its key in the filter calls the [`routine`], which
//! knows by its [`lines`] most of those that were made in an earlier era, and calls the host's
//! *tracker* for the rest.
//!
//! The access has not been made yet and may fault: a tracker must never touch its memory.

pub(crate) mod access;
mod filter;
pub mod lines;
pub(crate) mod routine;
mod tracker;

pub use access::{Span, Tracked};
pub use filter::{ENTRIES, ENTRY_SHIFT, Era, table};
pub use lines::follow;
pub use routine::call;
pub use tracker::{Tracker, install};
