//! The GDB remote serial protocol over the timeline of a recorded process
//! (<https://sourceware.org/gdb/current/onlinedocs/gdb.html/Remote-Protocol.html>).
//!
//! A client sees a process that it may stop, inspect, and move forwards and backwards in. Its
//! writes go into a copy that is thrown away. Any user who reaches the socket may be the client:
//! its input ends its own session at most. This crate must never let it reach files that are not
//! the recording's.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod arch;
mod at;
mod conversation;
mod debuggee;
mod description;
mod family;
mod files;
mod interrupt;
mod link;
mod lldb;
mod monitor;
mod order;
mod packets;
mod proc_files;
mod resume;
mod serve;
mod signals;
mod stops;
mod stream;
mod tables;
mod target;
mod thread_locals;
mod vfile;

pub use at::{At, NoPlace};
pub use files::{How, mapped};
pub use monitor::never_written;
pub use serve::{Address, Admit, NoAddress, Options, Server, Session};
pub use thread_locals::{Locate, ThreadLocal};
