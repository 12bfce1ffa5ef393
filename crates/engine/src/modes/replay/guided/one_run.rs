//! One run of a guided replay: where it ends, and the hits on the way.

use relive_dbt::Stop;

use super::condition;
use super::goal::{Goal, SLICE};
use super::guidance::{Guidance, place};
use super::hits::{Event, next_signal};
use super::look;
use super::track::point;
use crate::failure::Result;
use crate::flow::Flow;
use crate::guide::point::{Point, Steps};
use crate::guide::protocol::{AtStop, Hit, RunRequest, StopEvent, StopReason};
use crate::modes::replay::events::{DueEvent, Happening};
use crate::modes::replay::hook_state;
use crate::modes::replay::stepper::process::Stepper;
use crate::modes::replay::stepper::stops::{Pace, Stops};
use crate::modes::replay::watching;
use crate::siginfo::signo;

/// Events and pieces of guest code between two looks for orders.
const LOOK: u32 = 256;
/// Bytes of caught output after which a run ends early.
const MUCH_OUTPUT: usize = 256 << 10;

/// The state of one run.
pub struct Going<'r> {
    guide: &'r mut Guidance,
    run: &'r RunRequest,
    goal: Goal,
    /// Says that there is a new order.
    wanted: &'r mut dyn FnMut() -> bool,
    last: Option<Hit>,
    /// A hit to report behind the access that is being made.
    access: Option<Hit>,
    looks: u32,
    /// Work when the run began.
    start: u64,
    /// Ticks of the running thread at the last look.
    ticks: Option<u64>,
    /// Where guest code began to run: thread and pc.
    place: (u32, u64),
    /// The event that is happening.
    event: Option<Event>,
}

impl<'r> Going<'r> {
    pub fn new(
        guide: &'r mut Guidance,
        run: &'r RunRequest,
        wanted: &'r mut dyn FnMut() -> bool,
    ) -> Self {
        Self {
            start: guide.track.work,
            guide,
            run,
            goal: Goal::of(run),
            wanted,
            last: None,
            access: None,
            looks: 0,
            ticks: None,
            place: (0, 0),
            event: None,
        }
    }

    /// The last stop seen.
    pub fn last(&self) -> Option<Hit> {
        self.last
    }

    /// Notes a stop; whether the run ends there.
    fn hit(&mut self, hit: Hit) -> bool {
        self.last = Some(hit);
        matches!(self.run.search, AtStop::Stop)
    }

    /// As [`Going::hit`]: why the run ends, if it does.
    fn found(&mut self, hit: Hit) -> Option<StopReason> {
        self.hit(hit).then_some(StopReason::Hit(hit))
    }

    /// Counts something that happens at an event, once: also where the run ended there and
    /// goes on from there. Says whether the run ends now.
    fn tell(&mut self, at: &Stepper, what: StopEvent, before: Point) -> Option<StopReason> {
        if self.guide.told.event.replace(before.event) == Some(before.event) {
            return None;
        }
        self.found(hit(at, what, before))
    }

    /// The breakpoint at the present pc, if it has not been reported and has no condition, or a
    /// condition that holds.
    fn breakpoint(&mut self, at: &Stepper) -> Option<Hit> {
        let (guide, pc) = (&mut *self.guide, at.task.ctx.rip);
        if !guide.breakpoints.contains(&pc) || guide.told.passed == Some(place(at)) {
            return None;
        }
        guide.told.passed = Some(place(at));
        let read = |addr, bytes: &mut [u8]| look::read_whole(at.task.machine(), addr, bytes);
        let mut all = guide.stops.conditions.iter();
        all.find(|(at, _)| *at == pc)
            .is_none_or(|(_, conditions)| condition::holds(conditions, &at.task.ctx, &read))
            .then(|| hit(at, StopEvent::Breakpoint(pc), guide.here(at)))
    }

