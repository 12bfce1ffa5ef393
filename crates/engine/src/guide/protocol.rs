//! The messages between a timeline and its replaying processes: orders and questions, and answers
//! ([`super::framing`] sends them). Must never be anything but plain data.

use serde::{Deserialize, Serialize};

use super::point::Point;
use super::races::{RaceHints, Races};
use super::trials::{Trial, TrialOrder};
use crate::failure::Failure;
use crate::memory::page_list::PageRange;

/// The accesses that a watchpoint reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Watching {
    /// Writes.
    Writes,
    /// Reads.
    Reads,
    /// Both.
    Both,
}

/// A watched range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Watchpoint {
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Which accesses count.
    pub kind: Watching,
}

/// Where a replay stops by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopSet {
    /// Guest addresses of instructions.
    pub breakpoints: Vec<u64>,
    /// Of these breakpoints, conditions of which one must hold: agent expressions of gdb.
    pub conditions: Vec<(u64, Vec<Vec<u8>>)>,
    /// Watched memory.
    pub watchpoints: Vec<Watchpoint>,
    /// Signals and faults, before they are delivered.
    pub signals: bool,
    /// System calls of these numbers, of all numbers if there is none: before they are made
    /// and when they have returned.
    pub calls: Option<Vec<u32>>,
    /// A new program in the process.
    pub execs: bool,
    /// A child process.
    pub forks: bool,
}

/// The action at a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AtStop {
    /// Stop there: at a breakpoint before its instruction, at a watchpoint behind the access.
    Stop,
    /// Go on, and tell which was the last.
    Last,
}

/// How to go on.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RunRequest {
    /// Not beyond this position.
    pub until: Option<Point>,
    /// The call that returns at that position is on the way.
    pub with_end: bool,
    /// Until the thread of this slot has executed so many instructions.
    pub step: Option<(u32, u64)>,
    /// The action at stops.
    pub search: AtStop,
    /// The breakpoint at the present position has been reported already.
    pub leave: bool,
    /// Not much beyond this amount of work, see [`ReplayStatus::work`].
    pub work: Option<u64>,
    /// Bring along the bytes that the guest writes to its standard streams, with the answer, see
    /// [`Output`].
    pub output: bool,
    /// Rather miss accesses to watched memory, and say so ([`Ran::blind`]), than check each one.
    pub fast: bool,
}

impl RunRequest {
    /// Forward to the end, past all stops, and quietly.
    #[must_use]
    pub fn to_the_end() -> Self {
        Self {
            until: None,
            with_end: false,
            step: None,
            search: AtStop::Last,
            leave: false,
            work: None,
            output: false,
            fast: false,
        }
    }
}

/// The writes of a guest to its standard streams, in order: for each the number of the
/// stream (one byte), the length (four bytes, little endian), the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output(pub Vec<u8>);

impl Output {
    /// Adds one write.
    pub fn push(&mut self, stream: u8, bytes: &[u8]) {
        self.0.push(stream);
        self.0.extend((bytes.len() as u32).to_le_bytes());
        self.0.extend(bytes);
    }

    /// All writes: stream and bytes. Bytes of another form end the list.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (head, behind) = rest.split_first_chunk::<5>()?;
            let [stream, a, b, c, d] = *head;
            let len = u32::from_le_bytes([a, b, c, d]) as usize;
            let bytes = behind.get(..len)?;
            rest = &behind[len..];
            Some((stream, bytes))
        })
    }
}

/// A question or an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Make a copy that takes its orders from the socket that comes with this.
    Fork,
    /// Go to where the process begins that is replayed.
    Begin,
    /// Set where to stop.
    Stops(StopSet),
    /// Write the guest's output to standard output and error from now on.
    Output,
    /// Go on.
    Run(RunRequest),
    /// Where are we?
    Status,
    /// Which threads are there?
    Threads,
    /// Of each thread the flags that are certainly overwritten before it can read them.
    DeadFlags,
    /// Registers of the thread of a slot, as bytes.
    Registers(u32),
    /// Set them. Only in a copy that will be thrown away.
    SetRegisters(u32),
    /// Guest memory: address, length.
    Read(u64, u64),
    /// Write the bytes that come with this. Only in a copy that will be thrown away.
    Write(u64),
    /// The memory map.
    Maps,
    /// A sum over guest memory and the registers of all threads.
    Checksum,
    /// How many events have been compared with the recording?
    Compared,
    /// Run the thread of this slot away from the recording, up to a breakpoint or signal.
    InferiorCall {
        /// Its slot.
        slot: u32,
        /// One instruction only.
        step: bool,
    },
    /// The past of one thread.
    Past(u32),
    /// The `siginfo_t` of the signal that is about to be delivered, as the answer's bytes. Of a copy, which cannot go on.
    SigInfo,
    /// The path of the program that runs, as the answer's bytes.
    Program,
    /// Look for races from here on, with hints about the program.
    LookForRaces(RaceHints),
    /// An order of a search for the turns of threads.
    Trial(TrialOrder),
    /// Look for orders of accesses from here on.
    LookForOrders,
    /// Go on looking, for a while.
    Races,
    /// The state of the process, as bytes.
    Image,
    /// The content of a part of memory: its start and its end.
    Content(u64, u64),
}

