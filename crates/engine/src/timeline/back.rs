//! Going backwards: from the nearest snapshot before, forward to the last place that counts.

use super::last_hit::Found;
use super::present::{Stopped, Timeline};
use super::replay_process::{Interrupter, ReplayProcess};
use super::route::{DrivenReplay, Route};
use super::travel::{lost, run_to};
use crate::failure::{Failure, Result};
use crate::guide::point::{Point, Steps};
use crate::guide::protocol::{Hit, Past, ReplayStatus, RunRequest, StopReason, StopSet};

/// Turns of other threads that one reverse step may have to go back over. A bound against
/// damaged traces only: each round is one turn of the thread.
const ROUNDS: usize = 64;

impl Timeline {
    /// Goes back to the last stop before the present position, or to the start.
    ///
    /// # Errors
    /// Divergence.
    pub fn backward(&mut self, wanted: &mut dyn Interrupter) -> Result<Stopped> {
        self.forget_changes();
        if self.stops == StopSet::default() {
            return self.goto_start();
        }
        let stops = self.stops.clone();
        match self.last_hit(&stops, self.status, wanted)? {
            SearchResult::Hit(found) => {
                let (hit, host, status) = *found;
                (self.current, self.status) = (host, status);
                Ok(Stopped::Hit(hit))
            }
            SearchResult::Nothing => self.goto_start(),
            SearchResult::Interrupted => Ok(Stopped::Interrupted),
        }
    }

    /// The last hit before a position, with a host that stands right before it.
    pub(super) fn last_hit(
        &mut self,
        stops: &StopSet,
        end: ReplayStatus,
        wanted: &mut dyn Interrupter,
    ) -> Result<SearchResult> {
        if self.jobs > 1 && !self.images.is_empty() {
            return match self.last_hit_in_parts(stops, end, wanted)? {
                Found::Hit(hit) => self.stand_before(hit, wanted),
                Found::Nothing => Ok(SearchResult::Nothing),
                Found::Interrupted => Ok(SearchResult::Interrupted),
            };
        }
        let (mut limit, mut ended) = (end.point, end.ended.is_some());
        loop {
            let before = |at: &Point, over: bool| !over && (ended || at.is_before(&limit));
            let Some((mut host, from)) = self.nearest(before)? else {
                return Ok(SearchResult::Nothing);
            };
            let route = Route {
                from,
                run: RunRequest {
                    until: (!ended).then_some(limit),
                    // It is not before the present position, but before a stretch that has been searched.
                    with_end: limit != end.point,
                    ..RunRequest::to_the_end()
                },
                stops,
                present: Some(end.work),
            };
            let ran = self.drive(&mut DrivenReplay::Other(&mut host), &route, wanted)?;
            match ran.why {
                StopReason::Interrupted => return Ok(SearchResult::Interrupted),
                StopReason::Passed => return Err(lost(&limit, &ran.status.point)),
                _ => {}
            }
            if let Some(hit) = ran.last {
                return self.stand_before(hit, wanted);
            }
            // From here the stretch before `from` remains.
            if from.point == self.start {
                return Ok(SearchResult::Nothing);
            }
            (limit, ended) = (from.point, false);
        }
    }

    /// A host that stands right before a hit.
    pub(super) fn stand_before(
        &mut self,
        hit: Hit,
        wanted: &mut dyn Interrupter,
    ) -> Result<SearchResult> {
        let (host, status, why) = self.visit(hit.before, wanted)?;
        Ok(match why {
            StopReason::Interrupted => SearchResult::Interrupted,
            _ => SearchResult::Hit(Box::new((hit, host, status))),
        })
    }

    /// Goes back to right before the last instruction (or event) of a thread.
    ///
    /// # Errors
    /// Divergence.
    pub fn step_back(&mut self, slot: u32, wanted: &mut dyn Interrupter) -> Result<Stopped> {
        self.forget_changes();
        let mut there = None;
        for _ in 0..ROUNDS {
            let (host, status) = match &mut there {
                Some((host, status)) => (host, *status),
                None => (&mut self.current, self.status),
            };
            let past = host.past(slot)?;
            match self.before_last(&past, status.point, wanted)? {
                Back::There(host, status) => {
                    (self.current, self.status) = (host, status);
                    return Ok(Stopped::Stepped);
                }
                Back::Start => return self.goto_start(),
                Back::Interrupted => return Ok(Stopped::Interrupted),
                // The same state of the thread, at the end of an earlier turn.
                Back::Turn(point) => {
                    let (host, status, why) = self.visit(point, wanted)?;
                    if why == StopReason::Interrupted {
                        return Ok(Stopped::Interrupted);
                    }
                    there = Some((host, status));
                }
            }
        }
        Err(Failure::internal("a thread had too many empty turns"))
    }