    /// Whether only one instruction may be executed now.
    fn must_step(&self, at: &Stepper) -> bool {
        self.goal.must_step(at)
            || self.guide.told.passed == Some(place(at))
            || self.guide.guard.is_alone(place(at))
    }

    /// The access to watched memory that the next instruction makes, if it has not been reported.
    fn about_to_touch(&self, at: &Stepper) -> Result<Option<Hit>> {
        let touched = watching::touched(&at.task, &self.guide.stops.watchpoints)?;
        Ok(touched.map(|(watch, addr)| {
            let call = None;
            let what = StopEvent::Watchpoint { watch, addr, call };
            hit(at, what, self.guide.here(at))
        }))
    }

    /// Reports a stop at an event that a stop of translated code is about to bring about.
    fn before_stop(
        &mut self,
        at: &mut Stepper,
        stop: &Stop,
        before: Point,
    ) -> Result<Option<StopReason>> {
        let fault = matches!(
            stop,
            Stop::Fault { .. } | Stop::Trap { .. } | Stop::NoCode { .. } | Stop::BadTarget { .. }
        );
        if fault
            && self.guide.stops.signals
            && self.guide.told.event != Some(before.event)
            && let Some(sig) = next_signal(&mut at.task)?
            && let Some(why) = self.tell(at, StopEvent::Signal(sig), before)
        {
            return Ok(Some(why));
        }
        let nr = at.task.ctx.gpr[0] as u32;
        if matches!(stop, Stop::Syscall { .. }) && self.catches(nr) {
            return Ok(self.tell(at, StopEvent::Call(nr), before));
        }
        Ok(None)
    }

    /// Whether the stops include this system call.
    fn catches(&self, nr: u32) -> bool {
        let calls = self.guide.stops.calls.as_ref();
        calls.is_some_and(|all| all.is_empty() || all.contains(&nr))
    }

    /// Reports the hits of the event that has happened, in so far as the run asks for them.
    fn found_behind(&mut self, at: &Stepper, event: &Event) -> Option<StopReason> {
        let mut hits = event.hits(at, &self.guide.stops, self.guide.goal);
        if let Some(why) = hits.find_map(|hit| self.found(hit)) {
            return Some(why);
        }
        let returned = event.returned(at).filter(|nr| self.catches(*nr))?;
        match self.goal.is_there(at) {
            Some(_) if !self.run.with_end => None,
            _ => self.found(hit(at, StopEvent::Returned(returned), self.guide.here(at))),
        }
    }

    /// An event is about to happen: notes its place and its thread.
    fn before(&mut self, at: &Stepper, before: Point, call: Option<u32>) {
        self.guide.track.before_event(at, before);
        self.event = Some(Event::due(at, before, call, &self.guide.stops));
    }
}

