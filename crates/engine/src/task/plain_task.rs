//! The description of a guest thread at a safe point: all state that the kernel and the processor
//! would have of it, and its position. It is plain data that can be written and read back. The
//! engine's own state of a thread (its tape, its caches, its waits) must never become part of it.

use relive_host::context::XsaveArea;
use relive_host::segments::Segments;
use serde::{Deserialize, Serialize};

use crate::forbidden::Forbidden;
use crate::seccomp::filter::Confined;
use crate::task::signal_state::TaskSignals;
use crate::trap_flag::TrapFlag;

/// A guest thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskState {
    /// Its index in the process.
    pub index: u32,
    /// Its identity for the baton and the schedule.
    pub slot: u32,
    /// Its kernel thread id.
    pub tid: u32,
    /// Ticks so far.
    pub ticks: u64,
    /// Instructions since the last tick or logged event.
    pub steps: u32,
    /// Whether `steps` is known.
    pub exact: bool,
    /// It gave up the baton inside the call that it stands at.
    pub parked: bool,
    /// Its registers.
    pub registers: ThreadRegisters,
    /// Mask, alternate stack, pending signals, the call that a signal interrupted.
    pub signals: TaskSignals,
    /// The word to clear and wake when it ends.
    pub clear_tid: u64,
    /// Head and length of its robust list.
    pub robust: (u64, u64),
    /// Its name, filled up with zeros.
    pub comm: [u8; 16],
    /// Whether it steps itself.
    pub trap_flag: TrapFlag,
    /// Instructions that it may not execute.
    pub forbidden: Forbidden,
    /// The calls that it may make, if it is confined.
    pub seccomp: Option<Confined>,
    /// The number of filters for all threads that it has examined.
    pub filters_seen: u32,
}

/// The answer of get_robust_list(2) for a thread without a list.
pub const NO_ROBUST_LIST: (u64, u64) = (0, 24);

/// The registers of a guest thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadRegisters {
    /// General registers in encoding order.
    pub gpr: [u64; 16],
    /// RFLAGS.
    pub rflags: u64,
    /// Program counter.
    pub rip: u64,
    /// FS base.
    pub fs: u64,
    /// GS base.
    pub gs: u64,
    /// DS and ES.
    pub segments: Segments,
    /// x87 and vector registers.
    pub extended: Box<XsaveArea>,
}

impl TaskState {
    /// A thread of which nothing is known but its ids.
    #[must_use]
    pub fn new(index: u32, tid: u32) -> Self {
        Self {
            index,
            slot: index,
            tid,
            ticks: 0,
            steps: 0,
            exact: true,
            parked: false,
            registers: ThreadRegisters::default(),
            signals: TaskSignals::default(),
            clear_tid: 0,
            robust: NO_ROBUST_LIST,
            comm: [0; 16],
            trap_flag: TrapFlag::Off,
            forbidden: Forbidden::default(),
            seccomp: None,
            filters_seen: 0,
        }
    }
}

/// The name of a thread as the kernel keeps it: cut to 15 bytes, filled up with zeros.
#[must_use]
pub fn comm(name: &[u8]) -> [u8; 16] {
    let mut comm = [0; 16];
    let n = name.len().min(15);
    comm[..n].copy_from_slice(&name[..n]);
    comm
}
