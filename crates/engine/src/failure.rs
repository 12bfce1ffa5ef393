//! The failures that stop Relive, in the classes that a user can act on, and how a host process reports
//! them. A failure is handed up as a [`Result`] to the top of the host process, and is the same value on
//! the supervisor's side. It must never be recognized by its sentence.

use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// Exit status of every `relive` command that cannot go on.
pub const EXIT_STATUS: i32 = 125;

/// Why Relive cannot go on. The class is printed as a stable code, see `docs/limits.md`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Failure {
    /// The program does something that Relive does not support.
    #[error("unsupported [RL1]: {0}")]
    Unsupported(String),
    /// The replay does something that the tape does not have.
    #[error("divergence [RL2]: {0}")]
    Divergence(String),
    /// A fault of Relive itself.
    #[error(
        "internal error [RL3]: {0}. This is a fault of Relive, not of your program; please report it with the trace"
    )]
    Internal(String),
    /// The kernel gives no memory.
    #[error("{NO_MEMORY}")]
    NoMemory,
    /// The reader of the replayed output has closed it. A filter dies of SIGPIPE then.
    #[error("nobody reads the output of the replay any more: the pipe is closed")]
    Closed,
    /// Another process of the tree has failed, and has reported its failure.
    #[error("another process of the replay has failed")]
    Elsewhere,
    /// The recorder is gone: the events that this process logs would not be stored.
    #[error("the recorder is gone; the recorded program ends here")]
    Unrecorded,
    /// The surroundings do not allow it: no such program, no space, no permission.
    #[error("{0}")]
    Setup(String),
}

/// The message where the kernel gives no memory.
const NO_MEMORY: &str = "no memory can be had: free some, or lift the limits on it (`ulimit -v unlimited`, `ulimit -d unlimited`)";

/// The class of a failure in memory that another process reads.
mod class {
    pub(super) const UNSUPPORTED: u32 = 1;
    pub(super) const DIVERGENCE: u32 = 2;
    pub(super) const INTERNAL: u32 = 3;
    pub(super) const NO_MEMORY: u32 = 4;
    pub(super) const CLOSED: u32 = 5;
    pub(super) const ELSEWHERE: u32 = 6;
    pub(super) const SETUP: u32 = 7;
    pub(super) const UNRECORDED: u32 = 8;
}

impl Failure {
    /// An unsupported thing, said in one sentence with its remedy.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::Unsupported(what.to_string())
    }

    /// A fault of Relive itself.
    pub fn internal(what: impl fmt::Display) -> Self {
        Self::Internal(what.to_string())
    }

    /// A refusal by the surroundings.
    pub fn setup(what: impl fmt::Display) -> Self {
        Self::Setup(what.to_string())
    }

    /// Its class, which is never 0, and its text.
    #[must_use]
    pub fn parts(&self) -> (u32, &str) {
        match self {
            Self::Unsupported(text) => (class::UNSUPPORTED, text),
            Self::Divergence(text) => (class::DIVERGENCE, text),
            Self::Internal(text) => (class::INTERNAL, text),
            Self::NoMemory => (class::NO_MEMORY, ""),
            Self::Closed => (class::CLOSED, ""),
            Self::Elsewhere => (class::ELSEWHERE, ""),
            Self::Setup(text) => (class::SETUP, text),
            Self::Unrecorded => (class::UNRECORDED, ""),
        }
    }

    /// From [`Failure::parts`], as another process has written them; that process may be compromised.
    #[must_use]
    pub fn of_parts(class: u32, text: String) -> Self {
        match class {
            class::UNSUPPORTED => Self::Unsupported(text),
            class::DIVERGENCE => Self::Divergence(text),
            class::INTERNAL => Self::Internal(text),
            class::NO_MEMORY => Self::NoMemory,
            class::CLOSED => Self::Closed,
            class::ELSEWHERE => Self::Elsewhere,
            class::SETUP => Self::Setup(text),
            class::UNRECORDED => Self::Unrecorded,
            _ => Self::internal(format!("a failure of class {class} was told: {text}")),
        }
    }
}

/// Shorthand for results that end in a [`Failure`].
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a step of a call did not come about: the guest may be told, or must not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The kernel's error number, a positive one: the guest has it as the call's result.
    Errno(i32),
    /// The engine's state has changed by half, and no error number says so.
    Failure(Failure),
}

/// Shorthand for steps of a call.
pub type CallResult<T> = std::result::Result<T, CallError>;

