//! The types of the columns of rows and requests.

/// Whether a call may sleep for an unbounded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// It comes back by itself, soon: disk input and output counts as soon.
    Never,
    /// It may wait for another thread, another process, a person or a clock: the baton is released
    /// first.
    Maybe,
}

/// The effect of a signal on a sleeping call; see signal(7).
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
    /// Restarted after any handler: no error number says that it was interrupted. Also of calls
    /// that do not sleep, but have to be made again.
    Always,
    /// As the operation of futex(2) and its timeout say: see [`Restart::of`].
    Futex,
}

impl Restart {
    /// The same for a call with these arguments: never [`Restart::Futex`].
    #[must_use]
    pub const fn of(self, args: &[u64; 6]) -> Restart {
        /// FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME.
        const OPTIONS: u64 = 128 | 256;
        /// FUTEX_LOCK_PI, FUTEX_LOCK_PI2.
        const LOCKS: [u64; 2] = [6, 13];
        let Restart::Futex = self else { return self };
        let operation = args[1] as u32 as u64 & !OPTIONS;
        if operation == LOCKS[0] || operation == LOCKS[1] {
            Restart::Always
        } else if args[3] != 0 {
            Restart::NoHandler
        } else {
            Restart::Handler
        }
    }
}

/// The effect of a successful call on the table of file descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FdEffect {
    /// Nothing.
    None,
    /// The result is a new descriptor of an object that the call makes.
    Creates,
    /// The two `int`s behind that argument are new descriptors of an object that the call makes.
    CreatesPair(u8),
    /// The `int` behind that argument is a new descriptor of an object that the call makes.
    CreatesAt(u8),
    /// The result is a new descriptor of a file.
    Opens(Opening),
    /// The result is a new descriptor of an existing object, which is not a file that it names.
    Finds,
    /// The result is a copy of the descriptor in that argument.
    Copies(u8),
    /// The messages in that argument may bring descriptors (unix(7), `SCM_RIGHTS`).
    Receives(u8),
    /// The descriptor in that argument is closed (even if the call returns EINTR or EIO).
    Closes(u8),
    /// The descriptors from the first argument to the second are closed, or will be by the next
    /// exec, as the flags in the third say: close_range(2).
    ClosesRange,
    /// The table is that of a new process or program.
    Table,
}

/// The file that a call opens, and its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The argument with the path; if it is not the first, its folder is in the one before. None:
    /// the file is named in another way.
    pub path: Option<u8>,
    /// The place of the flags of open(2).
    pub flags: OpenFlags,
}

/// The place of the flags of open(2) in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFlags {
    /// In that argument.
    In(u8),
    /// At the beginning of the structure that the argument points to.
    Behind(u8),
    /// None: as by creat(2), write only, created if missing, and truncated.
    Create,
}

/// The replay of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// The result and the bytes written come from the tape; the call is not made.
    Apply,
    /// Made again, with the same arguments, by the code that owns the guest's memory map; the
    /// result must be the one on the tape.
    Redo,
    /// The engine's code decides, in recording and in replay.
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

/// A transfer of a call from a descriptor, or to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Nothing.
    None,
    /// Bytes: their number is the result.
    Bytes(End),
    /// A connection, through the socket in that argument: accept(2), connect(2).
    Connection(u8),
}

impl Transfer {
    /// The argument with the descriptor.
    pub const fn fd(self) -> Option<u8> {
        match self {
            Transfer::None => None,
            Transfer::Bytes(End { fd, .. }) | Transfer::Connection(fd) => Some(fd),
        }
    }

    /// The end of a transfer of bytes.
    pub const fn bytes(self) -> Option<End> {
        match self {
            Transfer::Bytes(end) => Some(end),
            Transfer::None | Transfer::Connection(_) => None,
        }
    }
}

/// One end of a transfer of bytes: a descriptor. At the other end is the caller's memory, or
/// another descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The argument with the descriptor.
    pub fd: u8,
    /// The position in the file.
    pub at: At,
    /// The argument with the memory that the bytes go to or come from: a buffer, an `iovec` array
    /// or messages. None: they come from the call's [`Row::input`](crate::Row::input) or go to its
    /// [`Row::output`](crate::Row::output).
    pub memory: Option<u8>,
}

/// The position in a file where a call reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// None: it takes no files, but pipes or sockets.
    Stream,
    /// At the descriptor's position.
    Position,
    /// At the offset in that argument.
    Offset(u8),
    /// At the offset in that argument, or at the position if it is -1; the flags in another one
    /// (`RWF_APPEND`, `RWF_NOAPPEND`) may say otherwise.
    Flagged {
        /// The argument with the offset.
        offset: u8,
        /// The argument with the flags.
        flags: u8,
    },
    /// At the offset that the pointer in that argument leads to, or at the position if it is NULL.
    Pointer(u8),
}

/// The way in which a call moves bytes from one descriptor to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// Not at all.
    No,
    /// From a file: as many bytes as that argument says, or up to the file's end.
    FromFile {
        /// The argument with the number of bytes.
        len: u8,
        /// To a file only.
        to_file: bool,
    },
    /// As many bytes as a pipe at either end has or takes.
    ByPipe {
        /// The argument with the largest number of bytes.
        len: u8,
        /// The argument with the flags: `SPLICE_F_*`.
        flags: u8,
    },
    /// The same between two pipes; the bytes also stay in the first one.
    Tees {
        /// The argument with the largest number of bytes.
        len: u8,
        /// The argument with the flags: `SPLICE_F_*`.
        flags: u8,
    },
}

/// The change that a call makes in a file beside the bytes that its
/// [`Row::output`](crate::Row::output) writes and the truncation by its [`FdEffect::Opens`]: other
/// processes may have the file in their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// None that memory shows.
    Nothing,
    /// The size of the file of the descriptor in that argument.
    Size(u8),
    /// The size of the file with the path in that argument.
    SizeOfNamed(u8),
    /// The space of the file of the descriptor in that argument, as by fallocate(2): mode, offset
    /// and length are in the arguments that follow.
    Space(u8),
    /// All of the file of the descriptor in that argument, perhaps.
    All(u8),
}

/// Descriptors that a call takes elsewhere than in its arguments, sets and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// None.
    Nothing,
    /// In the structure behind that argument, in a 64-bit word at that offset.
    Word(u8, u32),
    /// In each element of the `struct file_dedupe_range` behind that argument.
    Targets(u8),
    /// In the argument behind that one, which is a pidfd: a descriptor of the process that it
    /// names.
    OfPidfd(u8),
    /// In the last two arguments if files are compared: of the processes in the first two, kcmp(2).
    Compared,
}

/// The task that a call makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Makes {
    /// None.
    Nothing,
    /// A process.
    Process,
    /// A process or a thread, as the flags of clone(2) in that argument say.
    Flags(u8),
    /// The same; the flags are at the beginning of the structure behind that argument.
    FlagsBehind(u8),
}

/// The place where a call reports the end of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reports {
    /// No report.
    Nothing,
    /// The child is the result, its status behind that argument; in the next argument are the
    /// options: wait4(2).
    Status(u8),
    /// In the `siginfo_t` behind that argument: waitid(2).
    Info(u8),
}
