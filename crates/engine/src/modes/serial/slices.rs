//! The turns of serial recording: slices of ticks, switches between two instructions, and sleep inside
//! calls. Where a switch happens is chance, or a policy's choice; it is recorded where it was made.

use std::sync::MutexGuard;

use relive_host::context::PLENTY;
use relive_trace::Kind;

use super::Serial;
use super::baton::Taken;
use super::schedule::Schedule;
use super::spinning::{self, SpinVerdict};
use crate::exits::{self, Stepped};
use crate::failure::Result;
use crate::flow::Flow;
use crate::modes::checkpoints::resting::RestingPlace;
use crate::ptrace::change;
use crate::tape::SYNCHRONOUS;
use crate::task::Task;

/// Ticks between two looks at the recorder, of a thread that no other can wait for.
const ALONE: i64 = 1 << 22;

impl Serial {
    pub(super) fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule
            .lock()
            .expect("no thread panics: panics abort")
    }

    /// Grants the thread a new slice of ticks.
    pub(super) fn new_slice(&self, task: &mut Task) {
        let ticks = match self.baton.shared(task) {
            true => task.spin.begin((self.baton.slice(task) as i64).max(1)),
            false => task.spin.all(ALONE),
        };
        grant(task, ticks);
    }

    /// The thread has woken others: its slice may end soon.
    pub(super) fn has_woken(&self, task: &mut Task) {
        if !self.baton.shared(task) || task.ctx.pending != 0 {
            return;
        }
        if let Some(ticks) = self.baton.woke()
            && (ticks as i64) < task.ctx.granted()
        {
            task.spin.ends();
            grant(task, ticks as i64);
        }
    }

    /// Behind a call: the slice ends at the next tick, if another process has waited for it for too long. Slices are counted in ticks,
    /// of which a loop of calls makes few.
    pub(super) fn ends_long_turn(&self, task: &mut Task) {
        if self.baton.is_hurried() {
            task.spin.ends();
            grant(task, 1);
        }
    }

    /// The budget is used up: by a signal, which the loop delivers first, by the slice, or by another thread that has waited for too
    /// long.
    pub(super) fn slice_end(&self, task: &mut Task) -> Result<Flow> {
        let signalled = task.ctx.pending != 0;
        if std::mem::take(&mut task.ctx.wanted) != 0 {
            task.spin.ends();
        }
        self.shm.need_supervisor()?;
        let sampler = self.sampler(task);
        if signalled || sampler.is_none() && !self.baton.wanted() {
            self.go_on(task);
            return Ok(Flow::Continue);
        }
        if task.spin.goes_on() {
            return self.part_end(task);
        }
        // The steps may pass many ticks; none of them ends anything.
        task.ctx.grant(PLENTY);
        if let Some(sampler) = sampler {
            let flow = self.sample_on(task, sampler);
            self.new_slice(task);
            return flow;
        }
        let flow = self.step_on(task);
        self.new_slice(task);
        let flow = flow?;
        let may_switch = matches!(flow, Flow::Continue) && task.exact && task.ctx.pending == 0;
        if may_switch && !self.baton.keeps(task.slot) {
            self.switch(task)?;
        }
        Ok(flow)
    }

    /// Grants the next part of the slice, or a new one.
    fn go_on(&self, task: &mut Task) {
        match task.spin.next_part() {
            Some(ticks) => grant(task, ticks),
            None => self.new_slice(task),
        }
    }

    /// A part of a slice is used up, while others wait: a thread that spins loses the rest.
    fn part_end(&self, task: &mut Task) -> Result<Flow> {
        task.ctx.grant(PLENTY);
        let flow = match spinning::look(task)? {
            SpinVerdict::Spinning => {
                self.baton.spinning(task.slot);
                self.switch(task)?;
                task.spin.wakes();
                self.new_slice(task);
                return Ok(Flow::Continue);
            }
            SpinVerdict::OnTrial(ticks) => {
                grant(task, ticks);
                return Ok(Flow::Continue);
            }
            SpinVerdict::Busy => Flow::Continue,
            SpinVerdict::Other(flow) => flow,
        };
        self.go_on(task);
        Ok(flow)
    }

    /// Runs some instructions one by one, up to a safe point.
    fn step_on(&self, task: &mut Task) -> Result<Flow> {
        // A switch must be possible between any two instructions, not only at ticks.
        for _ in 0..self.baton.steps() {
            if let Stepped::Handled { flow, .. } = exits::step(task)? {
                return Ok(flow);
            }
            if task.ctx.pending != 0 {
                return Ok(Flow::Continue);
            }
        }
        Ok(Flow::Continue)
    }

    /// Hands the baton to another thread, at the present safe point.
    ///
    /// # Errors
    /// The switch, or the turn that follows, is lost.
    pub(super) fn switch(&self, task: &mut Task) -> Result<()> {
        if !self.baton.wanted() {
            return Ok(());
        }
        let steps = task.steps;
        task.record(Kind::Switch { steps })?;
        self.rests(task, RestingPlace::Switch(steps));
        let taken = self.baton.pass(task)?;
        self.goes_on(task);
        self.turn(task, taken.before)
    }

    /// Gives the baton up around `enter`; the turn with which the thread goes on is not logged yet.
    pub(super) fn asleep_unlogged(
        &self,
        task: &mut Task,
        enter: &mut dyn FnMut() -> i64,
    ) -> Result<(i64, Taken)> {
        task.flush_readings()?;
        self.rests(task, RestingPlace::Call);
        self.baton.release(task);
        let result = enter();
        let taken = self.baton.take(task)?;
        self.goes_on(task);
        Ok((result, taken))
    }

    /// Lets others go first inside a call that needs no sleep, or none any more. Unlike [`Self::asleep_unlogged`]
    /// it is queued before the next one is woken: that one may ask in a loop, and would see no waiter.
    pub(super) fn others_first(&self, task: &mut Task) -> Result<()> {
        if !self.baton.wanted() {
            // A thread that is about to want the baton may lack a processor to say so.
            std::thread::yield_now();
            return Ok(());
        }
        self.sleeps_again(task)?;
        self.make_checkpoint_before_sleep(task)?;
        task.flush_readings()?;
        self.rests(task, RestingPlace::Call);
        let taken = self.baton.pass(task)?;
        self.goes_on(task);
        self.taken_back(task, taken)
    }

    /// A call goes on with one turn. One in which it has done nothing but look, and sleeps again, becomes a switch before
    /// the call: a replay parks there once more.
    pub(super) fn sleeps_again(&self, task: &mut Task) -> Result<()> {
        if std::mem::take(&mut task.log.switched) {
            // The thread stands at its call: behind an event the place has a name.
            change::make(task, SYNCHRONOUS, &[])?;
            task.record(Kind::Switch { steps: task.steps })?;
        }
        Ok(())
    }

    /// Waits by `wait` at the present safe point, without the baton where others could want it.
    pub(super) fn rest_without_baton(
        &self,
        task: &mut Task,
        wait: &mut dyn FnMut(&mut Task) -> Result<()>,
    ) -> Result<()> {
        task.flush_readings()?;
        if !self.baton.shared(task) {
            return wait(task);
        }
        let steps = task.steps;
        task.record(Kind::Switch { steps })?;
        self.rests(task, RestingPlace::Switch(steps));
        self.baton.release(task);
        wait(task)?;
        let taken = self.baton.take(task)?;
        self.goes_on(task);
        self.turn(task, taken.before)
    }

    /// The thread has the baton again inside a call.
    ///
    /// # Errors
    /// The turn is lost.
    pub(super) fn taken_back(&self, task: &mut Task, taken: Taken) -> Result<()> {
        if taken.switched {
            self.turn(task, taken.before)?;
            task.log.switched = true;
        }
        Ok(())
    }
}

fn grant(task: &mut Task, ticks: i64) {
    // Where exactly a slice ends is chance in any case.
    task.ctx.grant_about(ticks, ticks / 8);
}
