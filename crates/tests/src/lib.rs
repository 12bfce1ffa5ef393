//! The guest programs and the harness that runs each one natively, translated, recorded and replayed.
//!
//! A *case* is one dropped file: a guest in `guests/` (compiled by the harness) or a shell
//! script in `programs/` (real programs). Its first lines are a [`header::Header`] that says
//! what to expect. Every case runs natively first, which proves the case itself; only then
//! do the [`stages`] of the `relive` command run, each compared with the run it must equal.
//!
//! The harness must never trust a guest to end: each child runs in a process group of its own
//! with a time limit, and only that group is ever killed.

pub mod case;
pub mod child;
pub mod command;
pub mod compare;
pub mod compile;
pub mod escape;
pub mod header;
pub mod needs;
pub mod signals;
pub mod stages;

use std::path::PathBuf;

/// The folder of this crate, where `guests/` and `programs/` lie.
pub fn crate_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Command-line arguments for a test executable, with at most two trials at a time: each
/// trial starts several processes, and guests with threads need a core to themselves.
pub fn arguments() -> libtest_mimic::Arguments {
    let mut args = libtest_mimic::Arguments::from_args();
    args.test_threads = Some(args.test_threads.unwrap_or(2).clamp(1, 2));
    args
}
