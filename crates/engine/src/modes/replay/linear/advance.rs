//! One step of a linearising replay: the thread that is due, up to its bound.

use std::collections::BTreeMap;

use relive_dbt::Stop;
use relive_host::GuestAddr;
use relive_trace::Kind;

use super::bound::{Bound, is_at_call};
use super::next_thread::first;
use crate::failure::{Failure, Result};
use crate::modes::replay::events::DueEvent;
use crate::modes::replay::session::Session;
use crate::modes::replay::stepper::execute::Toward;
use crate::modes::replay::stepper::process::Stepper;
use crate::tape::{Tape, digest};
use crate::task::Task;

/// The next step of the running thread.
pub enum Step {
    /// It goes on to its next event as in any replay.
    Event,
    /// It runs towards a position.
    Toward(Toward),
    /// Another thread has the turn.
    Changed,
}

/// Where a thread stands that is about to end.
enum Ending {
    /// In front of the call.
    Here,
    /// Behind the last tick before it, this one.
    Steps(u64),
}

impl Session {
    /// The thread that goes on first: the running one, if it is given, or another.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn first_due(&mut self, mut running: Option<&mut Task>) -> Result<Option<u32>> {
        let Some(linear) = &mut self.linear else {
            return Ok(None);
        };
        let dues = loop {
            let marks = passed_marks(&self.tasks, running.as_deref());
            let slots: Vec<u32> = self.tasks.keys().copied().collect();
            let mut dues = BTreeMap::new();
            for slot in slots {
                let Some(mut task) = self.tasks.remove(&slot) else {
                    continue;
                };
                let due = linear.due(&mut task, &self.tasks, running.as_deref());
                self.tasks.insert(slot, task);
                dues.insert(slot, due?.1);
            }
            if let Some(task) = running.as_deref_mut() {
                dues.insert(task.slot, linear.due(task, &self.tasks, None)?.1);
            }
            // A thread that stands where it made marks has passed them once it is looked at: one that was looked at
            // before may wait for them.
            if passed_marks(&self.tasks, running.as_deref()) == marks {
                break dues;
            }
        };
        let first = first(&dues);
        if first.is_none() {
            tracing::debug!(target: "linear", "no thread is due: {dues:?}");
            for task in self.tasks.values() {
                tracing::debug!(target: "linear", "thread {} stands at tick {}, operation {}, mark {}", task.slot, task.ctx.ticks(), task.ctx.ops, task.ctx.marks);
            }
            linear.blame(&dues);
        }
        Ok(first)
    }
}

/// How many marks the threads have passed.
fn passed_marks(tasks: &BTreeMap<u32, Box<Task>>, running: Option<&Task>) -> u64 {
    let tasks = tasks.values().map(|task| &**task).chain(running);
    tasks.map(|task| task.ctx.marks).sum()
}

impl Stepper {
    /// Decides which thread runs, and how far.
    ///
    /// # Errors
    /// The recording's edges contradict each other, or are not all there.
    pub fn linear_step(&mut self) -> Result<Step> {
        let ending = self.ending()?;
        if let (Some(Ending::Here), Some(linear)) = (&ending, &mut self.session.linear) {
            linear.waits(self.task.slot);
        }
        let first = self.session.first_due(Some(&mut self.task))?;
        let slot = first.ok_or_else(|| circle(&self.task))?;
        if slot != self.task.slot
            && let Some(steps) = self.steps
        {
            self.hand_over(slot, steps)?;
            return Ok(Step::Changed);
        }
        if let Some(Ending::Steps(ticks)) = ending {
            return Ok(Step::Toward(Toward::position(ticks)));
        }
        let Some(linear) = &mut self.session.linear else {
            return Ok(Step::Event);
        };
        Ok(
            match linear.due(&mut self.task, &self.session.tasks, None)?.0 {
                Bound::Tick { ticks, .. } => Step::Toward(Toward::position(ticks)),
                Bound::Step { ticks, .. } => Step::Toward(Toward::step(ticks)),
                Bound::Operation { ticks, at, .. } => {
                    let from = linear.waits_from(&self.task, at);
                    Step::Toward(toward_operation(self.task.ctx.ticks(), from, ticks))
                }
                Bound::Event { .. } | Bound::End => Step::Event,
            },
        )
    }

