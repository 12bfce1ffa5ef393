//! The one loop of a replay: a stepper brings a process to its next event or stop.
//!
//! [`Stops`] says where a run ends. Plain replay is the stepper without stops, `relive verify` looks at
//! memory behind events, a guided replay ([`super::guided`]) may stop between any two instructions, and
//! an inferior call is the stepper with a task of another mode. Stops must never change what the
//! process does: every event is brought about, and checked, in the same way with and without them.
//! They are known at compile time, so that a plain replay has no trace of them.

use relive_dbt::Stop;

use super::checksum::Checksums;
use super::events::{Due, NEVER, Target, target};
use super::execute::{Pace, Toward};
use super::session::{self, Session};
use super::state;
use crate::failure::Result;
use crate::guide::protocol::Ended;
use crate::task::Task;
use crate::task::flow::Flow;

/// Where a run of the stepper ends, and what is to be done on the way.
pub(super) trait Stops {
    /// Why a run has ended.
    type Why;

    /// Whether it has a look at the way from one system call to the next. If not, several of them are
    /// made in a row, and nothing here is asked between them.
    const LOOKS: bool = true;

    /// Between two events or pieces of guest code.
    fn look(&mut self, _at: &mut Stepper) -> Result<Option<Self::Why>> {
        Ok(None)
    }

    /// The thread is about to run guest code; `step`: one instruction only.
    fn before_code(&mut self, _at: &mut Stepper, _step: bool) -> Result<Pace<Self::Why>> {
        Ok(Pace::Free)
    }

    /// Guest code has run for so many ticks, up to this stop. Whether the stop was made for a stop of
    /// this run, so that there is nothing else to do about it.
    fn takes(&mut self, _at: &mut Stepper, _stop: &Stop, _ticks: u64) -> bool {
        false
    }

    /// The thread has executed guest code, and no event is due.
    fn advanced(&mut self, _at: &Stepper) -> Option<Self::Why> {
        None
    }

    /// An event is about to happen.
    fn before_event(&mut self, _at: &mut Stepper, _due: &Due) -> Result<Option<Self::Why>> {
        Ok(None)
    }

    /// An event has happened; its consequence is yet to be drawn.
    fn happened(&mut self, _at: &mut Stepper, _flow: &Flow) -> Result<()> {
        Ok(())
    }

    /// The process has gone on from an event, or has ended with it.
    fn settled(&mut self, _at: &mut Stepper) -> Option<Self::Why> {
        None
    }
}

/// A run to the end.
pub(super) struct NoStops;

impl Stops for NoStops {
    type Why = std::convert::Infallible;

    const LOOKS: bool = false;
}

/// Checksums of memory behind events.
impl Stops for Checksums {
    type Why = std::convert::Infallible;

    fn happened(&mut self, at: &mut Stepper, flow: &Flow) -> Result<()> {
        match flow {
            Flow::ProcessEnd(_) => self.take(&at.task, state::events()),
            _ => self.tick(&at.task, state::events()),
        }
    }
}

/// A replaying process, and where it is.
pub(super) struct Stepper {
    pub session: Session,
    /// The task whose turn it is; at the end, the last one that there was.
    pub task: Box<Task>,
    /// Turns that have been taken.
    pub turn: u64,
    /// Instructions since the last tick or event, if known.
    pub steps: Option<u64>,
    /// How the process has ended, if it has.
    pub ended: Option<Ended>,
}

impl Stepper {
    /// Before the first event of a process.
    pub fn new(session: Session, mut task: Box<Task>) -> Self {
        session::adopt(&mut task);
        Self {
            session,
            task,
            turn: 0,
            steps: Some(0),
            ended: None,
        }
    }

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
        S: Stops<Why = std::convert::Infallible>,
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
        let task = &mut self.task;
        if task.parked {
            let parent = task.vforked.is_some() && task.tape.at_end()?;
            let due = if parent { Due::Parent } else { Due::Resumed };
            return self.event(stops, due);
        }
        // The short way to a system call.
        if let Some(ticks) = task.tape.next_call() {
            return match S::LOOKS {
                true => self.execute(stops, Toward::own(ticks)),
                false => self.calls(stops, ticks),
            };
        }
        match target(task)? {
            Target::Own { ticks } => self.execute(stops, Toward::own(ticks)),
            Target::Position(position) if position.is_here(task, self.steps) => {
                self.event(stops, Due::Position(position))
            }
            Target::Position(position) => self.execute(stops, Toward::position(position.ticks)),
            Target::Start => self.event(stops, Due::Start),
            Target::Image => self.event(stops, Due::Image),
            Target::End if task.vforked.is_some() => self.event(stops, Due::Parent),
            Target::End if !self.session.goes_on(task)? => self.event(stops, Due::End),
            // The thread gave the baton away once more: inside a call that never returned.
            Target::End => self.execute(stops, Toward::own(NEVER)),
        }
    }

    /// An event that is due.
    pub(super) fn event<S: Stops>(&mut self, stops: &mut S, due: Due) -> Result<Option<S::Why>> {
        if let Some(why) = stops.before_event(self, &due)? {
            return Ok(Some(why));
        }
        let flow = due.happen(&mut self.task)?;
        self.settle(stops, flow)
    }

    /// Draws the consequence of an event.
    pub(super) fn settle<S: Stops>(&mut self, stops: &mut S, flow: Flow) -> Result<Option<S::Why>> {
        self.session.collect(&self.task);
        stops.happened(self, &flow)?;
        if !matches!(flow, Flow::Continue) {
            self.change_turn(flow)?;
        }
        self.steps = Some(0);
        Ok(stops.settled(self))
    }

    fn change_turn(&mut self, flow: Flow) -> Result<()> {
        let parks = matches!(flow, Flow::Park);
        let (slot, process) = (self.task.slot, self.task.process.index);
        self.ended = self.session.settle(&mut self.task, flow)?;
        match self.ended {
            Some(Ended::CutOff) => session::check_cut_off(process)?,
            None if parks || self.task.slot != slot => self.turn += 1,
            _ => {}
        }
        Ok(())
    }
}