impl CallError {
    /// The result of the call.
    ///
    /// # Errors
    /// The failure.
    pub fn result(self) -> Result<i64> {
        match self {
            Self::Errno(errno) => Ok(-i64::from(errno)),
            Self::Failure(failure) => Err(failure),
        }
    }
}

/// The part of a step's outcome that the guest may see: done, or the result of a call that has failed.
///
/// # Errors
/// It must not go on.
pub fn answered<T>(step: CallResult<T>) -> Result<std::result::Result<T, i64>> {
    match step {
        Ok(done) => Ok(Ok(done)),
        Err(error) => error.result().map(Err),
    }
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// An error number.
impl From<i32> for CallError {
    fn from(errno: i32) -> Self {
        Self::Errno(errno)
    }
}

/// The result of a call that has failed.
impl From<i64> for CallError {
    fn from(result: i64) -> Self {
        Self::Errno(-result as i32)
    }
}

/// Reports to the supervisor why this process ends; `false`: there is none. Must not allocate.
pub type Reporter = fn(&Failure) -> bool;

/// The reporter of this process. Process-wide: panics and exhausted memory get no arguments.
static TELL: OnceLock<Reporter> = OnceLock::new();

/// From now on, `tell` reports to the supervisor why this process ends.
pub fn tell_by(tell: Reporter) {
    // Once in a process; the same again changes nothing.
    let _ = TELL.set(tell);
}

/// Ends this host process because of `failure`: the first failure of a process tree is kept
/// in the shared memory for the supervisor to print; without a supervisor it is printed here.
///
/// For the tops of a host process, and for the few places that `docs/internals/processes.md` lists.
pub fn die(failure: &Failure) -> ! {
    match (TELL.get(), failure) {
        (Some(tell), _) if *failure != Failure::Unrecorded && tell(failure) => {}
        (_, Failure::NoMemory) => complain(NO_MEMORY),
        _ => complain(&failure.to_string()),
    }
    relive_host::sys::exit_group(EXIT_STATUS)
}

/// Writes one line to the host's standard error. Short lines need no heap.
pub fn complain(text: &str) {
    let parts = ["relive: ", text, "\n"].map(str::as_bytes);
    let mut short = [0; 512];
    let len: usize = parts.iter().map(|part| part.len()).sum();
    match short.get_mut(..len) {
        Some(line) => {
            let mut rest = &mut *line;
            for part in parts {
                let (here, behind) = rest.split_at_mut(part.len());
                here.copy_from_slice(part);
                rest = behind;
            }
            write(line);
        }
        None => write(&parts.concat()),
    }
}

fn write(line: &[u8]) {
    let args = [2, line.as_ptr() as u64, line.len() as u64, 0, 0, 0];
    // SAFETY: the buffer outlives the call.
    unsafe { relive_host::sys::syscall(libc::SYS_write as u64, args) };
}

/// A replay or a recorder that cannot get so much is out of memory.
const LITTLE: usize = 1 << 20;

/// Whether there is memory. Libraries panic where they get none.
fn has_memory() -> bool {
    // SAFETY: gets memory and gives it back.
    unsafe {
        // Otherwise the compiler would leave out both calls.
        let some = std::hint::black_box(libc::malloc(LITTLE));
        libc::free(some);
        !some.is_null()
    }
}

/// Makes a panic an internal error like all others: one sentence and the documented status.
/// The standard library's own way out, SIGABRT, would reach the guest's signal handling.
pub fn report_panics() {
    std::panic::set_hook(Box::new(|info| {
        if !has_memory() {
            die(&Failure::NoMemory);
        }
        let what = info.payload_as_str().unwrap_or("a panic");
        let place = info
            .location()
            .map_or(String::new(), |l| format!(" ({}:{})", l.file(), l.line()));
        die(&Failure::internal(format!("{what}{place}")))
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_the_same_in_another_process() {
        let text = || "so it is".to_owned();
        for failure in [
            Failure::Unsupported(text()),
            Failure::Divergence(text()),
            Failure::Internal(text()),
            Failure::NoMemory,
            Failure::Closed,
            Failure::Elsewhere,
            Failure::Setup(text()),
            Failure::Unrecorded,
        ] {
            let (class, said) = failure.parts();
            assert_ne!(class, 0);
            assert_eq!(Failure::of_parts(class, said.to_owned()), failure);
        }
        let strange = Failure::of_parts(99, text());
        assert!(matches!(strange, Failure::Internal(told) if told.contains("so it is")));
    }
}
