//! An exit of the code cache: each has a number, a stub that stores the number, and a record of its
//! meaning. Numbers are indices here; those of a forgotten unit are used again.

use bytemuck::{Pod, Zeroable};

use crate::entry::Entry;

/// The meaning of an exit; `pc` is the record's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum ExitKind {
    /// A table slot at an even address has its default value.
    MissEven,
    /// A table slot at an odd address has its default value.
    MissOdd,
    /// A direct branch to `pc` that is not a tick site.
    Link,
    /// A direct branch to `pc` that is a tick site.
    LinkTicked,
    /// A paired call of `pc`, a tick site (see `mangle/pairs.rs`).
    LinkCalled,
    /// The budget ran out on the way to `pc`. It has a description, and no record.
    Budget,
    /// The jump landing of `pc` was reached with another target in rcx.
    JumpMismatch,
    /// The return landing of `pc` was reached with another target in rcx.
    ReturnMismatch,
    Syscall,
    /// `aux`: index of the operation.
    Instr,
    /// `pc`: behind the instruction. It has a description; for single-stepping a record.
    Pause,
    Int3,
    /// `aux`: the vector, if it is another software interrupt (`int 4`, `int 0x80`), or 0.
    Int1,
    Undefined,
    /// `aux`: index of the name.
    Unsupported,
    /// The instruction at `pc` has just stored an x87 instruction pointer.
    Fip,
    /// The instruction at `pc` is one of the XSAVE family, and the host does it; `aux` and `site`
    /// describe it (`xsave::describe`) or are 0. A jump over the instruction itself follows this
    /// exit: the instruction is executed where it faults.
    Xsave,
    /// A breakpoint is set on the instruction at `pc`, which has not been executed.
    Breakpoint,
    /// The instruction at `pc` may be about to touch watched memory.
    Watch,
    /// The ordered instruction at `pc` has to wait for other threads.
    Ordered,
    /// The instruction at `pc` accesses memory that the thread has to ask for.
    Permission,
    /// A single step arrived at `pc`.
    Step,
    /// A single step arrived at `pc` by way of a tick site.
    StepTicked,
    /// A single step over an indirect jump or call: rcx is the target.
    StepJump,
    /// A single step over a return: rcx is the target.
    StepReturn,
    /// A jump or call through the hashed table has found no landing, or that of another target.
    HashedJump,
    /// The same for a return.
    HashedReturn,
    /// A paired return has reached a landing that is not its return address.
    ReturnLost,
    /// Not a way out, but the record of a branch through the hashed table: the branch at `pc`.
    Site,
}

impl ExitKind {
    /// All kinds, by their number.
    pub(crate) const ALL: [Self; 29] = [
        Self::MissEven,
        Self::MissOdd,
        Self::Link,
        Self::LinkTicked,
        Self::LinkCalled,
        Self::Budget,
        Self::JumpMismatch,
        Self::ReturnMismatch,
        Self::Syscall,
        Self::Instr,
        Self::Pause,
        Self::Int3,
        Self::Int1,
        Self::Undefined,
        Self::Unsupported,
        Self::Fip,
        Self::Xsave,
        Self::Breakpoint,
        Self::Watch,
        Self::Ordered,
        Self::Permission,
        Self::Step,
        Self::StepTicked,
        Self::StepJump,
        Self::StepReturn,
        Self::HashedJump,
        Self::HashedReturn,
        Self::ReturnLost,
        Self::Site,
    ];

    /// The kind of entry that a linkable exit leads to.
    pub(crate) fn entry(self) -> Option<Entry> {
        match self {
            Self::Link => Some(Entry::Plain),
            Self::LinkTicked => Some(Entry::Ticked),
            Self::LinkCalled => Some(Entry::Called),
            _ => None,
        }
    }
}

/// No fragment, no exit.
pub(crate) const NONE: u32 = u32::MAX;

/// The data of one exit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    pub(crate) kind: ExitKind,
    /// Length of the instruction.
    pub(crate) len: u8,
    /// Ticks of later rounds that have been counted already: see [`crate::marks::Mark::ahead`].
    pub(crate) ahead: u8,
    /// Guest address, see [`ExitKind`].
    pub(crate) pc: u64,
    pub(crate) aux: u32,
    /// The fragment that the exit leaves.
    pub(crate) frag: u32,
    /// Cache address of the branch's displacement, for links.
    pub(crate) site: u32,
    /// Cache address of the stub.
    pub(crate) stub: u32,
}

impl Exit {
    pub(crate) fn new(kind: ExitKind, frag: u32, pc: u64) -> Self {
        Self {
            kind,
            len: 0,
            ahead: 0,
            pc,
            aux: 0,
            frag,
            site: 0,
            stub: 0,
        }
    }
}

/// An exit as it is kept, in memory and in files.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ExitRecord {
    pub(crate) pc: u64,
    aux: u32,
    pub(crate) frag: u32,
    pub(crate) site: u32,
    pub(crate) stub: u32,
    /// The next exit linked to the same fragment, [`NONE`] if it is the last one, [`UNLINKED`] if
    /// its branch goes to its own stub.
    pub(crate) next_incoming: u32,
    zero: u8,
    ahead: u8,
    kind: u8,
    len: u8,
}

/// Not in the chain of any fragment.
pub(crate) const UNLINKED: u32 = NONE - 1;

impl ExitRecord {
    pub(crate) fn of(exit: &Exit) -> Self {
        Self {
            pc: exit.pc,
            aux: exit.aux,
            frag: exit.frag,
            site: exit.site,
            stub: exit.stub,
            next_incoming: UNLINKED,
            zero: 0,
            ahead: exit.ahead,
            kind: exit.kind as u8,
            len: exit.len,
        }
    }

    /// The record of no exit.
    pub(crate) fn none() -> Self {
        Self::of(&Exit::new(ExitKind::Site, NONE, 0))
    }

    /// `None` if the record is not valid: a file may contain anything.
    pub(crate) fn exit(&self) -> Option<Exit> {
        Some(Exit {
            kind: self.kind()?,
            len: self.len,
            ahead: self.ahead,
            pc: self.pc,
            aux: self.aux,
            frag: self.frag,
            site: self.site,
            stub: self.stub,
        })
    }

    pub(crate) fn kind(&self) -> Option<ExitKind> {
        ExitKind::ALL.get(usize::from(self.kind)).copied()
    }

    pub(crate) fn linked(&self) -> bool {
        self.next_incoming != UNLINKED
    }
}