    fn before_last(
        &mut self,
        past: &Past,
        mut point: Point,
        wanted: &mut dyn Interrupter,
    ) -> Result<Back> {
        let away = match past.left {
            Some(left) if !left.is_before(&self.start) => Back::Turn(left),
            _ => Back::Start,
        };
        if !past.running {
            return Ok(away);
        }
        if let Steps::Exact(n @ 1..) = point.steps {
            let target = Point {
                steps: Steps::Exact(n - 1),
                ..point
            };
            let (host, status, why) = self.visit(target, wanted)?;
            return Ok(Back::there(host, status, why));
        }
        // Instructions since the tick, or the beginning of the stretch, before the position.
        let mut walked = None;
        if point.steps != Steps::ZERO {
            walked = self.walk(point.ticks, &point, wanted)?;
            match walked {
                None => return Ok(Back::Interrupted),
                // Right at the tick, as it turns out.
                Some((.., 0)) => point.steps = Steps::ZERO,
                Some(_) => {}
            }
        }
        if point.steps == Steps::ZERO {
            if point.ticks == past.base {
                return self.before_stretch(past.began, away, wanted);
            }
            let ticked = Point {
                ticks: point.ticks - 1,
                ..point
            };
            if ticked.is_before(&self.start) {
                return Ok(Back::Start);
            }
            walked = self.walk(ticked.ticks, &point, wanted)?;
        }
        let Some((mut base, ticked, n)) = walked else {
            return Ok(Back::Interrupted);
        };
        if n == 0 {
            return Err(Failure::internal("no instruction leads to a tick"));
        }
        let target = Point {
            steps: Steps::Exact(n - 1),
            ..ticked
        };
        let ran = base.run(&run_to(target), &StopSet::default(), wanted)?;
        match ran.why {
            StopReason::Until | StopReason::Interrupted => {
                Ok(Back::there(base, ran.status, ran.why))
            }
            _ => Err(lost(&target, &ran.status.point)),
        }
    }

    /// A host at a tick of the stretch that a position is in, and how many instructions lead
    /// from there to the position. `None`: interrupted.
    fn walk(
        &mut self,
        ticks: u64,
        to: &Point,
        wanted: &mut dyn Interrupter,
    ) -> Result<Option<(ReplayProcess, Point, u64)>> {
        let ticked = Point {
            ticks,
            steps: Steps::ZERO,
            ..*to
        };
        let (mut walker, mut at, why) = self.visit(ticked, wanted)?;
        if why == StopReason::Interrupted {
            return Ok(None);
        }
        let base = walker.fork()?;
        let n = count(&mut walker, &mut at, to, wanted)?;
        Ok(n.map(|n| (base, ticked, n)))
    }

    /// Before the event that a stretch began with; `away` if it began with a turn.
    fn before_stretch(
        &mut self,
        began: Option<Point>,
        away: Back,
        wanted: &mut dyn Interrupter,
    ) -> Result<Back> {
        let Some(began) = began else {
            return Ok(away);
        };
        if began.is_before(&self.start) {
            return Ok(Back::Start);
        }
        let (host, status, why) = self.visit(began, wanted)?;
        Ok(Back::there(host, status, why))
    }
}

/// Counts the instructions from where a host stands, at a tick, to a position behind it
/// before the next tick, or at that tick. `None`: interrupted.
fn count(
    host: &mut ReplayProcess,
    at: &mut ReplayStatus,
    to: &Point,
    wanted: &mut dyn Interrupter,
) -> Result<Option<u64>> {
    let run = run_to(*to);
    if to.ticks == at.point.ticks && to.steps != Steps::Event {
        let ran = host.run(&run, &StopSet::default(), wanted)?;
        return match (ran.why, ran.status.point.steps) {
            (StopReason::Until, Steps::Exact(n)) => Ok(Some(n)),
            (StopReason::Interrupted, _) => Ok(None),
            _ => Err(lost(to, &ran.status.point)),
        };
    }
    let mut n = 0;
    loop {
        let step = RunRequest {
            until: Some(*to),
            step: Some((at.slot, 1)),
            ..run
        };
        let ran = host.run(&step, &StopSet::default(), wanted)?;
        match ran.why {
            StopReason::Stepped => n += 1,
            // The last step has brought it there, or nothing had to.
            StopReason::Until => {
                let exactly = ran.status.point.key() == at.point.key();
                return Ok(Some(n + u64::from(!exactly)));
            }
            StopReason::Ended => return Ok(Some(n)),
            StopReason::Interrupted => return Ok(None),
            _ => return Err(lost(to, &ran.status.point)),
        }
        *at = ran.status;
    }
}

/// The result of a search backwards.
pub(super) enum SearchResult {
    Hit(Box<(Hit, ReplayProcess, ReplayStatus)>),
    Nothing,
    Interrupted,
}

/// The place before a thread's position.
enum Back {
    There(ReplayProcess, ReplayStatus),
    Turn(Point),
    Start,
    Interrupted,
}

impl Back {
    /// The result of a replay to that place.
    fn there(host: ReplayProcess, status: ReplayStatus, why: StopReason) -> Self {
        match why {
            StopReason::Interrupted => Self::Interrupted,
            _ => Self::There(host, status),
        }
    }
}
