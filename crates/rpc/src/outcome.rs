//! How a session stands, and why it cannot be opened.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::bytes::Malformed;
use crate::halt::Divergence;
use crate::name::Name;
use crate::record::LaneKind;
use crate::tape::TapeError;

/// Chooses the mode where a program leaves it to its environment: `record:DIR`, `record+payloads:DIR`,
/// `replay:DIR` or, of this process without its peers, `alone:DIR`; unset or empty is off.
pub const VARIABLE: &str = "RELIVE_RPC";

/// Turns the debug mode on if it is set: see [`Session::check`](crate::Session::check); its findings are
/// also written to standard error.
pub const CHECK_VARIABLE: &str = "RELIVE_RPC_CHECK";

/// Why a session, or something of it, cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A name is none.
    #[error("{0}: {1}")]
    Name(String, Malformed),
    /// The variable has none of the forms.
    #[error("{VARIABLE} is {0:?}, not record:DIR, record+payloads:DIR, replay:DIR or alone:DIR")]
    Variable(String),
    /// The name, or one with the same number, is taken.
    #[error("{0:?} is opened twice, or has the number of {1:?}")]
    Taken(Name, Name),
    /// The recording has it as something else.
    #[error("{0:?} is opened as {actual}, and was recorded as {recorded}",
        actual = .1.as_str(), recorded = .2.as_str())]
    Kind(Name, LaneKind, LaneKind),
    /// The tape cannot be written.
    #[error("{path}: the tape cannot be written: {1}", path = .0.display())]
    Write(PathBuf, io::Error),
    /// A tape cannot be read.
    #[error("{path}: {1}", path = .0.display())]
    Tape(PathBuf, TapeError),
    /// The recording has no tape of this process.
    #[error("the recording has no tape of process {0}")]
    NoTape(Name),
    /// A replay of one process alone needs more than was recorded.
    #[error("the tape of process {0} has no payloads: it replays with its peers only")]
    NoPayloads(Name),
}

/// How a session stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is recorded or replayed.
    Off,
    /// All that happened was taken down, or will be.
    Recording,
    /// The tape could not be written any more; it ends there, and the program goes on.
    Failed(String),
    /// So many receipts are still to come.
    Replaying(u64),
    /// All receipts of the recording were admitted.
    Over,
    /// The tape of another process was cut, and requests that depend on missing records do not come:
    /// the recording ends here, too. Names the ones that were waited for.
    CutShort(Arc<Divergence>),
    /// The replay left the recording.
    Diverged(Arc<Divergence>),
}
