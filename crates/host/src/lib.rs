//! The machine under the engine: raw system calls, the guest window, the register context, entry to
//! and exit from translated code, and the handling of host signals.
//!
//! Nothing here knows a trace, a fragment or the meaning of a system call. Nearly all unsafe code
//! of Relive that is not code emission lies in this crate.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

pub mod addr;
pub mod call_out;
pub mod context;
pub mod copy;
pub mod cpu;
pub mod enter;
pub mod layout;
pub mod order;
pub mod permissions;
pub mod reading;
pub mod segments;
pub mod sent_signal;
pub mod signal;
pub mod sys;
mod ticks;
pub mod track;
mod vectors;
pub mod window;

pub use addr::GuestAddr;
pub use context::{Context, Reg};
