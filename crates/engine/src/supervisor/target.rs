//! The program that is to be run, as a command was given it: its file, its arguments, its environment.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::kernel::exec::{Executable, resolve};

/// Finds a program as a shell would: by path, or along `$PATH`.
///
/// # Errors
/// It is not there or not executable.
pub fn find_program(name: &OsStr, args: &[OsString]) -> Result<Executable> {
    crate::descriptor_limit::for_command()?;
    let argv: Vec<Vec<u8>> = std::iter::once(name.to_owned())
        .chain(args.iter().cloned())
        .map(OsString::into_vec)
        .collect();
    let attempt = |path: &Path| resolve(path.as_os_str().as_bytes(), argv.clone());
    let told = |errno: i32| {
        let why = match errno {
            libc::ENOEXEC => "is not an x86-64 Linux program or script".to_owned(),
            libc::ENOENT => "was not found; give its path, or check $PATH".to_owned(),
            e => format!(
                "cannot be executed: {}",
                std::io::Error::from_raw_os_error(e)
            ),
        };
        Failure::setup(format!("{} {why}", name.to_string_lossy()))
    };
    if name.as_bytes().contains(&b'/') {
        return attempt(Path::new(name)).map_err(told);
    }
    let mut last = libc::ENOENT;
    for dir in std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()) {
        match attempt(&dir.join(name)) {
            Ok(t) => return Ok(t),
            Err(libc::ENOENT) => {}
            Err(e) => last = e,
        }
    }
    Err(told(last))
}

/// The environment as a list of `NAME=value`, without Relive's own variables.
pub fn environment() -> Vec<Vec<u8>> {
    std::env::vars_os()
        .filter(|(n, _)| !n.as_bytes().starts_with(b"RELIVE_"))
        .map(|(n, v)| [n.as_bytes(), b"=", v.as_bytes()].concat())
        .collect()
}

/// The path from the root on.
///
/// # Errors
/// There is no working folder.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path)
        .map_err(|e| Failure::setup(format!("cannot find the working folder: {e}")))
}
