//! `relive run`: the calling process becomes the host; only with `--stats` does it
//! stay beside it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use relive_host::sys;

use super::children::{reap, start};
use super::forwarding::{forward_signals, ignore_keyboard, pass_on, wake_at_child_end};
use super::status::EndStatus;
use super::target::{environment, find_program};
use crate::failure::{Failure, Result};
use crate::mode::Name;
use crate::shm::Shm;
use crate::start_data::Boot;
use crate::stats::Totals;
use crate::{sections, stats};

/// A program that was run and has ended.
#[derive(Debug)]
pub struct Counted {
    /// How it ended.
    pub status: EndStatus,
    /// The counters of it and of the processes that it started, when it ended.
    pub totals: Totals,
}

/// Runs a program translated only. Returns only if it cannot be started.
///
/// # Errors
/// The program cannot be started.
pub fn run(program: &OsStr, args: &[OsString]) -> Result<std::convert::Infallible> {
    let (boot, shown) = boot(program, args, None)?;
    boot.exec(&shown, crate::descriptor_limit::of_program(), &[])
        .map_err(|e| {
            Failure::setup(format!(
                "cannot start the host process: {}",
                std::io::Error::from_raw_os_error(e)
            ))
        })
}

/// Runs a program translated only, and counts until it ends.
///
/// # Errors
/// The program cannot be started.
pub fn run_counted(program: &OsStr, args: &[OsString]) -> Result<Counted> {
    crate::descriptor_limit::for_command()?;
    sections::place();
    let (shm, _fd) = Shm::create()?;
    stats::COUNTERS.of(&shm).count();
    let (boot, shown) = boot(program, args, Some(shm.descriptor()))?;
    wake_at_child_end(&shm);
    // Before there is a program that could send one to its group; exec takes the handlers off again.
    forward_signals();
    let root = start(&boot, &shown, false, &[])?;
    ignore_keyboard();
    loop {
        let seen = shm.header().wake.load(Ordering::Acquire);
        while let Some((pid, status)) = reap() {
            if pid == root {
                return Ok(Counted {
                    status: EndStatus::from_wait(status),
                    totals: stats::COUNTERS.of(&shm).totals().unwrap_or_default(),
                });
            }
        }
        pass_on(&shm, root);
        sys::futex_wait(&shm.header().wake, seen, Some(20));
    }
}

/// The start data of the host process, and the arguments that `/proc` shows.
fn boot(
    program: &OsStr,
    args: &[OsString],
    supervisor: Option<(u32, u32)>,
) -> Result<(Boot, Vec<Vec<u8>>)> {
    let target = find_program(program, args)?;
    crate::translations::store::choose();
    let shown = target.argv.clone();
    let boot = Boot {
        path: target.path,
        argv: target.argv,
        env: environment(),
        ..Boot::new(Name::Run, PathBuf::new(), supervisor, &target.called)
    };
    Ok((boot, shown))
}
