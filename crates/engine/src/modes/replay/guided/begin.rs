//! The way to where the followed process runs a program: no hit is reported on it.

use relive_dbt::Stop;

use super::guidance::Guidance;
use super::track::point;
use crate::failure::Result;
use crate::flow::Flow;
use crate::guide::point::Steps;
use crate::modes::replay::events::DueEvent;
use crate::modes::replay::stepper::process::Stepper;
use crate::modes::replay::stepper::stops::Stops;

/// The way to where the followed process runs a program.
pub struct Begin<'g>(pub &'g mut Guidance);

impl Stops for Begin<'_> {
    type Why = ();

    fn look(&mut self, at: &mut Stepper) -> Result<Option<()>> {
        let there = at.task.process.index == self.0.goal && at.task.ctx.rip != 0;
        Ok(there.then_some(()))
    }

    fn takes(&mut self, _: &mut Stepper, _: &Stop, ticks: u64) -> Result<bool> {
        self.0.track.work += ticks;
        Ok(false)
    }

    fn before_event(&mut self, at: &mut Stepper, _: &DueEvent) -> Result<Option<()>> {
        self.0.track.before_event(at, point(at, Steps::Event));
        Ok(None)
    }

    fn happened(&mut self, at: &mut Stepper, flow: &Flow) -> Result<()> {
        self.0.track.happened(at, flow)
    }

    fn settled(&mut self, at: &mut Stepper) -> Option<()> {
        self.0.track.settled(at);
        None
    }
}
