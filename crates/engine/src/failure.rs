//! What can stop Relive, in the classes a user can act on, and how a host process says so.

use std::fmt;
use std::sync::OnceLock;

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
    end_with(&failure.to_string())
}

/// Tells the supervisor why this process ends; `false`: nobody hears.
pub type Tell = fn(&str) -> bool;

/// A panic and an exhausted memory have nobody to ask how the supervisor is told.
static TELL: OnceLock<Tell> = OnceLock::new();

/// From now on the supervisor is told so why this process ends.
pub fn tell_by(tell: Tell) {
    // Once in a process; the same again changes nothing.
    let _ = TELL.set(tell);
}

fn end_with(text: &str) -> ! {
    match TELL.get() {
        Some(tell) if tell(text) => {}
        _ => complain(text),
    }
    relive_host::sys::exit_group(EXIT_STATUS)
}

/// Writes one line on the host's standard error. Short ones need no heap.
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

/// What is said where the kernel gives no memory.
const NO_MEMORY: &str = "no memory can be had: free some, or lift the limits on it (`ulimit -v unlimited`, `ulimit -d unlimited`)";
/// A replay or a recorder that cannot have so much has none.
const LITTLE: usize = 1 << 20;

/// Ends this process because it gets no memory; does not need any.
pub fn out_of_memory() -> ! {
    end_with(NO_MEMORY)
}

/// Whether memory is all there is to complain of. Libraries of C panic where they get none.
fn has_memory() -> bool {
    // SAFETY: gets memory and gives it back.
    unsafe {
        // Else the compiler would leave out both.
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
            out_of_memory();
        }
        let what = info.payload_as_str().unwrap_or("a panic");
        let place = info
            .location()
            .map_or(String::new(), |l| format!(" ({}:{})", l.file(), l.line()));
        die(&Failure::internal(format!("{what}{place}")))
    }));
}
