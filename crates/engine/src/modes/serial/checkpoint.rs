//! Checkpoints of a recorded process: at a safe point of the thread that holds the baton the process is forked, and the
//! copy, which is no process of the guest's, writes itself down as a session image ([`crate::modes::checkpoints::copy_of_itself`]). The
//! guest is held up for the fork alone. Must never be made where the descriptions of threads, process and memory do not
//! tell all.

use std::time::{Duration, Instant};

use relive_trace::Kind;

use super::Serial;
use crate::failure::Result;
use crate::image_stream::{CHECKPOINTS, TreeState};
use crate::modes::checkpoints;
use crate::modes::checkpoints::checkpointing::Checkpointing;
use crate::modes::checkpoints::copy_of_itself::{self, CopyPlan, PlannedCopy, tape_of};
use crate::modes::checkpoints::resting::RestingPlace;
use crate::sharing::processes::PROCESSES;
use crate::task::Task;

impl Serial {
    /// Notes that the task gives the baton away, where that matters.
    pub(super) fn rests(&self, task: &mut Task, place: RestingPlace) {
        if let Some(checkpoints) = &self.checkpoints {
            // Another thread cannot read those that are in this one's processor.
            task.store_registers();
            checkpoints.progress().leaves(self.shm, task, place);
            checkpoints.resting.rests(task, place);
        }
    }

    /// It has it back.
    pub(super) fn goes_on(&self, task: &Task) {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.resting.goes_on(task);
        }
    }

    /// Makes a checkpoint, if one is wanted and can be made here.
    ///
    /// # Errors
    /// A note on the tape is lost.
    pub(super) fn make_checkpoint(&self, task: &mut Task) -> Result<()> {
        let Some(own) = &self.checkpoints else {
            return Ok(());
        };
        let wanted = CHECKPOINTS.of(&self.shm).wanted();
        let settled = task.is_at_tick_or_event();
        if !own.lacks(wanted) || !settled || !self.is_describable(task, own) {
            return Ok(());
        }
        let Some(copy) = checkpoints::plan_copy(self.shm, task, own, wanted, self.others_write())
        else {
            return Ok(());
        };
        // The thread gives its turn to itself: so readings of clocks are on its tape, and the position has a name.
        task.record(Kind::Switch { steps: 0 })?;
        own.progress()
            .leaves(self.shm, task, RestingPlace::Switch(0));
        self.turn(task, None)?;
        let pause = self.copy_process(task, own, copy, false);
        own.held_up(self.shm, pause, true);
        Ok(())
    }

    /// The same of a thread that is about to sleep in a call, where copies sleep until they are wanted: it may be long
    /// before its process comes to a safe point again. A recording that began before it made its children would have to
    /// have all of them, and one that begins before its own birth all of it: so then it makes a copy unasked.
    ///
    /// # Errors
    /// A note on the tape is lost.
    pub(super) fn make_checkpoint_before_sleep(&self, task: &mut Task) -> Result<()> {
        let Some(own) = &self.checkpoints else {
            return Ok(());
        };
        let Some(wanted) = own.wanted_before_sleep(self.shm) else {
            return Ok(());
        };
        if !self.is_describable(task, own) {
            return Ok(());
        }
        let asked = own.lacks(wanted);
        let Some(copy) = checkpoints::plan_copy(self.shm, task, own, wanted, self.others_write())
        else {
            return Ok(());
        };
        task.flush_readings()?;
        let pause = self.copy_process(task, own, copy, true);
        own.held_up(self.shm, pause, asked);
        Ok(())
    }

    /// Copies the process; its turn is that of the task. Gives the time that this took.
    fn copy_process(
        &self,
        task: &mut Task,
        own: &Checkpointing,
        copy: PlannedCopy,
        in_call: bool,
    ) -> Duration {
        // Those in the processor are gone when the copy describes itself: its own code has used them.
        task.store_registers();
        let began = Instant::now();
        let (process, schedule) = {
            let schedule = self.schedule();
            (schedule.process, schedule.mark().unwrap_or_default())
        };
        let resting = own.resting.all();
        let resting = resting.values().map(|resting| {
            // SAFETY: this thread holds the baton.
            let tape = tape_of(unsafe { resting.task() });
            (*resting, tape)
        });
        let (elapsed, left) = {
            let mut progress = own.progress();
            (progress.at(self.shm, task), progress.left.clone())
        };
        let plan = CopyPlan {
            copy,
            tree: TreeState {
                member: self.baton.is_member(),
                ..TreeState::now(&self.shm)
            },
            in_call,
            shm: self.shm,
            elapsed,
            left,
            turn: checkpoints::turns_of(self.shm, process),
            schedule,
            stack: own.stack(),
            current: tape_of(task),
            resting: resting.collect(),
        };
        copy_of_itself::make(task, &plan);
        began.elapsed()
    }

    /// Whether the descriptions tell all of the process, at the place where the task is.
    fn is_describable(&self, task: &Task, own: &Checkpointing) -> bool {
        let settled = task.ctx.pending == 0;
        let here = checkpoints::has_plain_ids(self.shm);
        if !settled || !checkpoints::is_plain(task) || !here || !self.baton.has_room() {
            return false;
        }
        let resting = own.resting.all();
        let all = resting.len() as u32 + 1 == task.machine().registry.count();
        // SAFETY: this thread holds the baton.
        all && resting
            .values()
            .all(|r| unsafe { r.task() }.vforked.is_none())
    }

    /// Whether other processes may write to the memory of this one.
    fn others_write(&self) -> bool {
        let slot = PROCESSES.of(&self.shm).get(self.schedule().process);
        let shares = slot.is_none_or(|slot| slot.membership().member);
        shares && !self.baton.is_alone_in_group()
    }
}
