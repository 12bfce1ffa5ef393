//! An event, and its consequence: the same with and without stops.

use super::process::Stepper;
use super::stops::Stops;
use crate::failure::Result;
use crate::flow::Flow;
use crate::modes::replay::events::DueEvent;

impl Stepper {
    /// An event that is due.
    pub fn event<S: Stops>(&mut self, stops: &mut S, due: DueEvent) -> Result<Option<S::Why>> {
        if let Some(why) = stops.before_event(self, &due)? {
            return Ok(Some(why));
        }
        if self.session.linear.is_some() && self.holds_back(&due)? {
            return Ok(None);
        }
        let flow = due.happen(&mut self.task)?;
        self.settle(stops, flow)
    }

    /// Draws the consequence of an event.
    pub fn settle<S: Stops>(&mut self, stops: &mut S, flow: Flow) -> Result<Option<S::Why>> {
        self.session.collect(&self.task)?;
        stops.happened(self, &flow)?;
        if !matches!(flow, Flow::Continue) {
            self.change_turn(flow)?;
        }
        self.steps = Some(self.session.stands());
        Ok(stops.settled(self))
    }
}
