//! The description of a guest thread at a safe point: everything that the kernel and the processor
//! would know of it, and its position. It is plain data that can be written and read back. What the
//! engine itself has of a thread (its tape, its caches, how it waits) must never become part of it.

use relive_host::context::XsaveArea;
use relive_host::segments::Segments;
use serde::{Deserialize, Serialize};

use super::Task;
use crate::forbidden::Forbidden;
use crate::seccomp;
use crate::signals::state::TaskSignals;
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
    pub registers: Registers,
    /// Mask, alternate stack, pending signals, the call that one interrupted.
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
    /// What it may call.
    pub seccomp: Option<seccomp::Mode>,
    /// How many filters for all threads it has looked at.
    pub filters_seen: u32,
}

/// What get_robust_list(2) tells of a thread without a list.
pub const NO_ROBUST_LIST: (u64, u64) = (0, 24);

/// The registers of a guest thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Registers {
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
            registers: Registers::default(),
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

impl Task {
    /// The description of the thread. Signals that the host has noted are pending in it.
    #[must_use]
    pub fn capture(&self) -> TaskState {
        let mut signals = self.signals.clone();
        if self.ctx.pending != 0 {
            let noted = &self.ctx.signals[..self.ctx.noted as usize];
            signals.held.extend(noted);
        }
        TaskState {
            index: self.index,
            slot: self.slot,
            tid: self.tid,
            ticks: self.ctx.ticks(),
            steps: self.steps,
            exact: self.exact,
            parked: self.parked,
            registers: Registers {
                gpr: self.ctx.gpr,
                rflags: self.ctx.rflags,
                rip: self.ctx.rip,
                fs: self.ctx.guest_fs,
                gs: self.ctx.guest_gs,
                segments: self.segments,
                extended: Box::new(self.ctx.vectors()),
            },
            signals,
            clear_tid: self.clear_tid,
            robust: self.robust,
            comm: self.comm,
            trap_flag: self.trap_flag,
            forbidden: self.forbidden,
            seccomp: self.seccomp.clone(),
            filters_seen: self.filters_seen,
        }
    }

    /// Makes the thread the one that is described. At another position than its own it has no ticks
    /// granted.
    pub fn restore(&mut self, state: TaskState) {
        let registers = state.registers;
        (self.index, self.slot, self.tid) = (state.index, state.slot, state.tid);
        (self.steps, self.exact, self.parked) = (state.steps, state.exact, state.parked);
        if self.ctx.ticks() != state.ticks {
            self.ctx.restart_ticks(state.ticks);
        }
        (self.ctx.gpr, self.ctx.rflags, self.ctx.rip) =
            (registers.gpr, registers.rflags, registers.rip);
        (self.ctx.guest_fs, self.ctx.guest_gs) = (registers.fs, registers.gs);
        self.segments = registers.segments;
        *self.ctx.vectors_mut() = *registers.extended;
        (self.ctx.pending, self.ctx.noted) = (0, 0);
        self.signals = state.signals;
        (self.clear_tid, self.robust) = (state.clear_tid, state.robust);
        (self.comm, self.trap_flag) = (state.comm, state.trap_flag);
        self.forbid(state.forbidden);
        (self.seccomp, self.filters_seen) = (state.seccomp, state.filters_seen);
    }
}
