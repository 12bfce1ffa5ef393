//! Which file of a crate takes names from which other one, and whether there is an order: files
//! that take from each other in a circle can only be read all at once.
//!
//! Sources are read as plain tokens, without a parser of the whole language. What cannot be told
//! from tokens (names that come out of macros, methods of a type) is no import here. It must never
//! read what only tests use: a test may look at anything.

mod crates;
mod graph;
mod imports;
mod tokens;

pub use crates::{Crate, dependencies};
pub use graph::Graph;
