//! Processes that share memory are recorded in turns: before the threads of one that ran together do so, all
//! others come to rest, and the process goes over to the serial mode for good, its later programs and children
//! included. Files that it only reads through maps are noted, so that a process which is about to write one of
//! them finds out.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::call::Call;
use crate::descriptor;
use crate::failure::{Failure, Result};
use crate::ids;
use crate::kernel::mapped::is_settled;
use crate::mode::Order;
use crate::modes::serial::Serial;
use crate::sharing::changes::CHANGES;
use crate::sharing::processes::{PROCESSES, standing};
use crate::sharing::users::USERS;
use crate::task::Task;

use super::Sketch;

/// How long the other threads have to come to a place that their tapes can name, before they are stopped again.
const WAIT: Duration = Duration::from_micros(100);

impl Sketch {
    /// The serial mode of the process, if it has gone over.
    pub(super) fn turns(&self) -> Option<&'static Serial> {
        self.turns.get().copied()
    }

    /// Goes over to turns, inside a call of the task's.
    ///
    /// # Errors
    /// It is in its parent's memory.
    pub(super) fn go_over(&self, task: &mut Task) -> Result<&'static Serial> {
        if task.vforked.is_some() {
            return Err(Failure::unsupported(
                "a process in its parent's memory (vfork) shares memory with others: --mode sketch does not order that; record without it",
            ));
        }
        task.flush_readings()?;
        task.arrived()?;
        let registry = &task.machine().registry;
        loop {
            let quiet = task.quiesce_or_go_over()?;
            if let Some(turns) = self.turns() {
                return Ok(turns);
            }
            let placed = |me: &_| registry.all_placed(me);
            if task.member.as_deref().is_none_or(placed) {
                self.stop_asking(task)?;
                registry.part();
                let turns: &'static Serial =
                    Box::leak(Box::new(Serial::taking_over(self.shm, task)));
                let first = self.turns.set(turns).is_ok();
                assert!(first, "a process goes over once");
                drop(quiet);
                self.can_be_asked(task.process.index);
                turns.takes_over(task);
                return Ok(turns);
            }
            drop(quiet);
            // They go on to places that their tapes can name, and may need the calls' object and lines of this
            // one for that: a child in the memory of a thread executes a program, or ends.
            let has_object = self.shared.withdraw(task);
            self.rests(task, true)?;
            std::thread::sleep(WAIT);
            if let Some(holder) = &task.holder {
                holder.goes_on();
            }
            if has_object {
                self.acquire(task)?;
            }
            if let Some(turns) = self.turns() {
                return Ok(turns);
            }
            self.permit_again(task)?;
        }
    }

    /// The task is back from where it was at rest in a call: if the process has gone over meanwhile, it waits for
    /// its turn.
    pub(super) fn takes_over_in_call(&self, task: &mut Task) -> Result<()> {
        match self.turns() {
            Some(turns) => turns.takes_over_in_call(task),
            None => Ok(()),
        }
    }

    /// Whether a file that the call is about to map for reading is taken to stay as it is: it has been the same for
    /// long. Only where the guess is wrong, a later writer of it is refused.
    pub(super) fn stays(call: &Call) -> bool {
        let mapped = i64::from(call.nr) == libc::SYS_mmap;
        let file = mapped
            .then(|| descriptor::status(call.arg(4) as i32))
            .flatten();
        file.is_some_and(|file| is_settled(file.st_mtime))
    }

    /// Notes that process `process` reads a file through a map, and cannot be asked to take turns. Others that
    /// write it or have changed it, if there are any.
    pub(super) fn note_reader(&self, file: u64, process: u32) -> Result<Vec<u32>> {
        let processes = PROCESSES.of(&self.shm);
        let full = || {
            Failure::unsupported(
                "more shared files and processes that map them than Relive has room for",
            )
        };
        let slot = processes.get(process).ok_or_else(full)?;
        // First: a writer that finds the claim must not take the process for one that has left the file.
        slot.become_one(standing::APART);
        let others = USERS.of(&self.shm).claim(processes, file, process, false);
        CHANGES.of(&self.shm).await_others(file);
        others.ok_or_else(full)
    }

    /// The process answers others from here on.
    fn can_be_asked(&self, process: u32) {
        if let Some(slot) = PROCESSES.of(&self.shm).get(process)
            && slot.is_apart()
        {
            slot.become_one(standing::RUNNING);
        }
    }

    /// The process has this id in the kernel.
    pub(super) fn is_named(&self, process: u32) {
        if let Some(slot) = PROCESSES.of(&self.shm).get(process) {
            slot.pid.store(ids::process(), Ordering::Release);
        }
    }

    /// The process is another program, which maps nothing that others map.
    pub(super) fn begins_program(&self, process: u32) {
        if let Some(slot) = PROCESSES.of(&self.shm).get(process) {
            slot.become_private();
            slot.programs.fetch_add(1, Ordering::AcqRel);
            // In replay too a program begins a turn of its own.
            slot.turns.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The process ends.
    pub(super) fn leaves_files(&self, process: u32) {
        if let Some(slot) = PROCESSES.of(&self.shm).get(process) {
            slot.become_private();
        }
    }
}
