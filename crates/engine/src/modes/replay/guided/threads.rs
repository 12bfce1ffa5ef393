//! Threads of the guest as a debugger sees them, and changing their registers in a copy that is thrown
//! away.

use super::drive::Driver;
use crate::guide::protocol::Thread;
use crate::guide::register_set::Registers;
use crate::task::Task;

impl Driver {
    /// All threads, by slot.
    pub fn threads(&self) -> Vec<Thread> {
        let mut all: Vec<Thread> = self.tasks().map(thread).collect();
        all.sort_by_key(|t| t.slot);
        all
    }

    /// See [`Request::DeadFlags`](crate::guide::protocol::Request::DeadFlags).
    pub fn dead_flags(&self) -> Vec<(u32, u64)> {
        let tasks = self.tasks();
        tasks.map(|task| (task.slot, task.dead_flags())).collect()
    }

    /// Registers of a thread.
    pub fn registers(&self, slot: u32) -> Option<Registers> {
        let task = self.tasks().find(|t| t.slot == slot)?;
        let mut area = task.ctx.vectors();
        clean(&mut area);
        Some(Registers {
            gpr: task.ctx.gpr,
            rip: task.ctx.rip,
            rflags: task.ctx.rflags,
            fs_base: task.ctx.guest_fs,
            xsave: area.0.to_vec(),
        })
    }

    /// Sets registers of a thread, where they have values that the processor takes: others would
    /// fault where the host loads them.
    pub fn set_registers(&mut self, slot: u32, bytes: &[u8]) -> bool {
        /// Flags that a debugger may set: arithmetic ones and DF.
        const FLAGS: u64 = 0xcd5;
        let Some(new) = Registers::from_bytes(bytes) else {
            return false;
        };
        if new.fs_base >= relive_host::layout::FS_END {
            return false;
        }
        let Some(task) = self.task_mut(slot) else {
            return false;
        };
        task.ctx.gpr = new.gpr;
        task.ctx.rip = new.rip;
        task.ctx.rflags = task.ctx.rflags & !FLAGS | new.rflags & FLAGS;
        task.ctx.guest_fs = new.fs_base;
        let supported = relive_host::cpu::xcr0() & relive_host::cpu::XSAVE_MASK;
        let area = task.ctx.vectors_mut();
        area.0.copy_from_slice(&new.xsave);
        area.drop_reserved_mxcsr();
        area.set_xstate_bv(area.xstate_bv() & supported);
        true
    }
}

fn thread(task: &Task) -> Thread {
    Thread {
        slot: task.slot,
        index: task.index,
        tid: task.tid,
        name: String::from_utf8_lossy(&task.name()).into_owned(),
        pc: task.ctx.rip,
    }
}

/// Makes components that are in their initial state look so (the processor leaves their bytes
/// as they were): Intel SDM vol. 1, 13.6.
fn clean(area: &mut relive_host::context::XsaveArea) {
    const LEGACY: [(usize, std::ops::Range<usize>); 3] = [(0, 0..24), (0, 32..160), (1, 160..416)];
    let extended = relive_host::cpu::xsave_layout().ranges;
    let extended = extended.into_iter().enumerate().skip(2);
    let extended = extended.map(|(n, (from, to))| (n, from..to));
    let bv = area.xstate_bv();
    for (n, range) in LEGACY.into_iter().chain(extended) {
        if bv >> n & 1 == 0 {
            area.0[range].fill(0);
        }
    }
    if bv & 1 == 0 {
        area.0[..2].copy_from_slice(&0x37f_u16.to_le_bytes());
    }
}
