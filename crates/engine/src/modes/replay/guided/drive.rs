//! Going forward under guidance: the loop around guest code of a guided replay.
//!
//! It does what `advance` does, event by event, with the same checks of every event, but it
//! may stop between any two instructions, and it knows where it is (`Point`).

mod events;
mod execute;

use std::collections::{BTreeSet, HashMap};

use super::watching;
use super::write_watch::WriteWatch;
use crate::failure::{Failure, Result};
use crate::machine::machine;
use crate::modes::replay::advance::{Target, advance, describe, target};
use crate::modes::replay::divergence;
use crate::modes::replay::session::{self, Session};
use crate::signals::SigInfo;
use crate::tape::digest;
use crate::task::{Flow, Task};
use crate::timeline::{
    Ended, Hit, Output, Past, Point, Ran, Run, Search, Status, Steps, Stops, Watchpoint, What, Why,
};

/// Ticks after which a running thread looks for orders.
const SLICE: u64 = 1 << 22;
/// Iterations of the loop (events, stops) between two looks.
const LOOK: u32 = 256;
/// Work that an event counts for.
const EVENT_WORK: u64 = 64;
/// Bytes of caught output after which a run ends early.
const MUCH_OUTPUT: usize = 256 << 10;
/// Of the sixteen registers.
const RSP: usize = 4;
/// Ticks that are never reached.
const NEVER: u64 = u64::MAX / 4;

/// A guided replay.
pub struct Driver {
    session: Session,
    /// The task whose turn it is; at the end, the last one that there was.
    task: Box<Task>,
    /// Index of the process to replay.
    goal: u32,
    stops: Stops,
    pub(super) breakpoints: BTreeSet<u64>,
    turn: u64,
    /// Instructions since the last tick or event, if known.
    steps: Option<u64>,
    /// See [`Past`].
    base: u64,
    began: Option<Point>,
    left: HashMap<u32, Point>,
    work: u64,
    ended: Option<Ended>,
    /// A signal that has been reported, by the number of its event.
    told: Option<u64>,
    /// The last fault: events before it, and what it says.
    faulted: Option<(u64, SigInfo)>,
    /// A breakpoint that has been reported: slot and pc.
    passed: Option<(u32, u64)>,
    /// An instruction that must run alone, because it may touch watched memory.
    alone: Option<(u32, u64)>,
    guard: Guard,
    /// The thread is in the middle of a repeated string instruction, as a write-protected page has stopped it
    /// there: the digest of its registers where it began. No run may end here.
    amid: Option<u32>,
    /// The program that runs: its path and where its first stack began.
    program: (Vec<u8>, u64),
}

/// What tells of accesses to watched memory.
enum Guard {
    /// Its pages cannot be written.
    WriteProtects(WriteWatch),
    /// Each access is checked by translated code.
    Checks,
    /// Nothing, as a run wants to be fast ([`Run::fast`]).
    Nothing,
}

impl Guard {
    fn of(watchpoints: &[Watchpoint]) -> Self {
        WriteWatch::around(watchpoints).map_or(Self::Checks, Self::WriteProtects)
    }
}

/// The state of one run.
struct Going<'r> {
    run: &'r Run,
    last: Option<Hit>,
    /// Steps that remain of `run.step`.
    left: u64,
    /// A hit to be told behind the access that is being made.
    access: Option<Hit>,
}

impl Going<'_> {
    /// Notes a stop; whether the run ends there.
    fn hit(&mut self, hit: Hit) -> bool {
        self.last = Some(hit);
        matches!(self.run.search, Search::Stop)
    }

    /// As [`Going::hit`]: why the run ends, if it does.
    fn found(&mut self, hit: Hit) -> Option<Why> {
        self.hit(hit).then_some(Why::Hit(hit))
    }
}

impl Driver {
    pub fn new(session: Session, mut task: Box<Task>, goal: u32) -> Self {
        session::adopt(&mut task);
        Self {
            session,
            task,
            goal,
            stops: Stops::default(),
            breakpoints: BTreeSet::new(),
            turn: 0,
            steps: Some(0),
            base: 0,
            began: None,
            left: HashMap::new(),
            work: 0,
            ended: None,
            told: None,
            faulted: None,
            passed: None,
            alone: None,
            guard: Guard::Checks,
            amid: None,
            program: (Vec::new(), 0),
        }
    }

