//! The crate's tests, as one program.

mod foreign;
mod forms;
