//! Checkpoints of a process whose threads run together: one of them brings all others to rest and makes the copy, in which
//! each thread stands at its place: at a safe point, in front of an instruction, or at the call that it is in. Nothing goes
//! onto the tapes for it: a recording that begins with the copy reads each from there on, and all that the notes behind it
//! say of the time before has happened. Must never be made where one of the threads is amid something that the descriptions
//! do not tell.

use std::time::Instant;

use relive_host::order::now;
use relive_trace::TapeMark;

use super::Sketch;
use crate::failure::Result;
use crate::image_stream::{CHECKPOINTS, TreeState};
use crate::modes::checkpoints::checkpointing::Checkpointing;
use crate::modes::checkpoints::copy_of_itself::{self, CopyPlan, PlannedCopy, ordered_tape_of};
use crate::modes::checkpoints::resting::{RestingPlace, RestingTask};
use crate::modes::checkpoints::{has_plain_ids, is_plain, plan_copy, turns_of};
use crate::task::Task;

impl Sketch {
    /// Makes a checkpoint at a safe point of the task, if one is wanted and can be made here.
    ///
    /// # Errors
    /// The order of memory is lost.
    pub(super) fn make_checkpoint(&self, task: &mut Task) -> Result<()> {
        let Some(own) = &self.checkpoints else {
            return Ok(());
        };
        let wanted = CHECKPOINTS.of(&self.shm).wanted();
        // A replay that begins here counts its first thread's instructions from here.
        if !own.lacks(wanted) || task.steps != 0 || !self.may_try(task, own) {
            return Ok(());
        }
        let began = Instant::now();
        let quiet = task.quiesce_at_safe_point()?;
        if own.lacks(wanted) && task.ctx.pending == 0 {
            self.copy_in_quiet(task, own, (wanted, began), false);
        }
        drop(quiet);
        Ok(())
    }

    /// The same of a task that is about to sleep in a call: see the serial mode.
    ///
    /// # Errors
    /// The order of memory is lost.
    pub(super) fn make_checkpoint_before_sleep(&self, task: &mut Task) -> Result<()> {
        let Some(own) = &self.checkpoints else {
            return Ok(());
        };
        let Some(wanted) = own.wanted_before_sleep(self.shm) else {
            return Ok(());
        };
        if !self.may_try(task, own) {
            return Ok(());
        }
        task.flush_readings()?;
        task.arrived()?;
        let began = Instant::now();
        let quiet = task.quiesce_or_go_over()?;
        self.copy_in_quiet(task, own, (wanted, began), true);
        drop(quiet);
        Ok(())
    }

    fn may_try(&self, task: &Task, own: &Checkpointing) -> bool {
        let here = self.turns().is_none() && is_plain(task) && has_plain_ids(self.shm);
        here && own.may_try() && task.ctx.pending == 0
    }

    /// All others are at rest, or have been asked to be since `began`. The work up to the copy; `None`: none can be made here.
    pub(super) fn copy_in_quiet(
        &self,
        task: &mut Task,
        own: &Checkpointing,
        (wanted, began): (u32, Instant),
        in_call: bool,
    ) -> Option<u64> {
        if self.turns().is_some() {
            // It has stood aside for the one with which the process went over to turns.
            return None;
        }
        let asked = own.lacks(wanted);
        let resting = self.all_at_rest(task);
        own.has_tried(resting.is_none());
        let resting = resting?;
        let copy = plan_copy(self.shm, task, own, wanted, false)?;
        let threads = resting.len() + 1;
        let work = self.copy_process(task, own, copy, in_call, resting);
        let pause = began.elapsed();
        tracing::debug!(target: "checkpoint", "{threads} threads were held up for {pause:?}");
        own.held_up(self.shm, pause, asked);
        CHECKPOINTS.of(&self.shm).await_release(&self.shm);
        Some(work)
    }

    /// All other threads, where they rest; `None`: one of them is where it cannot be described.
    fn all_at_rest(&self, task: &Task) -> Option<Vec<RestingTask>> {
        let Some(me) = task.member.as_deref() else {
            return Some(Vec::new());
        };
        let registry = &task.machine().registry;
        registry.await_ended();
        let others = registry.all_at_rest(me)?.into_iter();
        // SAFETY: the registry has the addresses of tasks, and there is quiet.
        let resting = others.map(|(task, place)| unsafe { RestingTask::in_quiet(task, place) });
        resting.collect()
    }

    fn copy_process(
        &self,
        task: &mut Task,
        own: &Checkpointing,
        copy: PlannedCopy,
        in_call: bool,
        resting: Vec<RestingTask>,
    ) -> u64 {
        task.store_registers();
        let moment = now();
        let mut elapsed = {
            let mut progress = own.progress();
            for other in &resting {
                // SAFETY: there is quiet.
                progress.at(self.shm, unsafe { other.task() });
            }
            progress.at(self.shm, task)
        };
        CHECKPOINTS
            .of(&self.shm)
            .name_once(task.process.index, &mut elapsed);
        let resting = resting.into_iter().map(|other| {
            let in_call = other.place == RestingPlace::BeforeCall;
            // SAFETY: as above.
            let tape = ordered_tape_of(unsafe { other.task() }, in_call, moment);
            (other, tape)
        });
        let plan = CopyPlan {
            copy,
            tree: TreeState::now(&self.shm),
            in_call,
            shm: self.shm,
            elapsed,
            left: Default::default(),
            turn: turns_of(self.shm, task.process.index),
            // It begins where the process goes over to turns, if it does.
            schedule: TapeMark::default(),
            stack: own.stack(),
            current: ordered_tape_of(task, in_call, moment),
            resting: resting.collect(),
        };
        copy_of_itself::make(task, &plan);
        plan.elapsed.work()
    }
}
