//! Why a request, lock or primitive gives no result: errors of a replay, and of wrong use.

use std::fmt;
use std::sync::Arc;

use crate::name::Name;

/// How a replay left its recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A request did not come within the time limit.
    Missing,
    /// A request came more often than in the recording.
    Twice,
    /// A request's content has another hash.
    Content,
    /// A request came to another entry point of its group.
    Entry,
    /// An operation is a primitive of another name, or none in the recording.
    Primitive,
    /// A recorded value cannot be read as the type that is asked for.
    Value,
    /// A request's transport failed in the replay only.
    Transport,
    /// A task was cancelled in one of recording and replay only.
    Cancelled,
}

impl Kind {
    /// As it is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "a request does not come",
            Self::Twice => "a request comes again",
            Self::Content => "a request has other content",
            Self::Entry => "a request comes to another entry point",
            Self::Primitive => "an operation is another one",
            Self::Value => "a recorded value has another type",
            Self::Transport => "a request fails",
            Self::Cancelled => "a task ends otherwise",
        }
    }
}

/// A replay did something else than its recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// In which way.
    pub kind: Kind,
    /// The process.
    pub process: Name,
    /// The entry point, lock, channel or root.
    pub lane: Name,
    /// Receipts that the lane had admitted.
    pub position: u64,
    /// As the recording has it.
    pub expected: String,
    /// As the replay does it.
    pub actual: String,
    /// The last requests that the lane admitted, oldest first.
    pub last: Vec<String>,
    /// The waits at gates, one sentence each; of a request that does not come.
    pub waits: Vec<String>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "replay diverges: {}, at {}/{} #{}: expected {}; actual: {}",
            self.kind.as_str(),
            self.process,
            self.lane,
            self.position,
            self.expected,
            self.actual
        )?;
        if !self.last.is_empty() {
            write!(f, "; before it: {}", self.last.join(", "))?;
        }
        self.waits
            .iter()
            .try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for Divergence {}

/// No result, and why.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Halt {
    /// The replay left its recording; the first divergence of the session.
    #[error("{0}")]
    Diverged(Arc<Divergence>),
    /// The recording has no more receipts of this process: operations from now on lie behind its end.
    #[error("the recording of this process ends here")]
    Over,
    /// The task was cancelled in the recording before it did this.
    #[error("this task was cancelled here in the recording")]
    Cancelled,
    /// There is no task to name the operation by: the caller runs in no `Task::scope`.
    #[error("{0:?} outside of every task: wrap the future in a root, a handler or `fork`")]
    NoTask(String),
    /// A request's transport failed in the recording, where none can.
    #[error("the request failed: {0}")]
    Failed(String),
    /// More is asked for than is kept.
    #[error("{0}")]
    TooMuch(&'static str),
}
