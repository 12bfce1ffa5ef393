//! Running guest code towards an event: how far, and the meaning of the stop behind it. Must never
//! consume an event; a stop that consumes one is handed to the stepper as due.

use relive_dbt::{InstrOp, Stop};
use relive_host::context::PLENTY;

use super::process::Stepper;
use super::stops::{Pace, Stops};
use crate::failure::{Failure, Result};
use crate::flow::Flow;
use crate::modes::replay::births::becomes_nothing;
use crate::modes::replay::events::{DueEvent, diverged, pass};
use crate::modes::replay::hook_state;
use crate::signals::deliver;
use crate::task::Task;
use crate::{exits, instr};

/// Ticks behind the next event by which a thread that has left the recording may be noticed.
const BEHIND: u64 = 1 << 14;

/// The event that guest code runs towards.
#[derive(Clone, Copy)]
pub struct Toward {
    /// Ticks of the next event.
    limit: u64,
    /// It happens to the thread there, and is not caused by it at any instruction behind that tick.
    positional: bool,
    /// The thread makes one step only.
    steps: bool,
}

impl Toward {
    /// An event that the thread causes.
    pub fn own(limit: u64) -> Self {
        Self {
            limit,
            positional: false,
            steps: false,
        }
    }

    /// An event that happens to the thread.
    pub fn position(limit: u64) -> Self {
        Self {
            limit,
            positional: true,
            steps: false,
        }
    }

    /// As [`Toward::position`], but one step only.
    pub fn step(limit: u64) -> Self {
        Self {
            steps: true,
            ..Self::position(limit)
        }
    }

    /// Grants a thread at tick `ticks` its budget.
    #[inline]
    pub fn grant<W>(self, task: &mut Task, ticks: u64, pace: &Pace<W>) {
        let left = self.limit - ticks;
        match pace {
            Pace::Step | Pace::Stop(_) => task.ctx.grant(PLENTY),
            Pace::Free if self.positional => task.ctx.grant(left as i64),
            // The event comes by itself: a budget that ends well behind it saves exits, and one
            // that ends at all reveals a thread that has left the recording.
            // Events that follow closely share one, because granting costs more than they do.
            // Where the host has needed the thread it cannot go on with the last one.
            Pace::Free => {
                let ahead = left.min(PLENTY as u64 / 4) as i64;
                let shared = (ahead + 1..4 * ahead + (1 << 16)).contains(&task.ctx.granted());
                if !(shared && task.ctx.has_budget()) {
                    task.ctx.grant(2 * ahead + BEHIND as i64);
                }
            }
            Pace::Within(most) => {
                // As far behind the event as above: how late a thread comes to its next event tells a search something.
                let room = match self.positional {
                    true => left,
                    false => left.saturating_add(BEHIND),
                };
                task.ctx.grant(room.min(*most).max(1) as i64);
            }
        }
    }
}

/// Where guest code began to run.
pub struct Began {
    pub ticks: u64,
    pc: u64,
    step: bool,
}

impl Began {
    /// Where the task stands.
    ///
    /// # Errors
    /// Divergence: it is past the event that it is to run towards.
    #[inline]
    pub fn here(task: &mut Task, toward: Toward) -> Result<Self> {
        deliver::finish_restart(task);
        let ticks = task.ctx.ticks();
        if ticks > toward.limit {
            return Err(diverged(task, "the thread is past that tick"));
        }
        Ok(Self {
            ticks,
            pc: task.ctx.rip,
            step: false,
        })
    }
}

impl Stepper {
    /// Runs guest code, but not beyond the event that it runs towards.
    pub fn execute<S: Stops>(&mut self, stops: &mut S, toward: Toward) -> Result<Option<S::Why>> {
        let mut began = Began::here(&mut self.task, toward)?;
        let last_tick = toward.positional && began.ticks == toward.limit;
        let pace = match stops.before_code(self, last_tick)? {
            Pace::Stop(why) => return Ok(Some(why)),
            _ if last_tick || toward.steps => Pace::Step,
            pace => pace,
        };
        began.step = matches!(pace, Pace::Step);
        toward.grant(&mut self.task, began.ticks, &pace);
        let stop = self.task.go(began.step)?;
        self.ran(stops, toward, began, stop)
    }

    /// Guest code has run up to this stop.
    pub fn ran<S: Stops>(
        &mut self,
        stops: &mut S,
        toward: Toward,
        began: Began,
        stop: Stop,
    ) -> Result<Option<S::Why>> {
        let ran = self.task.ctx.ticks() - began.ticks;
        match stop {
            Stop::Budget { .. } | Stop::Pause { .. } | Stop::Stepped { .. } => {
                if began.ticks + ran > toward.limit {
                    return Err(self.ran_past(toward, began.step));
                }
                self.steps = match ran != 0 || !began.step {
                    true => Some(0),
                    false => self.steps.map(|n| n + 1),
                };
                stops.takes(self, &stop, ran)?;
                Ok(stops.advanced(self))
            }
            stop => {
                if ran != 0 || self.task.ctx.rip != began.pc {
                    self.steps = None;
                }
                if stops.takes(self, &stop, ran)? {
                    return Ok(None);
                }
                self.stopped(stops, stop, toward.positional)
            }
        }
    }

    /// A stop that the engine has to do something for: mostly the next event.
    fn stopped<S: Stops>(
        &mut self,
        stops: &mut S,
        stop: Stop,
        positional: bool,
    ) -> Result<Option<S::Why>> {
        match &stop {
            Stop::CacheFull { .. } => exits::handle(&mut self.task, stop).map(|_| None),
            _ if positional => {
                pass(&mut self.task, stop)?;
                Ok(self.count(stops))
            }
            Stop::Instr { op, .. } if !instr::logged(op) || self.has_reading(op) => {
                let before = hook_state::events();
                match exits::handle(&mut self.task, stop)? {
                    Flow::Continue if hook_state::events() == before => Ok(self.count(stops)),
                    // It has raised a signal.
                    flow => self.settle(stops, flow),
                }
            }
            Stop::Syscall { .. }
                if self.task.leaves_for_good() && becomes_nothing(&mut self.task)?.is_some() =>
            {
                self.event(stops, DueEvent::Parent)
            }
            _ => self.event(stops, DueEvent::Stop(stop)),
        }
    }

    /// Whether an instruction reads a clock of which the tape has a reading: then it is no event.
    fn has_reading(&self, op: &InstrOp) -> bool {
        instr::is_reading(op) && self.task.tape.unread().is_some()
    }

    /// The engine has executed one instruction, which leaves no event.
    fn count<S: Stops>(&mut self, stops: &mut S) -> Option<S::Why> {
        self.steps = self.steps.map(|n| n + 1);
        stops.advanced(self)
    }

    #[cold]
    fn ran_past(&mut self, toward: Toward, step: bool) -> Failure {
        let actual = match (toward.positional, step) {
            (true, true) => "a tick came first",
            (true, false) => "the thread is past that tick",
            (false, _) => "the thread ran on past that tick",
        };
        diverged(&mut self.task, actual)
    }
}
