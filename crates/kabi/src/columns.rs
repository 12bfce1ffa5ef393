//! The words that the columns of rows and requests are made of.

/// May a call sleep for an unbounded time?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// It comes back by itself, soon: disk input and output counts as soon.
    Never,
    /// It may wait for another thread, another process, a person or a clock: the baton is
    /// given up first.
    Maybe,
}

/// What happens to a sleeping call when a signal interrupts it; see signal(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// It returns EINTR and is never restarted (or it cannot be interrupted).
    Never,
    /// Restarted when no handler ran, or when the handler has `SA_RESTART`.
    ///
    /// A socket with `SO_RCVTIMEO` or `SO_SNDTIMEO` set is the exception: EINTR after a handler.
    Handler,
    /// Restarted with its own arguments, but only when no handler ran.
    NoHandler,
    /// Restarted only when no handler ran, and then only for the time that was left: the call
    /// has a relative timeout that the kernel does not write back.
    Timed,
}

/// What a call does to the table of file descriptors, if it succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FdEffect {
    /// Nothing.
    None,
    /// The result is a new descriptor.
    Creates,
    /// The two `int`s behind that argument are new descriptors.
    CreatesPair(u8),
    /// The descriptor in that argument is gone (even if the call says EINTR or EIO).
    Closes(u8),
    /// More than that: dup2, close_range, a received `SCM_RIGHTS`, close-on-exec.
    Special,
}

/// What a replay does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// The result and the bytes written come from the tape; nothing is really done.
    Apply,
    /// Really done again, with the same arguments, by the code that owns the guest's memory map;
    /// the result must be the one on the tape.
    Redo,
    /// Code in the engine decides, in recording and in replay.
    Hook,
    /// Not supported: fails with ENOSYS as on a kernel without it, and says so once.
    Enosys,
    /// Not allowed: fails with this errno (positive), and says so once.
    Errno(i32),
}

impl Replay {
    /// The errno with which the call is refused, without being made; None if it is supported.
    pub const fn refused(self) -> Option<i32> {
        match self {
            Replay::Enosys => Some(crate::errno::ENOSYS),
            Replay::Errno(errno) => Some(errno),
            Replay::Apply | Replay::Redo | Replay::Hook => None,
        }
    }
}
