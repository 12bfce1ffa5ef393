//! Going forward, and to a position.

use super::present::{Stopped, Timeline};
use super::replay_process::{Interrupter, ReplayProcess};
use super::route::{DrivenReplay, Route};
use super::snapshots::Snapshot;
use crate::failure::{Failure, Result};
use crate::guide::point::Point;
use crate::guide::protocol::{AtStop, Ran, ReplayStatus, RunRequest, StopReason, StopSet};

impl Timeline {
    /// Goes forward to a position, or to the end, without stops and snapshots.
    ///
    /// # Errors
    /// Divergence.
    pub fn forward_to(
        &mut self,
        to: Option<Point>,
        wanted: &mut dyn Interrupter,
    ) -> Result<Stopped> {
        self.forget_changes();
        let to = to.unwrap_or(Point::behind_event(u64::MAX));
        if self.status.point == to || to.is_before(&self.status.point) {
            return Ok(Stopped::There);
        }
        let ran = self.current.run(&run_to(to), &StopSet::default(), wanted)?;
        self.status = ran.status;
        Ok(stopped(&ran))
    }

    /// Goes forward to the next stop, or to the end.
    ///
    /// # Errors
    /// Divergence.
    pub fn forward(&mut self, wanted: &mut dyn Interrupter) -> Result<Stopped> {
        self.go_on(None, None, wanted)
    }

    /// Lets a thread execute `count` instructions, while others may run too.
    ///
    /// # Errors
    /// Divergence.
    pub fn step(&mut self, slot: u32, count: u64, wanted: &mut dyn Interrupter) -> Result<Stopped> {
        self.go_on(None, Some((slot, count)), wanted)
    }

    fn go_on(
        &mut self,
        until: Option<Point>,
        step: Option<(u32, u64)>,
        wanted: &mut dyn Interrupter,
    ) -> Result<Stopped> {
        self.forget_changes();
        let run = RunRequest {
            until,
            with_end: false,
            step,
            search: AtStop::Stop,
            leave: true,
            work: None,
            output: true,
            fast: false,
        };
        let stops = self.stops.clone();
        let mut host = self.current.fork()?;
        std::mem::swap(&mut host, &mut self.current);
        // If it fails, the timeline stays where it was.
        let route = Route {
            from: self.status,
            run,
            stops: &stops,
            present: None,
        };
        let outcome = self.drive(&mut DrivenReplay::Current, &route, wanted);
        match outcome {
            Ok(ran) => {
                let (status, here) = (self.status, ran.status.work);
                if status.ended.is_none() {
                    self.snapshots.add(Snapshot { status, host }, here);
                }
                self.status = ran.status;
                Ok(stopped(&ran))
            }
            Err(e) => {
                self.current = host;
                Err(e)
            }
        }
    }

    /// Goes to a position, exactly.
    ///
    /// # Errors
    /// There is no such position, or divergence.
    pub fn goto(&mut self, point: Point, wanted: &mut dyn Interrupter) -> Result<Stopped> {
        self.forget_changes();
        let (host, status, why) = self.visit(point, wanted)?;
        (self.current, self.status) = (host, status);
        Ok(match why {
            StopReason::Interrupted => Stopped::Interrupted,
            _ => Stopped::There,
        })
    }

    /// Goes to where so many events have happened in the process, or to its end if there are
    /// fewer.
    ///
    /// # Errors
    /// Divergence.
    pub fn goto_event(&mut self, event: u64, wanted: &mut dyn Interrupter) -> Result<Stopped> {
        self.forget_changes();
        let (host, status, why) = self.behind_event(event, wanted)?;
        if why == StopReason::Interrupted {
            (self.current, self.status) = (host, status);
            return Ok(Stopped::Interrupted);
        }
        (self.current, self.status) = (host, status);
        Ok(match status.ended {
            Some(how) => Stopped::Ended(how),
            None => Stopped::There,
        })
    }

    /// A host right behind the event of this number, or where the process begins or ends.
    pub(super) fn behind_event(
        &mut self,
        event: u64,
        wanted: &mut dyn Interrupter,
    ) -> Result<(ReplayProcess, ReplayStatus, StopReason)> {
        let start = self.start;
        // One where as many events have happened may stand ticks behind the last of them.
        let before = |at: &Point, ended: bool| at.event < event && !ended || *at == start;
        let nearest = self.nearest(before)?;
        let (mut host, status) =
            nearest.ok_or_else(|| Failure::internal("the start has a snapshot"))?;
        if status.point.event >= event {
            return Ok((host, status, StopReason::Until));
        }
        let route = Route {
            from: status,
            run: run_to(Point::behind_event(event)),
            stops: &StopSet::default(),
            present: None,
        };
        let ran = self.drive(&mut DrivenReplay::Other(&mut host), &route, wanted)?;
        Ok((host, ran.status, ran.why))
    }

    /// Goes to the end of the process.
    ///
    /// # Errors
    /// Divergence.
    pub fn goto_end(&mut self, wanted: &mut dyn Interrupter) -> Result<Stopped> {
        self.goto_event(u64::MAX, wanted)
    }

    /// Goes to the beginning of the process.
    ///
    /// # Errors
    /// No copy can be made.
    pub fn goto_start(&mut self) -> Result<Stopped> {
        self.forget_changes();
        let first = self.snapshots.first();
        (self.current, self.status) = (first.host.fork()?, first.status);
        Ok(Stopped::Start)
    }

    /// A host that stands at a position, from the nearest snapshot before it.
    pub(super) fn visit(
        &mut self,
        point: Point,
        wanted: &mut dyn Interrupter,
    ) -> Result<(ReplayProcess, ReplayStatus, StopReason)> {
        let before = |at: &Point, ended: bool| !ended && (*at == point || at.is_before(&point));
        let (mut host, status) = self.nearest(before)?.ok_or_else(|| {
            let start = self.start;
            Failure::setup(format!(
                "{point} is before the beginning of the process, which is at {start}"
            ))
        })?;
        let route = Route {
            from: status,
            run: run_to(point),
            stops: &StopSet::default(),
            present: Some(self.status.work.max(status.work)),
        };
        let ran = self.drive(&mut DrivenReplay::Other(&mut host), &route, wanted)?;
        match ran.why {
            StopReason::Until | StopReason::Interrupted => Ok((host, ran.status, ran.why)),
            StopReason::Ended if ran.status.point == point => {
                Ok((host, ran.status, StopReason::Until))
            }
            _ => Err(Failure::setup(format!(
                "the recording has no position {point}: it went past it to {}",
                ran.status.point
            ))),
        }
    }
}

/// To a position, past all stops.
pub(super) fn run_to(until: Point) -> RunRequest {
    RunRequest {
        until: Some(until),
        ..RunRequest::to_the_end()
    }
}

pub(super) fn stopped(ran: &Ran) -> Stopped {
    match (ran.why, ran.status.ended) {
        (StopReason::Hit(hit), _) => Stopped::Hit(hit),
        (StopReason::Ended, Some(how)) => Stopped::Ended(how),
        (StopReason::Stepped, _) => Stopped::Stepped,
        (StopReason::Interrupted, _) => Stopped::Interrupted,
        _ => Stopped::There,
    }
}

/// A replay went past a place that it has.
pub(super) fn lost(wanted: &Point, there: &Point) -> Failure {
    Failure::internal(format!(
        "a position of this very recording was not found: {wanted}; the replay came to {there}"
    ))
}
