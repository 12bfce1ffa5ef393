//! The way to the next event: the next event of the tape decides how the thread goes there.

use std::convert::Infallible;

use super::execute::Toward;
use super::process::Stepper;
use super::stops::Stops;
use crate::failure::Result;
use crate::guide::protocol::Ended;
use crate::modes::replay::births::becomes_nothing;
use crate::modes::replay::events::{DueEvent, NEVER, NextEvent, target};
use crate::modes::replay::linear::advance::Step;

impl Stepper {
    /// Goes on to a stop, or to the end of the process (`None`).
    ///
    /// # Errors
    /// Divergence.
    pub fn run<S: Stops>(&mut self, stops: &mut S) -> Result<Option<S::Why>> {
        while self.ended.is_none() {
            if let Some(why) = stops.look(self)? {
                return Ok(Some(why));
            }
            if let Some(why) = self.advance(stops)? {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    /// Goes on to the end of the process.
    ///
    /// # Errors
    /// Divergence.
    pub fn run_to_end<S>(&mut self, stops: &mut S) -> Result<Ended>
    where
        S: Stops<Why = Infallible>,
    {
        loop {
            match self.run(stops)? {
                Some(never) => match never {},
                None => {
                    if let Some(ended) = self.ended {
                        return Ok(ended);
                    }
                }
            }
        }
    }

    /// One event, or a piece of guest code on the way to it.
    fn advance<S: Stops>(&mut self, stops: &mut S) -> Result<Option<S::Why>> {
        if self.session.linear.is_some() {
            match self.linear_step()? {
                Step::Event => {}
                Step::Toward(toward) => return self.execute(stops, toward),
                Step::Changed => return Ok(None),
            }
        }
        let task = &mut self.task;
        if task.parked {
            let parent = task.vforked.is_some() && task.tape.at_end()?;
            let due = match target(task)? {
                _ if parent => DueEvent::Parent,
                // See `answers::answer`.
                NextEvent::Position(position) if position.is_here(task, self.steps) => {
                    DueEvent::Position(position)
                }
                _ => DueEvent::Resumed,
            };
            return self.event(stops, due);
        }
        // The short way to a system call.
        if let Some(ticks) = task.tape.next_call() {
            return match S::LOOKS || self.session.linear.is_some() {
                true => self.execute(stops, Toward::own(ticks)),
                false => self.calls(stops, ticks),
            };
        }
        match target(task)? {
            NextEvent::Own { ticks } => self.execute(stops, Toward::own(ticks)),
            NextEvent::Position(position) if position.is_here(task, self.steps) => {
                self.event(stops, DueEvent::Position(position))
            }
            NextEvent::Position(position) => self.execute(stops, Toward::position(position.ticks)),
            NextEvent::Start => self.event(stops, DueEvent::Start),
            NextEvent::Image => self.event(stops, DueEvent::Image),
            NextEvent::End if task.vforked.is_some() => match becomes_nothing(task)? {
                Some(tick) => self.execute(stops, Toward::own(tick)),
                None => self.event(stops, DueEvent::Parent),
            },
            NextEvent::End if !self.session.goes_on(task)? => self.event(stops, DueEvent::End),
            // The thread gave the baton away once more: inside a call that never returned.
            NextEvent::End => {
                let sketch = self.session.linear.is_some() || self.session.is_beside();
                let noted = sketch.then(|| self.task.tape.noted()).flatten();
                let limit = noted.unwrap_or(NEVER);
                self.execute(stops, Toward::own(limit))
            }
        }
    }
}
