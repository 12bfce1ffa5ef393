//! Why translated code stopped, and the errors of the translator.

use relive_host::GuestAddr;

use crate::defect::Defect;
use crate::instr_op::InstrOp;

/// The next step after an exit from the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Set `ctx.entry` to this cache address and enter again.
    Enter(u64),
    /// The engine has to act. The guest's state in the context is complete and exact.
    Stop(Stop),
}

/// The trap that an instruction raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrapKind {
    /// `int3`: SIGTRAP with the pc behind the instruction.
    Int3,
    /// `int1`: SIGTRAP with the pc behind the instruction.
    Int1,
    /// `int 4`: the overflow exception, with the pc behind the instruction.
    Overflow,
    /// `int 0x80`, the entry of a kernel for 32-bit programs: as on a kernel without it, a general
    /// protection fault at the instruction.
    Gate,
    /// The trap flag: SIGTRAP behind an instruction. The translator never reports it; the engine
    /// does, for a thread that steps itself.
    Step,
    /// `ud0`, `ud1`, `ud2` or an undefined opcode: SIGILL at the instruction.
    Undefined,
}

/// Why guest code stopped. `ctx.rip` is the `pc` given here (for [`Stop::Pause`] `next`);
/// [`crate::Translator::entry`] of it continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// At a `syscall` instruction, not yet executed: rcx and r11 still are the guest's.
    Syscall {
        /// The instruction.
        pc: GuestAddr,
        /// The one behind it.
        next: GuestAddr,
    },
    /// At an instruction whose result the engine provides, see [`InstrOp::apply`].
    Instr {
        /// The operation.
        op: InstrOp,
        /// The instruction.
        pc: GuestAddr,
        /// The one behind it.
        next: GuestAddr,
    },
    /// Behind a `pause`, its tick counted.
    Pause {
        /// The address to go on at.
        next: GuestAddr,
    },
    /// The tick budget is used up. (A `pause` that uses it up stops with this as well.)
    Budget {
        /// The address to go on at: the branch target of the tick site.
        pc: GuestAddr,
    },
    /// One instruction has been executed, see [`crate::Translator::step_entry`].
    Stepped {
        /// The address to go on at.
        pc: GuestAddr,
    },
    /// At an instruction with a breakpoint (see [`crate::Translator::set_breakpoints`]), not
    /// yet executed. Single steps pass breakpoints.
    Breakpoint {
        /// The instruction.
        pc: GuestAddr,
    },
    /// At an instruction that may touch watched memory (see
    /// [`crate::Translator::set_watched`]), not yet executed. Single steps pass it.
    Watch {
        /// The instruction.
        pc: GuestAddr,
    },
    /// At an ordered instruction in front of which the thread is to wait
    /// ([`crate::Ordered::Wait`]), not yet executed.
    Ordered {
        /// The instruction.
        pc: GuestAddr,
    },
    /// At an instruction that accesses lines of memory which the thread has to ask for first
    /// ([`crate::Translator::set_permissions`]), not yet executed. Single steps pass it.
    Permission {
        /// The instruction.
        pc: GuestAddr,
    },
    /// A guest instruction faulted: signal information is in `ctx.fault`; its addresses of code
    /// (for SIGILL, SIGFPE, SIGTRAP) lie in the cache and have to be replaced by `pc`.
    Fault {
        /// The faulting instruction.
        pc: GuestAddr,
    },
    /// An instruction that always traps.
    Trap {
        /// The instruction.
        pc: GuestAddr,
        /// The one behind it (for [`TrapKind::Undefined`] of undecodable bytes: `pc`).
        next: GuestAddr,
        /// The trap.
        kind: TrapKind,
    },
    /// An instruction that cannot be recorded.
    Unsupported {
        /// The instruction.
        pc: GuestAddr,
        /// Its name.
        what: &'static str,
    },
    /// The instruction at `pc` lies, partly at least, where no executable memory is.
    NoCode {
        /// The instruction.
        pc: GuestAddr,
        /// The first byte that could not be fetched; SIGSEGV reports it.
        addr: GuestAddr,
    },
    /// A branch to a non-canonical address: a general protection fault at the branch (SIGSEGV,
    /// address 0), which has changed nothing.
    BadTarget {
        /// The branch instruction.
        pc: GuestAddr,
        /// The target.
        target: u64,
    },
    /// The code cache has no room left, or much that is out of use: to go on after
    /// [`crate::Translator::reclaim`], for which no thread may be in it.
    CacheFull {
        /// The address to go on at.
        pc: GuestAddr,
    },
    /// The kernel has refused the translator a change of its own memory: no guest code may run any more.
    Refused(Error),
    /// A broken invariant of the translator.
    Internal(Defect),
}

/// Why there is no translation for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// See [`Stop::NoCode`].
    #[error("no executable memory at {addr} for the instruction at {pc}")]
    NoCode {
        /// The instruction.
        pc: GuestAddr,
        /// The first byte that could not be fetched.
        addr: GuestAddr,
    },
    /// See [`Stop::CacheFull`].
    #[error("the code cache is full (at {pc})")]
    CacheFull {
        /// The instruction to translate.
        pc: GuestAddr,
    },
    /// See [`Stop::Refused`].
    #[error("{0}")]
    Refused(#[from] Error),
}

impl From<Bad> for Stop {
    fn from(bad: Bad) -> Self {
        match bad {
            Bad::NoCode { pc, addr } => Self::NoCode { pc, addr },
            Bad::CacheFull { pc } => Self::CacheFull { pc },
            Bad::Refused(error) => Self::Refused(error),
        }
    }
}

/// Why the translator could not get its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A system call of the translator's own failed.
    #[error("{what}: errno {errno}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The kernel's error number.
        errno: i32,
    },
}

impl Error {
    /// Turns a raw system call result into one.
    pub(crate) fn check(what: &'static str, ret: isize) -> Result<u64, Self> {
        if ret < 0 {
            Err(Self::System {
                what,
                errno: -ret as i32,
            })
        } else {
            Ok(ret as u64)
        }
    }
}
