//! The Debug Adapter Protocol (<https://microsoft.github.io/debug-adapter-protocol/>) for editors,
//! on top of the machine interface of a gdb that `relive debug` starts on a recording.
//!
//! gdb provides symbols, sources and expressions, and Relive's server below it the recording; this
//! crate only translates, and knows neither a trace nor a replay. It must never end because of
//! input from a client or gdb, but end with its client, and never leave a gdb behind.

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
