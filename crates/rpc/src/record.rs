//! Records: the elements of the stream of one lane.
//!
//! A *lane* is the history that one entry point, group, lock, channel or root task writes. Its stream
//! begins with a definition; receipts, primitives and cancellations follow, in order.

use crate::header::{Content, Mark};
use crate::id::{Path, RequestId};
use crate::name::{Name, NameId};

/// Longest value of a primitive, and longest part of a payload.
pub const VALUE_MAX: usize = 1 << 20;

/// Whose history a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneKind {
    /// A task that the program named itself.
    Root,
    /// An entry point whose handlers run side by side.
    Entry,
    /// An exclusive entry point, or a group of them: one handler at a time.
    Exclusive,
    /// A lock.
    Lock,
    /// The sending side of a channel.
    Channel,
}

impl LaneKind {
    pub(crate) const ALL: [Self; 5] = [
        Self::Root,
        Self::Entry,
        Self::Exclusive,
        Self::Lock,
        Self::Channel,
    ];

    /// Whether one receipt's work ends before the next receipt.
    pub fn is_exclusive(self) -> bool {
        matches!(self, Self::Exclusive | Self::Lock | Self::Channel)
    }

    /// As it is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Entry => "entry",
            Self::Exclusive => "exclusive",
            Self::Lock => "lock",
            Self::Channel => "channel",
        }
    }
}

/// A request was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Which request.
    pub id: RequestId,
    /// At which entry point of the lane.
    pub entry: NameId,
    /// The hash of its content, where it has one.
    pub content: Option<Content>,
}

/// One task of a lane: the receipt that it handles (0 for a root), and its way from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// Place of the receipt in the lane.
    pub place: u64,
    /// Way from the lane's first task of that place.
    pub path: Path,
}

/// Which bytes of a task a payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamId {
    /// The request that it handles.
    Request,
    /// The answer to the request that is this operation of the task.
    Answer(u64),
    /// The answer that it gives itself; its hash only.
    Given,
}

/// A record of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The first one: whose lane it is.
    Define(LaneKind, Name),
    /// The following records belong to this epoch of the recording.
    Epoch(u64),
    /// The following records depend on those of another process up to this epoch.
    Depends(Mark),
    /// A request was received.
    Receipt(Receipt),
    /// An operation had a result that is not a function of the program's state.
    Primitive {
        /// Whose operation.
        task: Member,
        /// Its number.
        number: u64,
        /// Which primitive.
        name: Name,
        /// Its result.
        value: Vec<u8>,
    },
    /// A part of the bytes that came to a task: of its request, or of an answer.
    Payload {
        /// Whose.
        task: Member,
        /// Which bytes.
        stream: StreamId,
        /// The next part.
        part: Vec<u8>,
    },
    /// A task was given up before its end.
    Cancelled {
        /// Which one.
        task: Member,
        /// So many operations it had begun.
        operations: u64,
    },
}
