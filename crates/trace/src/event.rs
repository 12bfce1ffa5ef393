//! The events of a tape, as plain data.
//!
//! The meaning of a syscall number, an argument or a signal's bytes belongs to the users of
//! this crate; here they are only carried.

use std::fmt;

use crate::readings::Readings;
use crate::refs::Refs;
use crate::writes::Writes;

/// Names a tape: process and thread are indexes in the recording, not kernel ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TapeId {
    /// Index of the process in the recording, 0 = the first.
    pub process: u32,
    /// Index of the thread in its process, or [`TapeId::SCHEDULE`].
    pub thread: u32,
}

impl TapeId {
    /// `thread` of a process's schedule tape: the order in which its threads held the baton.
    pub const SCHEDULE: u32 = u32::MAX;

    /// The tape of one thread.
    pub const fn new(process: u32, thread: u32) -> Self {
        Self { process, thread }
    }

    /// The schedule tape of a process.
    pub const fn schedule(process: u32) -> Self {
        Self::new(process, Self::SCHEDULE)
    }

    /// Whether this is a schedule tape.
    pub const fn is_schedule(self) -> bool {
        self.thread == Self::SCHEDULE
    }
}

impl fmt::Display for TapeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_schedule() {
            write!(f, "p{}.schedule", self.process)
        } else {
            write!(f, "p{}.t{}", self.process, self.thread)
        }
    }
}

/// One logged non-deterministic outcome and where it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Ticks of the thread when it happened, counted from the thread's beginning.
    /// They may go down (an exec that starts to count anew), at the price of a long encoding.
    pub ticks: u64,
    /// Hash of the thread's registers before the event; 0 = none was taken.
    pub digest: u32,
    /// The outcome.
    pub kind: Kind<'a>,
}

/// Kind of an event, with its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'a> {
    /// First event of every tape.
    Start(Start),
    /// A system call and all its effects on the guest.
    Syscall(Syscall<'a>),
    /// A signal was delivered here.
    Signal(Signal<'a>),
    /// The thread lost the baton here.
    Switch {
        /// Guest instructions executed since the last tick or logged event.
        steps: u32,
    },
    /// A non-deterministic instruction (`rdtsc`, `cpuid`, …).
    Instr {
        /// The instruction; the numbers belong to the translator.
        op: u8,
        /// Its results; entries from `n` on are 0.
        values: [u64; 4],
        /// Number of entries of `values` that count, at most 4.
        n: u8,
    },
    /// A program image begins: an encoded [`crate::Image`].
    Exec(&'a [u8]),
    /// Schedule tapes only: this thread takes the baton.
    Turn {
        /// Index of the thread in its process.
        thread: u32,
    },
    /// Schedule tapes only: this thread takes the baton that processes with shared memory
    /// share, after another process has given it up. Counts as a turn, as [`Kind::Turn`].
    Handover {
        /// Index of the thread in its process.
        thread: u32,
        /// Index of the process that had the baton before.
        process: u32,
        /// The turn of that process that came before: the number of turns on its schedule tape
        /// before that turn's end. `None`: all of them; the process died with the baton.
        turn: Option<u32>,
    },
    /// Schedule tapes only, behind a turn: it also follows this turn of another process, which
    /// has run by itself until then.
    After {
        /// Index of the other process.
        process: u32,
        /// Its turn, as in [`Kind::Handover`]; `None`: the process has ended.
        turn: Option<u32>,
    },
    /// Schedule tapes only, behind a turn: the contents of memory shared between processes then.
    Memory(Writes<'a>),
    /// Clock readings of the thread since the previous event. They come right before the next
    /// event, at the same ticks; or, if `full`, are an event of their own at the reading that the
    /// recorder had no room for, which has not been made.
    Readings {
        /// The thread is about to read once more.
        full: bool,
        /// How many ticks ago the first of the readings was made.
        since: u64,
        /// At least one, unless `full`: all of them may stand before a switch.
        readings: Readings<'a>,
    },
    /// A checksum of guest memory, to find a divergence early.
    Checksum {
        /// The memory that was summed; the meaning belongs to the recorder.
        at: u64,
        /// The sum.
        value: u64,
    },
    /// Of a recording whose threads ran at the same time: when the thread was here. No position of its
    /// own, and no event.
    Moment {
        /// Of its next event; else of the position just behind its last tick.
        event: bool,
        /// Cycles of the processor's time stamp counter since the thread's moment before was over; the
        /// first: since 0.
        since: u64,
        /// Cycles until the event was over.
        took: u64,
    },
    /// Of a recording whose threads ran at the same time: an ordered operation of the thread came after one of
    /// another thread of its process. No position of its own, and no event.
    Edge {
        /// Number of the thread's operation, from 1; it is made behind the tick at which this is said.
        at: u64,
        /// The operation is the thread's next event; else an instruction.
        event: bool,
        /// Index of the other thread in the process.
        thread: u32,
        /// Number of its operation.
        op: u64,
    },
    /// Of a recording whose threads share memory by lines: a place at which the thread has given lines up that
    /// others then had. No position of its own, and no event. A thread numbers its marks, from 1.
    Mark {
        /// It stands in front of its next event; else behind the tick, in front of the instruction at `pc`.
        event: bool,
        /// The instruction; 0 in front of an event.
        pc: u64,
    },
    /// There too: the thread goes on behind a mark of another thread of its process. No position of its own, and no
    /// event.
    Behind {
        /// Its next event is what comes behind; else all that it does behind the tick and its marks before this.
        event: bool,
        /// Index of the other thread in the process.
        thread: u32,
        /// Number of its mark; 0: its end.
        mark: u64,
    },
    /// Last event of a tape.
    End {
        /// How the tape ended.
        how: Ending,
        /// Exit code, or the signal's number.
        code: i32,
        /// Guest instructions executed since the last tick or logged event.
        steps: u32,
    },
}

impl Kind<'_> {
    /// Whether it is an event of the thread, and not told of one that follows or of the time between two.
    #[must_use]
    pub fn is_event(&self) -> bool {
        let notes = matches!(
            self,
            Self::Moment { .. } | Self::Edge { .. } | Self::Mark { .. } | Self::Behind { .. }
        );
        !notes
            && !matches!(
                self,
                Self::Readings { full: false, .. } | Self::Checksum { .. }
            )
    }
}

/// How a thread was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// The way of its creation.
    pub origin: Origin,
    /// The tape of the thread that made it; its own id for [`Origin::Root`].
    pub parent: TapeId,
    /// Kernel thread id while it was recorded.
    pub tid: u32,
    /// Kernel process id while it was recorded.
    pub pid: u32,
}

/// The ways to create a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Origin {
    /// The recorder started it: first thread of the first process.
    Root = 0,
    /// clone(2) with `CLONE_THREAD`.
    Thread = 1,
    /// fork(2): a copy of the parent's memory.
    Fork = 2,
    /// vfork(2) or posix_spawn(3): runs on the parent's memory until exec or exit.
    Vfork = 3,
}