/// Stands for a system call where another process has written, between two turns.
pub const OTHERS: u32 = u32::MAX - 1;

/// The event that stopped a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopEvent {
    /// A breakpoint at this address.
    Breakpoint(u64),
    /// An access to watched memory.
    Watchpoint {
        /// The watchpoint.
        watch: Watchpoint,
        /// Address of the access.
        addr: u64,
        /// The system call that wrote, if it was none of the thread's own instructions;
        /// `u32::MAX` for a signal's frame and the like, [`OTHERS`] for another process.
        call: Option<u32>,
    },
    /// A signal is about to be delivered.
    Signal(i32),
    /// The system call of this number is about to be made.
    Call(u32),
    /// It has returned.
    Returned(u32),
    /// A new program has begun (going backwards: is about to).
    Exec,
    /// A child process has been made (going backwards: is about to).
    Fork {
        /// Its recorded process id.
        pid: u32,
        /// It runs on its parent's memory until it ends or runs a program (vfork(2)).
        vfork: bool,
    },
}

/// A stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// The event.
    pub what: StopEvent,
    /// The position right before it.
    pub before: Point,
    /// Slot of the thread.
    pub slot: u32,
    /// Its pc there.
    pub pc: u64,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// With this exit code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
    /// The recording ends here.
    CutOff,
}

/// Where a replay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayStatus {
    /// The position.
    pub point: Point,
    /// Slot of the thread whose turn it is.
    pub slot: u32,
    /// Its index in the recording.
    pub thread: u32,
    /// Its recorded thread id.
    pub tid: u32,
    /// Index of the process.
    pub process: u32,
    /// Its recorded process id.
    pub pid: u32,
    /// The thread's pc.
    pub pc: u64,
    /// How much has been executed since the start: ticks of all threads, and some for every
    /// event. A measure of time for the choice of snapshots.
    pub work: u64,
    /// How the process ended, if it has.
    pub ended: Option<Ended>,
}

/// The past of a thread, for going back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// Whether it is this thread's turn.
    pub running: bool,
    /// Its ticks when the present stretch (between events and turns) began.
    pub base: u64,
    /// Right before the event that the present stretch began with, if that event was this
    /// thread's in the present turn.
    pub began: Option<Point>,
    /// Right before the thread last gave its turn away.
    pub left: Option<Point>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its slot: its identity on the timeline.
    pub slot: u32,
    /// Its index in the recording.
    pub index: u32,
    /// Its recorded id.
    pub tid: u32,
    /// Its name (prctl(2), PR_SET_NAME).
    pub name: String,
    /// Its pc.
    pub pc: u64,
}

/// One region of guest memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapLine {
    /// First address.
    pub start: u64,
    /// Behind the last one.
    pub end: u64,
    /// Protection bits of mmap(2).
    pub prot: u32,
    /// Offset in the file.
    pub offset: u64,
    /// Path or other name, may be empty.
    pub name: String,
}

/// Why a run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// It is where it was to go.
    Until,
    /// It went past that: the position does not exist.
    Passed,
    /// The steps are done.
    Stepped,
    /// A stop.
    Hit(Hit),
    /// So much work was done.
    Work,
    /// A message came.
    Interrupted,
    /// The process has ended.
    Ended,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// Why it stopped.
    pub why: StopReason,
    /// The last stop seen.
    pub last: Option<Hit>,
    /// Where it is now.
    pub status: ReplayStatus,
    /// There may have been more accesses to watched memory.
    pub blind: bool,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Response {
    /// Done, or the bytes that come with this.
    Done,
    /// The copy's process id.
    Forked(i32),
    /// Of a run.
    Ran(Box<Ran>),
    /// Of [`Request::Status`] and [`Request::Begin`].
    Status(ReplayStatus),
    /// Of [`Request::Threads`].
    Threads(Vec<Thread>),
    /// Slot of each thread, and bits of its RFLAGS.
    DeadFlags(Vec<(u32, u64)>),
    /// Of [`Request::Maps`].
    Maps(Vec<MapLine>),
    /// Of [`Request::Checksum`].
    Checksum(u64),
    /// Of [`Request::Compared`].
    Compared(u64),
    /// Of [`Request::Past`].
    Past(Past),
    /// Of [`Request::Races`].
    Races(Races),
    /// Of [`Request::Trial`].
    Trial(Box<Trial>),
    /// Of [`Request::Image`]: the parts of memory that belong to it.
    Pages(Vec<PageRange>),
    /// The guest has no such memory or thread, or there is no image of such a place.
    Absent,
    /// The replay cannot go on, and why.
    Failed(Failure),
}