impl Stops for Going<'_> {
    type Why = StopReason;

    fn look(&mut self, at: &mut Stepper) -> Result<Option<StopReason>> {
        let ticks = at.task.ctx.ticks();
        let long = self.ticks.is_some_and(|t| ticks.wrapping_sub(t) >= SLICE);
        self.ticks = Some(ticks);
        let ends = self.guide.guard.amid().is_none();
        if long && ends && (self.wanted)() {
            return Ok(Some(StopReason::Interrupted));
        }
        if let Some(why) = self.goal.ends(at) {
            return Ok(Some(why));
        }
        let work = self.guide.track.work;
        let done = self
            .run
            .work
            .is_some_and(|w| work >= w || has_much_output());
        if ends && done && work > self.start {
            return Ok(Some(StopReason::Work));
        }
        self.looks += 1;
        let orders = ends && self.looks.is_multiple_of(LOOK) && (self.wanted)();
        Ok(orders.then_some(StopReason::Interrupted))
    }

    fn before_code(&mut self, at: &mut Stepper, step: bool) -> Result<Pace<StopReason>> {
        if let Some(hit) = self.breakpoint(at)
            && let Some(why) = self.found(hit)
        {
            return Ok(Pace::Stop(why));
        }
        self.place = place(at);
        if step || self.must_step(at) {
            if let Some(hit) = self.about_to_touch(at)?
                && self.hit(hit)
            {
                self.access = Some(hit);
            }
            return Ok(Pace::Step);
        }
        let work = self.guide.track.work;
        if !self.guide.guard.protect(work, self.run.fast)? {
            let here = self.guide.here(at);
            tracing::debug!(target: "watch", "nothing is write-protected from {here} on");
        }
        Ok(Pace::Within(self.goal.most(at)))
    }

    fn takes(&mut self, at: &mut Stepper, stop: &Stop, ticks: u64) -> Result<bool> {
        let guide = &mut *self.guide;
        guide.track.work += ticks;
        if is_end_of_budget(stop) {
            return Ok(false);
        }
        let mine = guide.guard.takes(at, stop)? || matches!(stop, Stop::Breakpoint { .. });
        if ticks != 0 || place(at) != self.place || guide.guard.amid().is_some() {
            guide.told.passed = None;
        }
        if !mine {
            self.access = None;
            self.before(at, point(at, Steps::Event), None);
        }
        Ok(mine)
    }

    fn advanced(&mut self, at: &Stepper) -> Option<StopReason> {
        self.guide.told.passed = None;
        self.guide.guard.moved();
        self.goal.count(at.task.slot);
        self.access.take().map(StopReason::Hit)
    }

    fn before_event(&mut self, at: &mut Stepper, due: &DueEvent) -> Result<Option<StopReason>> {
        self.guide.guard.unprotect();
        let before = match due {
            DueEvent::Position(_) => self.guide.here(at),
            _ if self.goal.is_at_event(at) => return Ok(Some(StopReason::Until)),
            _ => point(at, Steps::Event),
        };
        let found = match due {
            DueEvent::Position(position) => {
                let sig = match &position.what {
                    Happening::Signal(info) => Some(signo(info)),
                    Happening::Killed(sig) => Some(*sig),
                    Happening::Switch | Happening::Change(_) => None,
                };
                sig.filter(|_| self.guide.stops.signals)
                    .and_then(|sig| self.tell(at, StopEvent::Signal(sig), before))
            }
            DueEvent::Stop(stop) => self.before_stop(at, stop, before)?,
            _ => None,
        };
        if found.is_none() {
            let calls = matches!(due, DueEvent::Stop(Stop::Syscall { .. })) || at.task.parked;
            let call = calls.then_some(at.task.ctx.gpr[0] as u32);
            self.before(at, before, call);
        }
        Ok(found)
    }

    fn happened(&mut self, at: &mut Stepper, flow: &Flow) -> Result<()> {
        if let Some(event) = &mut self.event {
            event.happened(at, flow, watching::noticed());
        }
        self.guide.track.happened(at, flow)
    }

    fn settled(&mut self, at: &mut Stepper) -> Option<StopReason> {
        self.guide.track.settled(at);
        self.guide.told.passed = None;
        self.guide.guard.passed_event();
        let event = self.event.take()?;
        if event.goes_on() {
            self.goal.count(event.slot);
        }
        let others = watching::noticed().map(|written| event.others(written));
        others
            .and_then(|hit| self.found(hit))
            .or_else(|| self.found_behind(at, &event))
    }
}

fn hit(at: &Stepper, what: StopEvent, before: Point) -> Hit {
    Hit {
        what,
        before,
        slot: at.task.slot,
        pc: at.task.ctx.rip,
    }
}

fn is_end_of_budget(stop: &Stop) -> bool {
    matches!(
        stop,
        Stop::Budget { .. } | Stop::Pause { .. } | Stop::Stepped { .. }
    )
}

/// Whether so much output has been caught that it should be handed on.
fn has_much_output() -> bool {
    hook_state::with(|s| s.caught.as_ref().is_some_and(|o| o.0.len() > MUCH_OUTPUT))
}