impl Origin {
    pub(crate) const ALL: [Origin; 4] = [Self::Root, Self::Thread, Self::Fork, Self::Vfork];
}

/// How a tape ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Ending {
    /// exit(2) of this thread alone; the code is its exit code.
    ThreadExit = 0,
    /// exit_group(2), by this or another thread; the code is the process's exit code.
    ProcessExit = 1,
    /// The process was killed; the code is the signal's number.
    Killed = 2,
}

impl Ending {
    pub(crate) const ALL: [Ending; 3] = [Self::ThreadExit, Self::ProcessExit, Self::Killed];
}

/// A system call and all its effects on the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syscall<'a> {
    /// Number in the x86-64 table.
    pub nr: u32,
    /// The arguments that the call has.
    pub args: Args,
    /// The kernel's value of `rax`: a result or a negative errno.
    pub result: i64,
    /// The thread lost the baton during the call.
    pub switched: bool,
    /// Global number, where the order between processes shows (output, waits).
    pub order: Option<u64>,
    /// Destination of output: 0 none of interest, 1 standard output, 2 standard error.
    pub stream: u8,
    /// Bytes that the kernel wrote into guest memory.
    pub writes: Writes<'a>,
    /// The rest of these bytes, by reference into the trace's store of input.
    pub refs: Refs<'a>,
    /// Data of the call's own hook.
    pub extra: &'a [u8],
}

/// Arguments of a system call: as many as it has, at most six.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Args {
    n: u8,
    values: [u64; 6],
}

impl Args {
    /// The given arguments.
    ///
    /// # Panics
    /// With more than six.
    pub fn new(args: &[u64]) -> Self {
        assert!(args.len() <= 6, "a system call has at most six arguments");
        let mut values = [0; 6];
        values[..args.len()].copy_from_slice(args);
        Self {
            n: args.len() as u8,
            values,
        }
    }

    /// The arguments in order.
    pub fn as_slice(&self) -> &[u64] {
        &self.values[..usize::from(self.n)]
    }
}

impl fmt::Debug for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// A signal as it was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal<'a> {
    /// Guest instructions executed since the last tick or logged event.
    pub steps: u32,
    /// Its number.
    pub signo: u8,
    /// The `siginfo_t` the guest saw, in the kernel's layout.
    pub siginfo: &'a [u8],
}
