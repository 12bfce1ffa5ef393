//! Processes that share memory with others are recorded in turns: before the threads of one that ran together do so, all
//! others come to rest, and the process goes over to the serial mode for good, its later programs and children
//! included. One that maps shared files alone does not, as long as nobody asks it to (`sharing/processes.rs`): another
//! process that is about to map the file too, or to change it. A thread that is awake answers by going over, at a safe
//! point or behind its sleep; one that has been answered for waits for its turn before it goes on.
//!
//! Must never be done while a thread is where its tape cannot name the place: its part of the schedule would begin elsewhere.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::failure::{Failure, Result};
use crate::mode::Order;
use crate::modes::serial::Serial;
use crate::sharing::processes::{PROCESSES, ProcessSlot};
use crate::task::Task;

use super::Sketch;

/// How long the other threads have to come to a place that their tapes can name, before they are stopped again.
const WAIT: Duration = Duration::from_micros(100);

impl Sketch {
    /// The serial mode of the process, if it has gone over.
    pub(super) fn turns(&self) -> Option<&'static Serial> {
        self.turns.get().copied()
    }

    pub(super) fn slot(&self, process: u32) -> Option<&ProcessSlot> {
        PROCESSES.of(&self.shm).get(process)
    }

    /// Goes over to turns, inside a call of the task's of which nothing is done yet: it has the first turn.
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
        loop {
            let quiet = task.quiesce_or_go_over()?;
            if let Some(turns) = self.turns() {
                return Ok(turns);
            }
            if let Some(turns) = self.part(task, || Serial::taking_over(self.shm, task))? {
                if let Some(slot) = self.slot(task.process.index) {
                    slot.have_woken(1);
                }
                drop(quiet);
                turns.takes_over(task);
                return Ok(turns);
            }
            drop(quiet);
            // They may need the calls' object and lines of this one: a child in the memory of a thread executes a
            // program, or ends.
            let has_object = self.shared.withdraw(task);
            self.lets_others_on(task, true)?;
            if has_object {
                self.acquire(task)?;
            }
            if let Some(turns) = self.turns() {
                return Ok(turns);
            }
            self.permit_again(task)?;
        }
    }

    /// Others go on, to places that their tapes can name.
    fn lets_others_on(&self, task: &mut Task, event: bool) -> Result<()> {
        self.rests(task, event)?;
        std::thread::sleep(WAIT);
        if let Some(holder) = &task.holder {
            holder.goes_on();
        }
        Ok(())
    }

    /// All others are at rest: from here on threads have turns, in the mode that `turns` makes. `None`: one of them rests
    /// where its tape cannot name the place.
    fn part(&self, task: &Task, turns: impl FnOnce() -> Serial) -> Result<Option<&'static Serial>> {
        let registry = &task.machine().registry;
        let placed = |me: &_| registry.all_placed(me);
        if !task.member.as_deref().is_none_or(placed) {
            return Ok(None);
        }
        self.stop_asking(task)?;
        registry.part();
        let turns: &'static Serial = Box::leak(Box::new(turns()));
        turns.has_heard(self.heard.load(Ordering::Relaxed));
        let first = self.turns.set(turns).is_ok();
        assert!(first, "a process goes over once");
        tracing::debug!(
            target: "sched",
            "process {} goes over to turns, by thread {} in front of {:#x}",
            task.process.index,
            task.slot,
            task.ctx.rip
        );
        Ok(Some(turns))
    }

    /// Whether another process waits until this one has gone over, and the task may see to that.
    pub(super) fn is_asked(&self, task: &Task) -> bool {
        task.exact
            && task.vforked.is_none()
            && self
                .slot(task.process.index)
                .is_some_and(ProcessSlot::is_to_join)
    }

    /// Goes over to turns at a safe point of the task's, because the process has been asked, if that can be done now; it
    /// has its turn then.
    ///
    /// # Errors
    /// The turn is lost.
    pub(super) fn go_over_when_asked(&self, task: &mut Task) -> Result<()> {
        task.flush_readings()?;
        let quiet = task.quiesce_at_safe_point()?;
        if self.turns().is_some() {
            return Ok(());
        }
        let turns = self.part_when_asked(task)?;
        drop(quiet);
        match turns {
            Some(turns) => turns.takes_over_rested(task),
            None => self.lets_others_on(task, false),
        }
    }

    /// The same in a call, in which the task has slept.
    pub(super) fn go_over_behind_sleep(&self, task: &mut Task) -> Result<()> {
        loop {
            let quiet = task.quiesce_or_go_over()?;
            if self.turns().is_some() {
                return Ok(());
            }
            let turns = self.part_when_asked(task)?;
            drop(quiet);
            if let Some(turns) = turns {
                return turns.takes_over_in_call(task);
            }
            self.lets_others_on(task, true)?;
        }
    }

    fn part_when_asked(&self, task: &Task) -> Result<Option<&'static Serial>> {
        let process = task.process.index;
        let turns = self.part(task, || Serial::when_asked(self.shm, process))?;
        if let (Some(_), Some(slot)) = (turns, self.slot(process)) {
            slot.answer();
        }
        Ok(turns)
    }

    /// The task is back from where it was at rest in a call: if the process has gone over meanwhile, it waits for
    /// its turn.
    pub(super) fn takes_over_in_call(&self, task: &mut Task) -> Result<()> {
        match self.turns() {
            Some(turns) => turns.takes_over_in_call(task),
            None => Ok(()),
        }
    }
}
