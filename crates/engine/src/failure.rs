//! The failures that stop Relive, in the classes that a user can act on, and how a host process reports
//! them. A failure is handed up as a [`Result`] to the top of the host process, and is the same value on
//! the supervisor's side. It must never be recognized by its sentence.

use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// Exit status of every `relive` command that cannot go on.
pub const EXIT_STATUS: i32 = 125;

/// Why Relive cannot go on. One pointer: a [`Result`] of a call's value goes from function to function in
/// two registers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure(Box<Cause>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Cause {
    class: FailureClass,
    /// Empty for a class that says everything.
    text: String,
}

/// The class of a [`Failure`]. It is printed as a stable code, see `docs/limits.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u32)]
pub enum FailureClass {
    /// The program does something that Relive does not support.
    Unsupported = 1,
    /// The replay does something that the tape does not have.
    Divergence = 2,
    /// A fault of Relive itself.
    Internal = 3,
    /// The kernel gives no memory.
    NoMemory = 4,
    /// The reader of the replayed output has closed it. A filter dies of SIGPIPE then.
    Closed = 5,
    /// Another process of the tree has failed, and has reported its failure.
    Elsewhere = 6,
    /// The surroundings do not allow it: no such program, no space, no permission.
    Setup = 7,
    /// The recorder is gone: the events that this process logs would not be stored.
    Unrecorded = 8,
}

/// All classes.
const CLASSES: [FailureClass; 8] = [
    FailureClass::Unsupported,
    FailureClass::Divergence,
    FailureClass::Internal,
    FailureClass::NoMemory,
    FailureClass::Closed,
    FailureClass::Elsewhere,
    FailureClass::Setup,
    FailureClass::Unrecorded,
];

/// The message where the kernel gives no memory.
const NO_MEMORY: &str = "no memory can be had: free some, or lift the limits on it (`ulimit -v unlimited`, `ulimit -d unlimited`)";

impl Failure {
    #[cold]
    fn new(class: FailureClass, text: String) -> Self {
        Self(Box::new(Cause { class, text }))
    }

    /// An unsupported thing, said in one sentence with its remedy.
    pub fn unsupported(text: impl fmt::Display) -> Self {
        Self::new(FailureClass::Unsupported, text.to_string())
    }

    /// A replay that leaves its recording: both sides.
    pub fn divergence(text: impl fmt::Display) -> Self {
        Self::new(FailureClass::Divergence, text.to_string())
    }

    /// A fault of Relive itself.
    pub fn internal(text: impl fmt::Display) -> Self {
        Self::new(FailureClass::Internal, text.to_string())
    }

    /// A refusal by the surroundings.
    pub fn setup(text: impl fmt::Display) -> Self {
        Self::new(FailureClass::Setup, text.to_string())
    }

    /// Its class.
    #[must_use]
    pub fn class(&self) -> FailureClass {
        self.0.class
    }

    /// Its text, without the class.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The same, of one part of the whole that is named before it.
    #[must_use]
    pub fn of(&self, part: impl fmt::Display) -> Self {
        Self::new(self.class(), format!("{part}: {}", self.text()))
    }

    /// From the number of its class and its text, as another process has written them; that process may be
    /// compromised.
    #[must_use]
    pub fn of_parts(class: u32, text: String) -> Self {
        match CLASSES.into_iter().find(|known| *known as u32 == class) {
            Some(class) => Self::new(class, text),
            None => Self::internal(format!("a failure of class {class} was told: {text}")),
        }
    }
}

/// A class that says everything.
impl From<FailureClass> for Failure {
    fn from(class: FailureClass) -> Self {
        Self::new(class, String::new())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        match self.class() {
            FailureClass::Unsupported => write!(f, "unsupported [RL1]: {text}"),
            FailureClass::Divergence => write!(f, "divergence [RL2]: {text}"),
            FailureClass::Internal => write!(
                f,
                "internal error [RL3]: {text}. This is a fault of Relive, not of your program; please report it with the trace"
            ),
            FailureClass::NoMemory => f.write_str(NO_MEMORY),
            FailureClass::Closed => {
                f.write_str("nobody reads the output of the replay any more: the pipe is closed")
            }
            FailureClass::Elsewhere => f.write_str("another process of the replay has failed"),
            FailureClass::Unrecorded => {
                f.write_str("the process that watches the program is gone; the program ends here")
            }
            FailureClass::Setup => f.write_str(text),
        }
    }
}

impl std::error::Error for Failure {}

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

/// Reports the class and the text of the failure that ends this process to the supervisor; `false`: there is
/// none. Must not allocate.
pub type Reporter = fn(FailureClass, &str) -> bool;

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
    if !told(failure.class(), failure.text()) {
        complain(&failure.to_string());
    }
    relive_host::sys::exit_group(EXIT_STATUS)
}

/// As [`die`], where there may be no memory for a failure.
pub fn die_without_memory() -> ! {
    if !told(FailureClass::NoMemory, "") {
        complain(NO_MEMORY);
    }
    relive_host::sys::exit_group(EXIT_STATUS)
}

/// Tells the supervisor, if there is one, and if it is there.
fn told(class: FailureClass, text: &str) -> bool {
    class != FailureClass::Unrecorded && TELL.get().is_some_and(|tell| tell(class, text))
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
            die_without_memory();
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
        for class in CLASSES {
            let text = match class {
                FailureClass::NoMemory
                | FailureClass::Closed
                | FailureClass::Elsewhere
                | FailureClass::Unrecorded => "",
                _ => "so it is",
            };
            let failure = Failure::new(class, text.to_owned());
            assert_ne!(class as u32, 0);
            let there = Failure::of_parts(class as u32, text.to_owned());
            assert_eq!(there, failure);
        }
        let strange = Failure::of_parts(99, "so it is".to_owned());
        assert_eq!(strange.class(), FailureClass::Internal);
        assert!(strange.text().contains("so it is"));
    }

    #[test]
    fn a_result_takes_two_registers() {
        assert_eq!(size_of::<Result<i64>>(), 16);
        assert_eq!(size_of::<Result<crate::flow::Flow>>(), 16);
        assert_eq!(size_of::<Result<crate::call::reply::Reply>>(), 16);
    }
}
