//! The Debug Adapter Protocol (<https://microsoft.github.io/debug-adapter-protocol/>) over gdb's
//! machine interface: what editors speak, on one side, and a gdb that `relive debug` starts on
//! a recording, on the other.
//!
//! gdb brings symbols, sources and expressions, Relive's own server below it the recording; this
//! crate only translates, and knows neither a trace nor a replay. It must never end because of
//! what a client or gdb says, but end with its client, and never leave a gdb behind.

mod answers;
mod breakpoints;
mod capabilities;
mod client;
mod data;
mod evaluate;
mod event;
mod exceptions;
mod gdb;
mod handles;
mod launch;
mod memory;
pub mod mi;
mod program;
mod resume;
mod run;
mod serve;
mod session;
mod set_breakpoints;
mod source;
mod stack;
mod stops;
mod talk;
mod threads;
mod variables;
pub mod wire;

pub use serve::serve;
pub use wire::Error;
