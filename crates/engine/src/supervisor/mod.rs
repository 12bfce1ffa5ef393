//! The processes beside the guest: one drains the rings of a recording into its trace, one
//! watches a replay. They never touch guest memory.

mod children;
mod drain;
mod folder;
mod other_writers;
mod record;
mod replay;
mod run;
mod signals;
mod verify;

pub(crate) use children::{ended_by, kill, start};
pub use folder::Folder;
pub use other_writers::other_writers;
pub use record::{RecordOptions, Recording, record};
pub use replay::{ReplayOptions, Replayed, replay};
pub use run::{Counted, run, run_counted};
pub use verify::{Verified, verify};

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::kernel::exec::{Target, resolve};

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// With this exit code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

impl Status {
    /// From wait(2).
    #[must_use]
    pub fn from_wait(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal(libc::WTERMSIG(status))
        } else {
            Self::Code(libc::WEXITSTATUS(status))
        }
    }

    /// Ends the calling process the same way.
    pub fn mimic(self) -> ! {
        match self {
            Self::Code(code) => std::process::exit(code),
            Self::Signal(sig) => crate::modes::live::die_of(sig),
        }
    }
}

/// Finds a program as a shell would: by path, or along `$PATH`.
///
/// # Errors
/// It is not there or not executable.
pub fn find_program(name: &OsStr, args: &[OsString]) -> Result<Target> {
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
fn environment() -> Vec<Vec<u8>> {
    std::env::vars_os()
        .filter(|(n, _)| !n.as_bytes().starts_with(b"RELIVE_"))
        .map(|(n, v)| [n.as_bytes(), b"=", v.as_bytes()].concat())
        .collect()
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path)
        .map_err(|e| Failure::setup(format!("cannot find the working folder: {e}")))
}
