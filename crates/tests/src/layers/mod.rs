//! The names that files of a crate take from each other, and whether there is an order: files that
//! take from each other in a circle can only be read all at once.
//!
//! Sources are read as plain tokens, without a parser of the whole language. Names that tokens do
//! not show (those that come out of macros, methods of a type) are not imports here. It must never
//! read code that only tests use: a test may look at anything.

mod crates;
mod graph;
mod imports;
mod tokens;

pub use crates::{Crate, dependencies};
pub use graph::Graph;
