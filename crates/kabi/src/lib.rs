//! The Linux system call table and structure layouts as pure data.
//!
//! One row per x86-64 system call: the memory that the call reads, the memory that it writes and
//! how many bytes of it, whether it may sleep, its effect on the descriptor table, and its replay.
//! Recorder, replayer, dump, divergence messages and the coverage page all read the same rows, so
//! that they cannot disagree.
//!
//! This crate knows no process, no memory and no trace. It must never make a system call and
//! must never guess: a call, request or option without a row here is refused by the engine,
//! never passed through unrecorded.
//!
//! # How to read a row
//!
//! [`row`] finds the [`Row`] of a number. A row with a [`SubTable`] (ioctl, fcntl, prctl, socket
//! options, System V control calls) is less exact than its requests: [`Row::choice`] finds the
//! request, [`Row::refined`] gives the row with the request's columns, [`Row::argument`] the
//! meaning of each argument. Always go through these three, and no request can slip past.
//! [`Row::bytes`] turns a [`Len`] into bytes.

#![forbid(unsafe_code)]

mod arg;
mod check;
mod choice;
mod columns;
mod coverage;
mod dsl;
pub mod errno;
mod eval;
pub mod flags;
mod row;
mod signal;
pub mod structs;
mod sub;
mod sub_table;
mod table;

pub use arg::{Arg, Dir, Len, Special, Written};
pub use choice::Choice;
pub use columns::{
    At, Blocks, Changes, End, FdEffect, Holds, Makes, Moves, OpenFlags, Opening, Replay, Reports,
    Restart, Transfer,
};
pub use coverage::coverage_page;
pub use errno::errno_name;
pub use flags::show_flags;
pub use row::Row;
pub use signal::signal_name;
pub use sub::{IoctlDir, Sub, fcntl, ioc_decode, ioctl, msgctl, prctl, semctl, shmctl, sockopt};
pub use sub_table::SubTable;
pub use table::{TABLE, row};
