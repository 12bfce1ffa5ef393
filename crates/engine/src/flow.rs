//! How a task goes on after an event, and how a process ends.

/// How a task goes on after an event.
#[derive(Debug, PartialEq, Eq)]
pub enum Flow {
    /// It runs on.
    Continue,
    /// Replay: it has lost the baton.
    Park,
    /// The thread has ended, with this code.
    ThreadEnd(i32),
    /// The process has ended.
    ProcessEnd(End),
    /// Replay: a new program image begins.
    Exec(Box<EncodedImage>),
}

/// A program image as it is on the tape; behind a pointer, so that a flow fits into two registers.
#[derive(Debug, PartialEq, Eq)]
pub struct EncodedImage(pub Vec<u8>);

impl Flow {
    /// The image on the tape begins.
    pub fn exec(image: &[u8]) -> Self {
        Self::Exec(Box::new(EncodedImage(image.to_vec())))
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// exit_group with this code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}