    /// Where the thread stands on the last steps to the end of it or its program, if it does and is not alone.
    fn ending(&mut self) -> Result<Option<Ending>> {
        let Some(linear) = &mut self.session.linear else {
            return Ok(None);
        };
        let others = &self.session.tasks;
        if others.is_empty() || self.steps.is_none() || self.task.parked {
            return Ok(None);
        }
        let (Bound::Event { ends: true, .. }, _) = linear.due(&mut self.task, others, None)? else {
            return Ok(None);
        };
        let ticks = self.task.ctx.ticks();
        let next = self.task.tape.outline()?;
        Ok(match next {
            _ if is_at_call(&self.task) => Some(Ending::Here),
            Some(next) if next.ticks == ticks => Some(Ending::Steps(ticks)),
            _ => None,
        })
    }

    /// Gives the turn to another thread, at the present position.
    fn hand_over(&mut self, slot: u32, steps: u64) -> Result<()> {
        let task = &mut self.task;
        tracing::debug!(target: "linear", "thread {} stands at tick {}+{steps}, operation {}, mark {}; thread {slot} goes on", task.slot, task.ctx.ticks(), task.ctx.ops, task.ctx.marks);
        if !task.parked {
            let (ticks, registers) = (task.ctx.ticks(), digest(&task.ctx));
            if let Tape::In(tape) = &mut task.tape {
                tape.switch(ticks, registers, steps as u32)?;
            }
        }
        let leaves = task.slot;
        if let Some(linear) = &mut self.session.linear {
            linear.leaves(leaves, steps);
            self.steps = Some(linear.turn(slot)?);
        }
        let parked = self.session.give_turn(&mut self.task, slot)?;
        self.session.tasks.insert(parked.slot, parked);
        self.turn += 1;
        Ok(())
    }

    /// Whether an event that is due has to wait for other threads; the turn is another one's then.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn holds_back(&mut self, due: &DueEvent) -> Result<bool> {
        let next = self.task.tape.outline()?;
        let waits_for_turn = match self.task.tape.peek()?.map(|event| event.kind) {
            Some(Kind::Syscall(call)) => call.switched,
            Some(Kind::Switch { .. }) => true,
            _ => false,
        };
        let steps = match due {
            // It has nothing left to do before the first turn that the recording has.
            _ if waits_for_turn => {
                if let Some(linear) = &mut self.session.linear {
                    linear.goes_on(self.task.slot);
                }
                return Ok(false);
            }
            // Only the event of a call says that its thread lost the turn in it.
            DueEvent::Stop(Stop::Syscall { next: behind, .. })
                if *behind == GuestAddr(self.task.ctx.rip + 2)
                    && next.is_some_and(|next| next.syscall) =>
            {
                None
            }
            DueEvent::Position(_) => self.steps,
            _ => {
                if let Some(linear) = &mut self.session.linear {
                    linear.goes_on(self.task.slot);
                }
                return Ok(false);
            }
        };
        let slot = self.task.slot;
        if let Some(linear) = &mut self.session.linear {
            linear.waits(slot);
        }
        let first = self.session.first_due(Some(&mut self.task))?;
        let other = first.ok_or_else(|| circle(&self.task))?;
        if other == slot {
            if let Some(linear) = &mut self.session.linear {
                linear.goes_on(slot);
            }
            return Ok(false);
        }
        if steps.is_none() {
            self.task.parked = true;
            if let Tape::In(tape) = &mut self.task.tape
                && let Some(exact) = &mut tape.exact
            {
                exact.parked = true;
            }
        }
        self.hand_over(other, steps.unwrap_or(0))?;
        Ok(true)
    }
}

/// How a thread at tick `now` runs towards an operation behind tick `ticks`, in front of which it has to wait. Where it
/// waits from some ticks before that on, its operation before that one may lie between two ticks, and its loads from
/// there on have to wait: it goes by steps.
fn toward_operation(now: u64, from: Option<u64>, ticks: u64) -> Toward {
    const NEAR: u64 = 4;
    match from {
        Some(from) if from < ticks && ticks - from <= NEAR => match now < from {
            true => Toward::position(from),
            false => Toward::step(ticks),
        },
        _ => Toward::position(ticks),
    }
}

fn circle(task: &Task) -> Failure {
    Failure::divergence(format!(
        "thread {} waits at tick {} for an operation of another thread, and so do all others: the recording does not say enough of their order",
        task.id(),
        task.ctx.ticks()
    ))
}
