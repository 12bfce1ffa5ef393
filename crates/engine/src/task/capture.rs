//! A thread's description: [`TaskState`] from a task, and a task restored from it.

use relive_dbt::dead_flags_at;
use relive_host::GuestAddr;

use super::Task;
use super::plain_task::{TaskState, ThreadRegisters};
use crate::tape::digest;

impl Task {
    /// The description of the thread. Signals that the host has noted are pending in it.
    #[must_use]
    pub fn capture(&self) -> TaskState {
        let mut state = self.capture_recorded();
        state.signals = self.signals.clone();
        if self.ctx.pending != 0 {
            let noted = &self.ctx.signals[..self.ctx.noted as usize];
            state.signals.held.extend(noted);
        }
        state
    }

    /// The same as a replay has it at this place: signals that were noted, and not delivered yet, are on no tape.
    #[must_use]
    pub fn capture_recorded(&self) -> TaskState {
        TaskState {
            index: self.index,
            slot: self.slot,
            tid: self.tid,
            ticks: self.ctx.ticks(),
            steps: self.steps,
            exact: self.exact,
            parked: self.parked,
            registers: ThreadRegisters {
                gpr: self.ctx.gpr,
                rflags: self.ctx.rflags,
                rip: self.ctx.rip,
                fs: self.ctx.guest_fs,
                gs: self.ctx.guest_gs,
                segments: self.segments,
                extended: Box::new(self.ctx.vectors()),
            },
            signals: self.signals.recorded(),
            clear_tid: self.clear_tid,
            robust: self.robust,
            comm: self.comm,
            trap_flag: self.trap_flag,
            forbidden: self.forbidden,
            seccomp: self.seccomp.clone(),
            filters_seen: self.filters_seen,
        }
    }

    /// The flags that are certainly overwritten before the thread can read them. Not every stop leaves the same ones.
    #[must_use]
    pub fn dead_flags(&self) -> u64 {
        let pc = GuestAddr(self.ctx.rip);
        let mut memory = self.machine().memory();
        let dead = memory.with_code(false, |_, code| dead_flags_at(code, pc));
        dead.unwrap_or_default()
    }

    /// A part of the checksum of a process: which thread it is, and its registers.
    #[must_use]
    pub fn sum(&self) -> u64 {
        let one = u64::from(digest(&self.ctx)) ^ u64::from(self.slot) << 32;
        one.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Makes the thread the described one. If its position changes, no ticks are granted.
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
