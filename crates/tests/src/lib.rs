//! The guest programs and the harness that runs each one natively, translated, recorded and replayed.
//!
//! A *case* is one dropped file: a guest in `guests/` (compiled by the harness) or a shell script
//! in `programs/` (real programs). Its first lines are a [`header::Header`] with the expectations.
//! Every case runs natively first, which proves the case itself; only then do the [`stages`] of the
//! `relive` command run, each compared with the run it must equal.
//!
//! The harness must never trust a guest to end: each child runs in a process group of its own
//! with a time limit, and only that group is ever killed.

pub mod case;
pub mod child;
pub mod command;
pub mod compare;
pub mod compile;
pub mod dap_client;
pub mod dap_script;
pub mod editors;
pub mod escape;
pub mod gdb_client;
pub mod header;
pub mod hostile_gdb;
pub mod layers;
pub mod lint;
pub mod needs;
pub mod readme;
pub mod session;
pub mod signals;
pub mod splits;
pub mod stage_table;
pub mod stages;
pub mod workshop;

use rustix::io::{FdFlags, fcntl_setfd};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

/// The folder of this crate, where `guests/` and `programs/` lie.
pub fn crate_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Marks every descriptor that this process inherited, but the standard three, close-on-exec.
///
/// Guests look at their own descriptors, so those that a shell or a build tool left open must not
/// reach them. To be called before anything else is opened.
///
/// # Errors
/// `/proc/self/fd` cannot be read.
pub fn keep_descriptors_from_children() -> std::io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let number: Option<i32> = name.to_str().and_then(|text| text.parse().ok());
        let Some(number) = number.filter(|number| *number > 2) else {
            continue;
        };
        // SAFETY: the number is only passed to fcntl(F_SETFD), which has no effect on memory
        // and fails on a number that is not open; the borrow ends with this statement.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        // The only failure is EBADF: gone, so no child can inherit it.
        fcntl_setfd(descriptor, FdFlags::CLOEXEC).ok();
    }
    Ok(())
}

/// Prepares a test executable (see [`keep_descriptors_from_children`]) and reads its
/// command-line arguments, with at most two trials at a time: each
/// trial starts several processes, and guests with threads need a core to themselves.
///
/// # Panics
/// When `/proc/self/fd` cannot be read.
pub fn arguments() -> libtest_mimic::Arguments {
    keep_descriptors_from_children().expect("/proc/self/fd is readable");
    let mut args = libtest_mimic::Arguments::from_args();
    args.test_threads = Some(args.test_threads.unwrap_or(2).clamp(1, 2));
    args
}
