//! The files that a process maps shared while its threads run together, and the question of others who come to one of them:
//! `sharing/processes.rs` has the protocol, and [`super::together`] what a process does that has been asked.
//!
//! Must never let two addresses of a process show memory that it can change while its threads run together: their order is
//! that of addresses.

use std::sync::atomic::Ordering;

use super::Sketch;
use crate::failure::Result;
use crate::ids;
use crate::mode::FileUse;
use crate::sharing::changes::CHANGES;
use crate::sharing::processes::{PROCESSES, ProcessSlot, standing};
use crate::sharing::users::{USERS, no_room};
use crate::task::Task;

impl Sketch {
    /// The task is about to sleep, and does nothing meanwhile that another process could see. Whether it counts: a child in
    /// the memory of a thread is there in that one's place, and who is about to leave for good has no turn to wait for
    /// behind its sleep.
    pub(super) fn falls_asleep(&self, task: &Task) -> bool {
        let counts = task.vforked.is_none() && !task.leaves_for_good();
        if counts {
            self.sleeps_for_good(task);
        }
        counts
    }

    /// A thread has ended, the task's or one that it would have made.
    pub(super) fn sleeps_for_good(&self, task: &Task) {
        if let (None, Some(slot)) = (&task.vforked, self.slot(task.process.index)) {
            slot.falls_asleep();
        }
    }

    /// A thread that the task makes will be awake.
    pub(super) fn will_wake(&self, task: &Task) {
        if let (None, Some(slot)) = (&task.vforked, self.slot(task.process.index)) {
            // The task itself will see that the process has been asked.
            slot.wakes();
        }
    }

    /// The task is back from its sleep in a call. If the process has gone over meanwhile, or has been asked to, it waits for
    /// its turn. `sleeping`: it has been counted as asleep.
    pub(super) fn wakes(&self, task: &mut Task, sleeping: bool) -> Result<()> {
        if self.turns().is_none()
            && sleeping
            && self
                .slot(task.process.index)
                .is_some_and(ProcessSlot::wakes)
        {
            return self.go_over_behind_sleep(task);
        }
        self.takes_over_in_call(task)
    }

    /// Claims a file that a call of the task's is about to map shared. Whether the process is alone with it, and its threads
    /// may go on together: nothing that it could see change shows at two addresses, and no process that has used the file
    /// must come first.
    pub(super) fn uses_alone(&self, task: &Task, used: &FileUse<'_>) -> Result<bool> {
        // A sketch of a program that writes to its maps is exact in turns, and nothing tells that it would be so without.
        if task.vforked.is_some() || used.writes && self.lines.is_none() {
            return Ok(false);
        }
        let file = used.part.file;
        {
            let mut memory = task.machine().memory();
            // If the map comes to nothing, the claim goes with the call.
            memory.space.may_drop(file);
            if memory.space.would_show_twice(used.part, used.writes) {
                return Ok(false);
            }
        }
        let others = self.claim_file(file, task.process.index, used.writes)?;
        Ok(others.is_empty())
    }

    /// Notes that process `process` maps a file shared, and can be asked to take turns. Others that it must come behind, or
    /// ask.
    pub(super) fn claim_file(&self, file: u64, process: u32, writes: bool) -> Result<Vec<u32>> {
        let slot = self.slot(process).ok_or_else(no_room)?;
        // First: a process that finds the claim must not take this one for one that has left the file.
        if slot.is_private() {
            let told = CHANGES.of(&self.shm).told();
            self.heard.store(told, Ordering::Relaxed);
            slot.become_one(standing::ALONE);
        }
        let others = USERS
            .of(&self.shm)
            .claim(PROCESSES.of(&self.shm), file, process, writes);
        CHANGES.of(&self.shm).await_others(file);
        others.ok_or_else(no_room)
    }

    /// Whether another process may see, or change, memory of the process.
    pub(super) fn may_be_seen(&self, process: u32) -> bool {
        self.slot(process).is_some_and(|slot| !slot.is_private())
    }

    /// Another process is about to begin with one thread, which is awake from its beginning on.
    pub(super) fn will_begin(&self, process: u32) {
        if let Some(slot) = self.slot(process) {
            slot.have_woken(1);
        }
    }

    /// The process begins with this thread alone, and has its id in the kernel.
    pub(super) fn begins_alone(&self, process: u32) {
        if let Some(slot) = self.slot(process) {
            slot.pid.store(ids::process(), Ordering::Release);
            slot.have_woken(1);
        }
    }

    /// The process is another program, which maps nothing that others map.
    pub(super) fn begins_program(&self, process: u32) {
        if let Some(slot) = self.slot(process) {
            slot.become_private();
            slot.programs.fetch_add(1, Ordering::AcqRel);
            // In replay too a program begins a turn of its own.
            slot.turns.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The process ends.
    pub(super) fn leaves_files(&self, process: u32) {
        if let Some(slot) = self.slot(process) {
            slot.become_private();
        }
    }
}
