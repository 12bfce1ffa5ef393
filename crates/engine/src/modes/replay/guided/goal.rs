//! Where a run is to go: a position, or a number of instructions of one thread. Must never look at stops.

use super::track::point;
use crate::guide::point::{Point, Steps};
use crate::guide::protocol::{RunRequest, StopReason};
use crate::modes::replay::events::NEVER;
use crate::modes::replay::stepper::process::Stepper;
use crate::tape::digest;

/// Ticks after which a running thread looks for orders.
pub const SLICE: u64 = 1 << 22;

/// See the module.
pub struct Goal {
    until: Option<Point>,
    /// The thread whose instructions are counted, and those that remain.
    step: Option<(u32, u64)>,
}

impl Goal {
    /// Of a run.
    pub fn of(run: &RunRequest) -> Self {
        Self {
            until: run.until,
            step: run.step,
        }
    }

    /// Why the run ends where it is, if it does.
    pub fn ends(&self, at: &Stepper) -> Option<StopReason> {
        let steps_done = matches!(self.step, Some((_, 0)));
        self.is_there(at)
            .or_else(|| steps_done.then_some(StopReason::Stepped))
    }

    /// Whether this is the position to go to, or behind it.
    pub fn is_there(&self, at: &Stepper) -> Option<StopReason> {
        let until = self.until?;
        let here = point(at, Steps::ZERO);
        if here.key() != until.key() {
            // The ticks of another thread say nothing.
            let (h, u) = ((here.event, here.turn), (until.event, until.turn));
            let passed = h > u || h == u && here.ticks > until.ticks;
            return passed.then_some(StopReason::Passed);
        }
        match (until.steps, at.steps) {
            (Steps::Exact(n), Some(m)) if m < n => None,
            (Steps::Exact(n), Some(m)) if m == n => Some(StopReason::Until),
            (Steps::Exact(_), _) => Some(StopReason::Passed),
            (Steps::Event, _) => None,
            (Steps::At { pc, digest: d }, _) => {
                let ctx = &at.task.ctx;
                (ctx.rip == pc && digest(ctx) == d).then_some(StopReason::Until)
            }
        }
    }

    /// Whether the run goes to the event that comes next.
    pub fn is_at_event(&self, at: &Stepper) -> bool {
        self.until
            .is_some_and(|u| u.steps == Steps::Event && point(at, Steps::Event).key() == u.key())
    }

    /// Whether only one instruction may be executed now.
    pub fn must_step(&self, at: &Stepper) -> bool {
        let last_tick = self
            .until
            .is_some_and(|u| u.key() == point(at, Steps::ZERO).key() && u.steps != Steps::Event);
        last_tick || self.step.is_some_and(|(slot, _)| slot == at.task.slot)
    }

    /// Ticks to run at most.
    pub fn most(&self, at: &Stepper) -> u64 {
        let here = point(at, Steps::Event);
        let until = self.until.map_or(NEVER, |u| {
            let same = (u.event, u.turn) == (here.event, here.turn);
            let open = u64::from(u.steps == Steps::Event);
            if same {
                u.ticks - here.ticks + open
            } else {
                NEVER
            }
        });
        until.min(SLICE)
    }

    /// The thread of a slot has executed an instruction, or come to an event.
    pub fn count(&mut self, slot: u32) {
        if let Some((counted, left)) = &mut self.step
            && *counted == slot
        {
            *left = left.saturating_sub(1);
        }
    }
}
