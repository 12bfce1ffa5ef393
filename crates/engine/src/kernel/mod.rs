//! System calls: from the guest's `syscall` instruction to its result, live and in replay.
//!
//! The table (`relive_kabi`) describes every call; most need nothing else. Calls that change the
//! engine's own state (memory map, tasks, signals…) have a hook ([`operation`]). A call without a row
//! must never be passed to the kernel.

mod actions_and_masks;
mod advice;
pub mod buffers;
pub mod changed_files;
pub mod clone;
pub mod copied_strings;
pub mod enter;
pub mod exec;
pub mod fds;
mod files;
mod futex;
pub mod generic;
pub mod hooks;
pub mod judge;
mod limits;
mod locks;
pub mod mapped;
mod misc;
mod mm;
pub mod namespaces;
pub mod operation;
pub mod own;
pub mod own_memory;
mod plain;
mod prctl;
pub mod refuse;
pub mod resume;
mod rights;
mod seccomp;
mod segments;
mod sending;
pub mod shown;
mod spliced_output;
pub mod stream_aliases;
pub mod stream_output;
pub mod syscall;
pub mod syscall_event;
pub mod tasks;
mod timers;
mod waits;
