//! Guest code run by the translator, in this process.
//!
//! All tests share one binary and take turns: the guest window, the code cache and the
//! branch table exist once in a process.

mod guest;
mod program;
mod raw;
mod state;

mod branches;
mod faults;
mod hashed;
mod invalidate;
mod random;
mod readings;
mod returns;
mod signals;
mod snapshot;
mod system;
mod threads;
