//! The start data of a host process, and how a host replaces the calling process. They must never lie on
//! a disk: both ends are the same executable.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use relive_host::cpu::Known;
use serde::{Deserialize, Serialize};

use crate::cpuid::KeptAnswer;
use crate::descriptor_limit::{Limit, Room};
use crate::failure::{Failure, Result};
use crate::mode::{HandedOn, Name};
use crate::process::state::ProcessState;
use crate::task::plain_task::TaskState;
use crate::{encoding, memfd, stack_limit};

/// Names the descriptor of the start data in the environment of a host process.
const VARIABLE: &str = "RELIVE_BOOT";

/// The start data of a host process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Boot {
    /// The mode in which it runs its guest.
    pub mode: Name,
    /// The trace, absolute.
    #[serde(with = "encoding::path")]
    pub trace: PathBuf,
    /// The supervisor's pid and descriptor of the shared memory.
    pub supervisor: Option<(u32, u32)>,
    /// The path by which the program was named.
    #[serde(with = "serde_bytes")]
    pub called: Vec<u8>,
    /// Its canonical path.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
    /// An inherited descriptor of its file; without one it is opened by its path.
    pub file: Option<i32>,
    /// Its arguments.
    #[serde(with = "encoding::strings")]
    pub argv: Vec<Vec<u8>>,
    /// Its environment.
    #[serde(with = "encoding::strings")]
    pub env: Vec<Vec<u8>>,
    /// The state with which its mode begins.
    pub handed_on: HandedOn,
    /// The state that goes on over exec; `None` for the first program.
    pub go_on: Option<Continuation>,
}

/// The state with which the host of a process's next program goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Continuation {
    /// The thread, at its call of execve(2).
    pub task: TaskState,
    /// The process.
    pub process: ProcessState,
    /// The old host's knowledge of the processor.
    pub cpu: Known,
    /// The answers of `cpuid` that the old host has kept.
    pub cpuid: Vec<KeptAnswer>,
    /// The old host's offsets in the kernel's vDSO ([`crate::vdso::found`]).
    pub vdso: Option<[u64; 2]>,
    /// A descriptor of the host's executable.
    pub host: i32,
}

impl Continuation {
    /// The host's executable, if it may have no name for the process any more.
    pub fn kept_host(&self) -> Option<i32> {
        self.process.state.retained_fds.map(|_| self.host)
    }
}

/// Limits of the guest that are raised or lowered while a host starts; the new host restores them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifted {
    /// The soft limit on stacks.
    pub stack: Option<u64>,
    /// The limits on open files.
    pub descriptors: Option<Limit>,
}

impl Boot {
    /// The start data of the first host process, which has no program yet.
    #[must_use]
    pub fn new(mode: Name, trace: PathBuf, supervisor: Option<(u32, u32)>, called: &[u8]) -> Self {
        Self {
            mode,
            trace,
            supervisor,
            called: called.to_vec(),
            path: Vec::new(),
            file: None,
            argv: Vec::new(),
            env: Vec::new(),
            handed_on: HandedOn::default(),
            go_on: None,
        }
    }

    /// Replaces the calling process by a host process with this start data. `shown` are the arguments
    /// that other processes see; `descriptors` is the guest's limit on open files, if it differs from
    /// the present one; the new process gets the `extra` variables beside Relive's own of this one.
    ///
    /// # Errors
    /// The errno of a refusal.
    pub fn exec(
        &self,
        shown: &[Vec<u8>],
        descriptors: Option<Limit>,
        extra: &[(&str, String)],
    ) -> std::result::Result<Infallible, i32> {
        let stack = stack_limit::lower();
        let room = Room::make();
        let lifted = Lifted {
            stack,
            descriptors: descriptors.or(room.before()),
        };
        let refused = self.exec_with(shown, lifted, extra);
        stack_limit::restore(stack);
        refused
    }

    fn exec_with(
        &self,
        shown: &[Vec<u8>],
        lifted: Lifted,
        extra: &[(&str, String)],
    ) -> std::result::Result<Infallible, i32> {
        let errno = |e: std::io::Error| e.raw_os_error().unwrap_or(libc::EIO);
        let data = memfd::with(&encoding::to_bytes(&(lifted, self))).map_err(errno)?;
        let c = |b: &[u8]| CString::new(b).map_err(|_| libc::EINVAL);
        let argv = shown
            .iter()
            .map(|a| c(a))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let mut env = vec![c(format!("{VARIABLE}={}", data.as_raw_fd()).as_bytes())?];
        for (name, value) in std::env::vars_os() {
            let said_anew = name == VARIABLE || extra.iter().any(|(known, _)| name == **known);
            if name.as_bytes().starts_with(b"RELIVE_") && !said_anew {
                env.push(c(&[name.as_bytes(), b"=", value.as_bytes()].concat())?);
            }
        }
        for (name, value) in extra {
            env.push(c(format!("{name}={value}").as_bytes())?);
        }
        let pointers = |v: &[CString]| {
            v.iter()
                .map(|s| s.as_ptr())
                .chain([std::ptr::null()])
                .collect::<Vec<_>>()
        };
        let (a, e) = (pointers(&argv), pointers(&env));
        let kept = self.go_on.as_ref().and_then(Continuation::kept_host);
        // SAFETY: both arrays end with a null and outlive the call.
        unsafe {
            match kept {
                // There may be no /proc any more, or another one.
                Some(host) => libc::execveat(
                    host,
                    c"".as_ptr(),
                    a.as_ptr().cast(),
                    e.as_ptr().cast(),
                    libc::AT_EMPTY_PATH,
                ),
                // Once the first thread of the process has ended, /proc/self has no file any more.
                None => libc::execve(c"/proc/thread-self/exe".as_ptr(), a.as_ptr(), e.as_ptr()),
            }
        };
        Err(errno(std::io::Error::last_os_error()))
    }
}

/// The descriptor of the start data, if this process was started as a host.
#[must_use]
pub fn requested() -> Option<i32> {
    std::env::var(VARIABLE).ok()?.parse().ok()
}

/// Reads the start data from an inherited descriptor and closes it.
///
/// # Errors
/// They cannot be read.
pub fn read(fd: i32) -> Result<(Lifted, Boot)> {
    // SAFETY: the descriptor was made for this process to read.
    let mut file = unsafe { File::from_raw_fd(fd) };
    let mut bytes = Vec::new();
    let no =
        |e: &dyn std::fmt::Display| Failure::internal(format!("cannot read the start data: {e}"));
    file.read_to_end(&mut bytes).map_err(|e| no(&e))?;
    encoding::from_bytes(&bytes).map_err(|e| no(&e))
}