    /// The program that runs: its path, and the stack pointer that it began with.
    pub fn program(&self) -> (&[u8], u64) {
        (&self.program.0, self.program.1)
    }

    /// All tasks that there are.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        let others = self.session.tasks.values().map(|t| &**t);
        std::iter::once(&*self.task).chain(others)
    }

    /// The task of a slot.
    pub fn task_mut(&mut self, slot: u32) -> Option<&mut Box<Task>> {
        if self.task.slot == slot {
            return Some(&mut self.task);
        }
        self.session.tasks.get_mut(&slot)
    }

    /// Gives the thread of a slot the turn, whatever the recording says.
    pub fn make_current(&mut self, slot: u32) -> Result<()> {
        if self.task.slot != slot {
            let next = self.session.tasks.remove(&slot);
            let next = next.ok_or_else(|| Failure::internal("the thread is there"))?;
            let old = std::mem::replace(&mut self.task, next);
            self.session.tasks.insert(old.slot, old);
            session::adopt(&mut self.task);
        }
        (self.steps, self.ended) = (None, None);
        Ok(())
    }

    /// Goes to where the followed process runs a program.
    pub fn begin(&mut self) -> Result<Status> {
        while self.ended.is_none()
            && (self.task.process.index != self.goal || self.task.ctx.rip == 0)
        {
            let before = self.here_at(Steps::Event);
            let more = self.session.goes_on(&mut self.task)?;
            let ticks = self.task.ctx.ticks();
            let flow = advance(&mut self.task, more)?;
            self.settle(flow, before, ticks)?;
        }
        match self.ended {
            None => Ok(self.status()),
            Some(_) => Err(Failure::setup(
                "the recording has no program of that process",
            )),
        }
    }

    pub fn set_stops(&mut self, stops: Stops) -> Result<()> {
        let breakpoints: BTreeSet<u64> = stops.breakpoints.iter().copied().collect();
        if breakpoints != self.breakpoints {
            self.breakpoints = breakpoints.clone();
            machine().memory().translator.set_breakpoints(breakpoints);
        }
        if stops.watchpoints != self.stops.watchpoints {
            watching::set(&stops.watchpoints);
            self.set_guard(Guard::of(&stops.watchpoints))?;
        }
        self.stops = stops;
        Ok(())
    }

    fn set_guard(&mut self, guard: Guard) -> Result<()> {
        self.unprotect_watched();
        self.guard = guard;
        watching::check(matches!(self.guard, Guard::Checks)).map_err(Failure::setup)
    }

    /// Before guest code runs at full speed: write-protects what is watched, if that can be.
    fn protect_watched(&mut self, fast: bool) -> Result<()> {
        let work = self.work;
        let Guard::WriteProtects(watch) = &mut self.guard else {
            return Ok(());
        };
        if watch.protect(work) {
            return Ok(());
        }
        tracing::debug!(target: "watch", "nothing is write-protected from {} on", self.here());
        self.set_guard(if fast { Guard::Nothing } else { Guard::Checks })
    }

    /// Before anything else than guest code happens.
    fn unprotect_watched(&mut self) {
        if let Guard::WriteProtects(watch) = &mut self.guard {
            watch.unprotect();
        }
    }

    /// Where we are.
    pub fn status(&self) -> Status {
        let task = &self.task;
        Status {
            point: self.here(),
            slot: task.slot,
            thread: task.index,
            tid: task.tid,
            process: task.process.index,
            pid: task.process.pid,
            pc: task.ctx.rip,
            work: self.work,
            ended: self.ended,
        }
    }

    pub fn past(&self, slot: u32) -> Past {
        let running = slot == self.task.slot;
        Past {
            running,
            base: self.base,
            began: self.began.filter(|_| running),
            left: self.left.get(&slot).copied(),
        }
    }

    /// A sum over memory and the registers of all threads.
    pub fn checksum(&self) -> u64 {
        let threads = self.tasks().fold(0u64, |sum, t| {
            let one = u64::from(digest(&t.ctx)) ^ u64::from(t.slot) << 32;
            sum.wrapping_add(one.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        });
        crate::modes::replay::checksum::memory().wrapping_add(threads)
    }

    fn here_at(&self, steps: Steps) -> Point {
        Point {
            event: session::events(),
            turn: self.turn,
            ticks: self.task.ctx.ticks(),
            steps,
        }
    }

    fn here(&self) -> Point {
        self.here_at(match self.steps {
            Some(n) => Steps::Exact(n),
            None => Steps::At {
                pc: self.task.ctx.rip,
                digest: self.amid.unwrap_or_else(|| digest(&self.task.ctx)),
            },
        })
    }

    fn at(&self) -> (u32, u64) {
        (self.task.slot, self.task.ctx.rip)
    }

    fn hit(&self, what: What, before: Point) -> Hit {
        Hit {
            what,
            before,
            slot: self.task.slot,
            pc: self.task.ctx.rip,
        }
    }

    /// Goes on as told; `wanted` says that there is a new order.
    pub fn run(&mut self, run: &Run, wanted: &mut dyn FnMut() -> bool) -> Result<(Ran, Output)> {
        let mut going = Going {
            run,
            last: None,
            left: run.step.map_or(0, |(_, n)| n),
            access: None,
        };
        self.passed = run.leave.then(|| self.at());
        if !run.leave {
            self.told = None;
        }
        session::with(|s| s.caught = run.output.then(Output::default));
        match self.guard {
            Guard::Nothing if !run.fast => self.set_guard(Guard::of(&self.stops.watchpoints))?,
            Guard::Checks if run.fast && !self.stops.watchpoints.is_empty() => {
                self.set_guard(Guard::Nothing)?;
            }
            _ => {}
        }
        let why = self.go(&mut going, wanted);
        self.unprotect_watched();
        let output = session::with(|s| s.caught.take()).unwrap_or_default();
        let ran = Ran {
            why: why?,
            last: going.last,
            status: self.status(),
            blind: matches!(self.guard, Guard::Nothing),
        };
        Ok((ran, output))
    }

    fn go(&mut self, going: &mut Going<'_>, wanted: &mut dyn FnMut() -> bool) -> Result<Why> {
        let mut looks = 0u32;
        let start = self.work;
        loop {
            if self.ended.is_some() {
                return Ok(Why::Ended);
            }
            if let Some(until) = &going.run.until
                && let Some(why) = self.compare(until)
            {
                return Ok(why);
            }
            if going.run.step.is_some() && going.left == 0 {
                return Ok(Why::Stepped);
            }
            let ends = self.amid.is_none();
            if ends
                && going
                    .run
                    .work
                    .is_some_and(|w| self.work >= w || has_much_output())
                && self.work > start
            {
                return Ok(Why::Work);
            }
            looks += 1;
            if ends && looks.is_multiple_of(LOOK) && wanted() {
                return Ok(Why::Interrupted);
            }
            let ticks = self.task.ctx.ticks();
            if let Some(why) = self.once(going)? {
                return Ok(why);
            }
            let long = self.task.ctx.ticks().wrapping_sub(ticks) >= SLICE;
            if long && self.amid.is_none() && wanted() {
                return Ok(Why::Interrupted);
            }
        }
    }

    /// Whether this is the position to go to, or behind it.
    fn compare(&self, until: &Point) -> Option<Why> {
        let here = self.here_at(Steps::ZERO);
        if here.key() != until.key() {
            // The ticks of another thread say nothing.
            let (h, u) = ((here.event, here.turn), (until.event, until.turn));
            let passed = h > u || h == u && here.ticks > until.ticks;
            return passed.then_some(Why::Passed);
        }
        match (until.steps, self.steps) {
            (Steps::Exact(n), Some(m)) if m < n => None,
            (Steps::Exact(n), Some(m)) if m == n => Some(Why::Until),
            (Steps::Exact(_), _) => Some(Why::Passed),
            (Steps::Event, _) => None,
            (Steps::At { pc, digest: d }, _) => {
                let ctx = &self.task.ctx;
                (ctx.rip == pc && digest(ctx) == d).then_some(Why::Until)
            }
        }
    }

    /// One stretch of guest code, or one event.
    fn once(&mut self, going: &mut Going<'_>) -> Result<Option<Why>> {
        let at_event = going.run.until.is_some_and(|u| {
            u.steps == Steps::Event && self.here_at(Steps::Event).key() == u.key()
        });
        let before = self.here_at(Steps::Event);
        if self.task.parked {
            if at_event {
                return Ok(Some(Why::Until));
            }
            return self.event(going, before, None);
        }
        let next = target(&mut self.task)?;
        if matches!(next, Target::Start | Target::End) {
            self.unprotect_watched();
        }
        let (limit, stepped) = match next {
            next if self.needs_no_code(&next) => {
                return match at_event {
                    true => Ok(Some(Why::Until)),
                    false => self.event(going, before, None),
                };
            }
            Target::End if !self.session.goes_on(&mut self.task)? => {
                return self.settled(going, Flow::Park, before, self.task.ctx.ticks());
            }
            Target::End | Target::Start => (NEVER, None),
            Target::Own { ticks } => (ticks, None),
            Target::Position {
                ticks,
                steps,
                digest,
                what,
            } => {
                let here = self.task.ctx.ticks();
                if ticks == here && self.steps == Some(u64::from(steps)) {
                    return self.position(going, steps, digest, what);
                }
                (ticks, Some(steps))
            }
        };
        crate::signals::finish_restart(&mut self.task);
        if self.breakpoints.contains(&self.task.ctx.rip) && self.passed != Some(self.at()) {
            self.passed = Some(self.at());
            let hit = self.hit(What::Breakpoint(self.task.ctx.rip), self.here());
            if self.is_meant()
                && let Some(why) = going.found(hit)
            {
                return Ok(Some(why));
            }
        }
        let step = self.must_step(going, limit, stepped.is_some());
        if step
            && let Some(hit) = self.about_to_touch()
            && going.hit(hit)
        {
            going.access = Some(hit);
        }
        self.execute(going, limit, stepped.is_some(), step)
    }

    /// Whether the breakpoint at the present pc has no condition, or one that holds.
    fn is_meant(&self) -> bool {
        let pc = self.task.ctx.rip;
        let mut all = self.stops.conditions.iter();
        all.find(|(at, _)| *at == pc)
            .is_none_or(|(_, conditions)| super::condition::holds(conditions, &self.task.ctx))
    }

    /// Whether the next event happens without any instruction before it.
    fn needs_no_code(&self, next: &Target) -> bool {
        matches!(next, Target::Start)
            || self.task.ctx.rip == 0
            || matches!(next, Target::End) && self.task.vforked.is_some()
    }

    /// Whether only one instruction may be executed now.
    fn must_step(&self, going: &Going<'_>, limit: u64, positional: bool) -> bool {
        let ticks = self.task.ctx.ticks();
        let last_tick = going
            .run
            .until
            .is_some_and(|u| u.key() == self.here_at(Steps::ZERO).key() && u.steps != Steps::Event);
        last_tick
            || positional && ticks == limit
            || self.passed == Some(self.at())
            || self.alone == Some(self.at())
            || going
                .run
                .step
                .is_some_and(|(slot, _)| slot == self.task.slot)
    }

    /// The access to watched memory that the next instruction makes, if it has not been told.
    fn about_to_touch(&self) -> Option<Hit> {
        let (watch, addr) = watching::touched(&self.task, &self.stops.watchpoints)?;
        Some(self.access(watch, addr, None))
    }

    fn access(&self, watch: Watchpoint, addr: u64, call: Option<u32>) -> Hit {
        self.hit(What::Watchpoint { watch, addr, call }, self.here())
    }

    /// Counts something that happens at an event, once: also where the run ended there and
    /// goes on from there. Says whether the run ends now.
    fn tell(&mut self, going: &mut Going<'_>, what: What, before: Point) -> Option<Why> {
        if self.told.replace(before.event) == Some(before.event) {
            return None;
        }
        going.found(self.hit(what, before))
    }

    fn diverged(&mut self, actual: &str) -> Failure {
        match describe(&mut self.task) {
            Ok(expected) => divergence(&self.task, &expected, actual),
            Err(e) => e,
        }
    }
}

/// Whether so much output has been caught that it should be handed on.
fn has_much_output() -> bool {
    session::with(|s| s.caught.as_ref().is_some_and(|o| o.0.len() > MUCH_OUTPUT))
}
