//! What can stop Relive, in the classes a user can act on, and how a host process says so.

use std::fmt;

/// Exit status of every `relive` command that cannot go on.
pub const EXIT_STATUS: i32 = 125;

/// What [`Failure::Closed`] says. Between processes it is known by this sentence.
const CLOSED: &str = "nobody reads the output of the replay any more: the pipe is closed";

/// Why Relive cannot go on. The class is printed as a stable code, see `docs/limits.md`.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Failure {
    /// The program does something that Relive does not support.
    #[error("unsupported [RL1]: {0}")]
    Unsupported(String),
    /// The replay wants to do something that the tape does not say.
    #[error("divergence [RL2]: {0}")]
    Divergence(String),
    /// A fault of Relive itself.
    #[error(
        "internal error [RL3]: {0}. This is a fault of Relive, not of your program; please report it with the trace"
    )]
    Internal(String),
    /// What a host process said, with its class.
    #[error("{0}")]
    Told(String),
    /// Whoever read the replayed output has closed it. A filter dies of SIGPIPE then.
    #[error("{CLOSED}")]
    Closed,
    /// The surroundings do not allow it: no such program, no space, no permission.
    #[error("{0}")]
    Setup(String),
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

    /// What a host process said.
    #[must_use]
    pub fn told(text: String) -> Self {
        match &*text {
            CLOSED => Self::Closed,
            _ => Self::Told(text),
        }
    }

    /// A refusal by the surroundings.
    pub fn setup(what: impl fmt::Display) -> Self {
        Self::Setup(what.to_string())
    }
}

/// Shorthand for results that end in a [`Failure`].
pub type Result<T> = std::result::Result<T, Failure>;

/// Ends this host process because of `failure`: the first failure of a process tree is kept
/// in the shared memory for the supervisor to print; without a supervisor it is printed here.
pub fn die(failure: &Failure) -> ! {
    let text = failure.to_string();
    match crate::machine::shm() {
        // Nobody sees the memory of a guided replay.
        Some(shm) if !crate::replay::is_guided() => shm.fail(&text),
        _ => complain(&text),
    }
    relive_host::sys::exit_group(EXIT_STATUS)
}

/// Writes one line on the host's standard error.
pub fn complain(text: &str) {
    let line = format!("relive: {text}\n");
    // SAFETY: the buffer outlives the call.
    unsafe {
        relive_host::sys::syscall(
            libc::SYS_write as u64,
            [2, line.as_ptr() as u64, line.len() as u64, 0, 0, 0],
        );
    }
}

/// Makes a panic an internal error like all others: one sentence and the documented status.
/// The standard library's own way out, SIGABRT, would reach the guest's signal handling.
pub fn report_panics() {
    std::panic::set_hook(Box::new(|info| {
        let what = info.payload_as_str().unwrap_or("a panic");
        let place = info
            .location()
            .map_or(String::new(), |l| format!(" ({}:{})", l.file(), l.line()));
        die(&Failure::internal(format!("{what}{place}")))
    }));
}
