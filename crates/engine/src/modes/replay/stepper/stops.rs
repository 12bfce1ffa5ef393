//! Where a run of the stepper ends, and its looks at the process on the way. Must never change the
//! course of the process.

use std::convert::Infallible;

use relive_dbt::Stop;

use super::process::Stepper;
use crate::failure::Result;
use crate::flow::Flow;
use crate::modes::replay::checksum::Checksums;
use crate::modes::replay::events::DueEvent;
use crate::modes::replay::hook_state;

/// How the stops of a run let guest code run.
pub enum Pace<W> {
    /// As it is fastest.
    Free,
    /// Not beyond so many ticks.
    Within(u64),
    /// One instruction.
    Step,
    /// Not at all: the run ends here.
    Stop(W),
}

/// Where a run of the stepper ends, and its work on the way.
pub trait Stops {
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
    ///
    /// # Errors
    /// It cannot be told.
    fn takes(&mut self, _at: &mut Stepper, _stop: &Stop, _ticks: u64) -> Result<bool> {
        Ok(false)
    }

    /// The thread has executed guest code, and no event is due.
    fn advanced(&mut self, _at: &Stepper) -> Option<Self::Why> {
        None
    }

    /// An event is about to happen.
    fn before_event(&mut self, _at: &mut Stepper, _due: &DueEvent) -> Result<Option<Self::Why>> {
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
pub struct NoStops;

impl Stops for NoStops {
    type Why = Infallible;

    const LOOKS: bool = false;
}

/// Checksums of memory behind events.
impl Stops for Checksums {
    type Why = Infallible;

    fn happened(&mut self, at: &mut Stepper, flow: &Flow) -> Result<()> {
        match flow {
            Flow::ProcessEnd(_) => self.take(&at.task, hook_state::events()),
            _ => self.tick(&at.task, hook_state::events()),
        }
    }
}
