//! `relive run`: the calling process becomes the host.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::{environment, find_program};
use crate::boot::Boot;
use crate::failure::{Failure, Result};
use crate::machine::Mode;

/// Runs a program translated only. Returns only if it cannot be started.
///
/// # Errors
/// The program cannot be started.
pub fn run(program: &OsStr, args: &[OsString]) -> Result<std::convert::Infallible> {
    let target = find_program(program, args)?;
    crate::translations::choose();
    let shown = target.argv.clone();
    let boot = Boot {
        mode: Mode::Run,
        trace: PathBuf::new(),
        supervisor: None,
        called: target.called,
        path: target.path,
        argv: target.argv,
        env: environment(),
        seed: None,
        go_on: None,
    };
    drop(target.file);
    boot.exec(&shown).map_err(|e| {
        Failure::setup(format!(
            "cannot start the host process: {}",
            std::io::Error::from_raw_os_error(e)
        ))
    })
}
