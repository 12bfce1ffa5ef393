//! One step of a linearising replay: the thread that is due, up to its bound.

use relive_dbt::Stop;
use relive_host::GuestAddr;
use relive_trace::Kind;

use super::due::Linear;
use super::next_thread::first;
use super::reach::Bound;
use crate::call;
use crate::failure::{Failure, Result};
use crate::flow::Flow;
use crate::guide::protocol::Ended;
use crate::modes::replay::epoch_check;
use crate::modes::replay::events::DueEvent;
use crate::modes::replay::report;
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

/// The thread that goes on first.
enum First {
    /// The running one, so far.
    Running(Bound),
    /// The one of this slot.
    Other(u32),
    /// Each waits for something that is on no tape: the recording was cut there.
    Nobody,
    /// All stand at the end of the epoch.
    EpochEnd,
}

impl Session {
    /// The thread that goes on first: the running one, if it is given, with how far it may go, or another.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn first_due(
        &mut self,
        running: Option<&mut Task>,
    ) -> Result<Option<(u32, Option<Bound>)>> {
        let Some(linear) = &mut self.linear else {
            return Ok(None);
        };
        let runs = running.as_ref().map(|task| task.slot);
        let (dues, bound) = linear.all_dues(&mut self.tasks, running)?;
        let first = first(&dues);
        tracing::debug!(target: "dues", "{first:?} of {dues:?}");
        match first {
            Some(_) if first == runs => runs.into_iter().for_each(|slot| linear.leads(slot, &dues)),
            Some(_) => {}
            None if linear.ends_epoch(&dues) => {}
            None => {
                tracing::debug!(target: "linear", "no thread is due: {dues:?}");
                for task in self.tasks.values() {
                    tracing::debug!(target: "linear", "thread {} stands at tick {}, operation {}, mark {}", task.slot, task.ctx.ticks(), task.ctx.ops, task.ctx.marks);
                }
                linear.blame(&dues);
            }
        }
        Ok(first.map(|first| (first, bound)))
    }
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
        let bound = match (self.goes_first()?, self.steps) {
            (First::Nobody, _) => {
                self.change_turn(Flow::Park)?;
                return Ok(Step::Changed);
            }
            (First::EpochEnd, steps) => {
                let steps = steps.ok_or_else(|| Failure::internal("the epoch ends amid a step"))?;
                self.give_up_turn(steps)?;
                epoch_check::end(self.task.machine(), self.tasks())?;
                self.ended = Some(Ended::CutOff);
                return Ok(Step::Changed);
            }
            (First::Running(bound), _) => bound,
            (First::Other(slot), Some(steps)) => {
                self.hand_over(slot, steps)?;
                return Ok(Step::Changed);
            }
            // In the midst of something, it comes to its event first.
            (First::Other(_), None) => self.own_bound()?,
        };
        if let Some(Ending::Steps(ticks)) = ending {
            return Ok(Step::Toward(Toward::position(ticks)));
        }
        Ok(match bound {
            Bound::Tick { ticks, .. } => Step::Toward(Toward::position(ticks)),
            Bound::Step { ticks, .. } => Step::Toward(Toward::step(ticks)),
            Bound::Operation { ticks, at, .. } => {
                let linear = self.session.linear.as_ref();
                let from = linear.and_then(|linear| linear.waits_from(&self.task, at));
                Step::Toward(toward_operation(self.task.ctx.ticks(), from, ticks))
            }
            Bound::Event { .. } | Bound::Place | Bound::End => Step::Event,
        })
    }

    /// The thread that goes on first; the others are looked at if they have to be.
    fn goes_first(&mut self) -> Result<First> {
        if let Some(linear) = &mut self.session.linear
            && let Some(bound) = linear.leads_on(&mut self.task, &self.session.tasks)?
        {
            return Ok(First::Running(bound));
        }
        match self.session.first_due(Some(&mut self.task))? {
            Some((slot, Some(bound))) if slot == self.task.slot => Ok(First::Running(bound)),
            Some((slot, _)) => Ok(First::Other(slot)),
            None if self.session.linear.as_ref().is_some_and(|l| l.is_at_end) => {
                Ok(First::EpochEnd)
            }
            None if self.session.linear.as_ref().is_some_and(Linear::may_stop) => Ok(First::Nobody),
            None => Err(report::all_wait(&self.task)),
        }
    }

    fn own_bound(&mut self) -> Result<Bound> {
        let others = &self.session.tasks;
        match &mut self.session.linear {
            Some(linear) => Ok(linear.due(&mut self.task, others)?.0),
            None => Ok(Bound::End),
        }
    }

    /// Where the thread stands on the last steps to the end of it or its program, if it does and is not alone.
    fn ending(&mut self) -> Result<Option<Ending>> {
        if self.session.tasks.is_empty() || self.steps.is_none() || self.task.parked {
            return Ok(None);
        }
        let next = match &mut self.task.tape {
            Tape::In(tape) => tape.upcoming()?,
            _ => None,
        };
        let Some(next) = next.filter(|next| next.ends) else {
            return Ok(None);
        };
        let Bound::Event { .. } = self.own_bound()? else {
            return Ok(None);
        };
        Ok(match next.ticks == self.task.ctx.ticks() {
            _ if call::is_next(&self.task.ctx) => Some(Ending::Here),
            true => Some(Ending::Steps(next.ticks)),
            false => None,
        })
    }

    /// Gives the turn to another thread, at the present position.
    fn hand_over(&mut self, slot: u32, steps: u64) -> Result<()> {
        let task = &self.task;
        tracing::debug!(target: "linear", "thread {} stands at tick {}+{steps}, operation {}, mark {}; thread {slot} goes on", task.slot, task.ctx.ticks(), task.ctx.ops, task.ctx.marks);
        self.give_up_turn(steps)?;
        let leaves = self.task.slot;
        if let Some(linear) = &mut self.session.linear {
            linear.leaves(leaves, steps);
            self.steps = Some(linear.turn(slot)?);
        }
        let parked = self.session.give_turn(&mut self.task, slot)?;
        self.session.tasks.insert(parked.slot, parked);
        self.turn += 1;
        Ok(())
    }

    /// Says on the exact tape that the thread loses its turn so many steps behind its last tick or event.
    fn give_up_turn(&mut self, steps: u64) -> Result<()> {
        let task = &mut self.task;
        if task.parked {
            return Ok(());
        }
        let (ticks, registers) = (task.ctx.ticks(), digest(&task.ctx));
        if let Tape::In(tape) = &mut task.tape {
            tape.switch(ticks, registers, steps as u32)?;
        }
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
        let First::Other(other) = self.goes_first()? else {
            if let Some(linear) = &mut self.session.linear {
                linear.goes_on(slot);
            }
            return Ok(false);
        };
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
