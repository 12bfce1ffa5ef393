//! System calls: from the guest's `syscall` instruction to its result, live and in replay.
//!
//! The table (`relive_kabi`) describes every call; most need nothing else. Calls that change the
//! engine's own state (memory map, tasks, signals…) have a hook ([`operation`]). A call without a row
//! must never be passed to the kernel.

mod advice;
mod buffers;
pub mod changed_files;
pub mod clone;
pub mod enter;
pub mod event;
pub mod exec;
pub mod fds;
mod files;
mod futex;
pub mod generic;
pub mod hooks;
pub mod judge;
mod kill;
mod limits;
mod locks;
pub mod mapped;
mod misc;
mod mm;
pub mod namespaces;
pub mod operation;
pub mod output;
pub mod own;
pub mod own_memory;
mod plain;
mod prctl;
pub mod refuse;
pub mod resume;
mod seccomp;
mod segments;
pub mod shown;
mod signals;
mod spliced_output;
pub mod stream_aliases;
pub mod strings;
pub mod syscall;
pub mod tasks;
mod timers;
mod users;
mod waits;
