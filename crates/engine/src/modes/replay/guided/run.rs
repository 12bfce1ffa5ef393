//! One run of a guided replay: where it ends, and what it finds on the way.

use relive_dbt::Stop;
use relive_kabi::Makes;

use super::drive::Guidance;
use super::track::point;
use super::{condition, watching};
use crate::failure::Result;
use crate::guide::point::{Point, Steps};
use crate::guide::protocol::{Hit, OTHERS, Run, Search, Watchpoint, What, Why};
use crate::kernel::call::Call;
use crate::modes::replay::events::{Due, Happening};
use crate::modes::replay::execute::Pace;
use crate::modes::replay::state;
use crate::modes::replay::stepper::{Stepper, Stops};
use crate::signals::info::signo;
use crate::tape::digest;
use crate::task::Task;
use crate::task::flow::Flow;

/// Ticks after which a running thread looks for orders.
const SLICE: u64 = 1 << 22;
/// Events and pieces of guest code between two looks for orders.
const LOOK: u32 = 256;
/// Bytes of caught output after which a run ends early.
const MUCH_OUTPUT: usize = 256 << 10;
/// Ticks that are never reached.
const NEVER: u64 = u64::MAX / 4;

/// The way to where the followed process runs a program.
pub struct Begin<'g>(pub &'g mut Guidance);

impl Stops for Begin<'_> {
    type Why = ();

    fn look(&mut self, at: &mut Stepper) -> Result<Option<()>> {
        let there = at.task.process.index == self.0.goal && at.task.ctx.rip != 0;
        Ok(there.then_some(()))
    }

    fn takes(&mut self, _: &mut Stepper, _: &Stop, ticks: u64) -> bool {
        self.0.track.work += ticks;
        false
    }

    fn before_event(&mut self, at: &mut Stepper, _: &Due) -> Result<Option<()>> {
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

/// What has been reported where the replay is, and is not to be reported again.
#[derive(Default)]
pub struct Told {
    /// A signal or call, by the number of its event.
    event: Option<u64>,
    /// A breakpoint: slot and pc.
    passed: Option<(u32, u64)>,
}

impl Told {
    /// A run begins.
    pub fn begin(&mut self, at: &Stepper, run: &Run) {
        self.passed = run.leave.then(|| place(at));
        if !run.leave {
            self.event = None;
        }
    }
}

/// The thread and its pc.
fn place(at: &Stepper) -> (u32, u64) {
    (at.task.slot, at.task.ctx.rip)
}

/// The state of one run.
pub struct Going<'r> {
    guide: &'r mut Guidance,
    run: &'r Run,
    /// Says that there is a new order.
    wanted: &'r mut dyn FnMut() -> bool,
    last: Option<Hit>,
    /// Steps that remain of `run.step`.
    left: u64,
    /// A hit to be told behind the access that is being made.
    access: Option<Hit>,
    looks: u32,
    /// Work when the run began.
    start: u64,
    /// Ticks of the running thread at the last look.
    ticks: Option<u64>,
    /// Where guest code began to run: thread and pc.
    place: (u32, u64),
    event: Event,
}

/// An event that is happening.
#[derive(Default)]
struct Event {
    before: Option<Point>,
    pc: u64,
    /// Index of the process that makes it.
    process: u32,
    /// The system call that it is, and whether that is to make a process.
    call: Option<u32>,
    forks: Option<bool>,
    slot: u32,
    /// The thread's pc behind it.
    pc_behind: u64,
    outcome: Outcome,
    /// Watched memory that was written for the kernel.
    written: Option<(Watchpoint, u64)>,
}

/// What an event has come to.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Outcome {
    Continue,
    Exec,
    #[default]
    Other,
}

impl<'r> Going<'r> {
    pub fn new(guide: &'r mut Guidance, run: &'r Run, wanted: &'r mut dyn FnMut() -> bool) -> Self {
        Self {
            start: guide.track.work,
            guide,
            run,
            wanted,
            last: None,
            left: run.step.map_or(0, |(_, n)| n),
            access: None,
            looks: 0,
            ticks: None,
            place: (0, 0),
            event: Event::default(),
        }
    }

    /// The last stop seen.
    pub fn last(&self) -> Option<Hit> {
        self.last
    }

    /// Notes a stop; whether the run ends there.
    fn hit(&mut self, hit: Hit) -> bool {
        self.last = Some(hit);
        matches!(self.run.search, Search::Stop)
    }

    /// As [`Going::hit`]: why the run ends, if it does.
    fn found(&mut self, hit: Hit) -> Option<Why> {
        self.hit(hit).then_some(Why::Hit(hit))
    }

    /// Counts something that happens at an event, once: also where the run ended there and
    /// goes on from there. Says whether the run ends now.
    fn tell(&mut self, at: &Stepper, what: What, before: Point) -> Option<Why> {
        if self.guide.told.event.replace(before.event) == Some(before.event) {
            return None;
        }
        self.found(hit(at, what, before))
    }

    /// Whether this is the position to go to, or behind it.
    fn compare(&self, at: &Stepper, until: &Point) -> Option<Why> {
        let here = point(at, Steps::ZERO);
        if here.key() != until.key() {
            // The ticks of another thread say nothing.
            let (h, u) = ((here.event, here.turn), (until.event, until.turn));
            let passed = h > u || h == u && here.ticks > until.ticks;
            return passed.then_some(Why::Passed);
        }
        match (until.steps, at.steps) {
            (Steps::Exact(n), Some(m)) if m < n => None,
            (Steps::Exact(n), Some(m)) if m == n => Some(Why::Until),
            (Steps::Exact(_), _) => Some(Why::Passed),
            (Steps::Event, _) => None,
            (Steps::At { pc, digest: d }, _) => {
                let ctx = &at.task.ctx;
                (ctx.rip == pc && digest(ctx) == d).then_some(Why::Until)
            }
        }
    }

    /// Whether the run goes to the event that comes next.
    fn is_at_event(&self, at: &Stepper) -> bool {
        self.run
            .until
            .is_some_and(|u| u.steps == Steps::Event && point(at, Steps::Event).key() == u.key())
    }

    /// Whether the run counts the steps of this thread.
    fn counts(&self, slot: u32) -> bool {
        self.run.step.is_some_and(|(s, _)| s == slot)
    }

    fn count(&mut self, slot: u32) {
        if self.counts(slot) {
            self.left = self.left.saturating_sub(1);
        }
    }

    /// The breakpoint at the present pc, if it has not been told and has no condition, or one that
    /// holds.
    fn breakpoint(&mut self, at: &Stepper) -> Option<Hit> {
        let (guide, pc) = (&mut *self.guide, at.task.ctx.rip);
        if !guide.breakpoints.contains(&pc) || guide.told.passed == Some(place(at)) {
            return None;
        }
        guide.told.passed = Some(place(at));
        let mut all = guide.stops.conditions.iter();
        all.find(|(at, _)| *at == pc)
            .is_none_or(|(_, conditions)| condition::holds(conditions, &at.task.ctx))
            .then(|| hit(at, What::Breakpoint(pc), guide.here(at)))
    }

    /// Whether only one instruction may be executed now.
    fn must_step(&self, at: &Stepper) -> bool {
        let last_tick = self
            .run
            .until
            .is_some_and(|u| u.key() == point(at, Steps::ZERO).key() && u.steps != Steps::Event);
        last_tick
            || self.guide.told.passed == Some(place(at))
            || self.guide.guard.is_alone(place(at))
            || self.counts(at.task.slot)
    }

    /// The access to watched memory that the next instruction makes, if it has not been told.
    fn about_to_touch(&self, at: &Stepper) -> Option<Hit> {
        let (watch, addr) = watching::touched(&at.task, &self.guide.stops.watchpoints)?;
        let call = None;
        let what = What::Watchpoint { watch, addr, call };
        Some(hit(at, what, self.guide.here(at)))
    }

    /// Ticks to run at most.
    fn most(&self, at: &Stepper) -> u64 {
        let here = point(at, Steps::Event);
        let until = self.run.until.map_or(NEVER, |u| {
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

    /// What is to be told of before an event that a stop of translated code brings about.
    fn before_stop(&mut self, at: &mut Stepper, stop: &Stop, before: Point) -> Result<Option<Why>> {
        let fault = matches!(
            stop,
            Stop::Fault { .. } | Stop::Trap { .. } | Stop::NoCode { .. } | Stop::BadTarget { .. }
        );
        if matches!(stop, Stop::Fault { .. }) {
            self.guide.faulted = Some((before.event, at.task.ctx.fault.siginfo));
        }
        if fault
            && self.guide.stops.signals
            && self.guide.told.event != Some(before.event)
            && let Some(sig) = next_signal(&mut at.task)?
            && let Some(why) = self.tell(at, What::Signal(sig), before)
        {
            return Ok(Some(why));
        }
        let nr = at.task.ctx.gpr[0] as u32;
        if matches!(stop, Stop::Syscall { .. }) && self.catches(nr) {
            return Ok(self.tell(at, What::Call(nr), before));
        }
        Ok(None)
    }

    /// Whether one wants to be told of this system call.
    fn catches(&self, nr: u32) -> bool {
        let calls = self.guide.stops.calls.as_ref();
        calls.is_some_and(|all| all.is_empty() || all.contains(&nr))
    }

    /// The child process that the event just made.
    fn forked(&self, at: &Stepper) -> Option<What> {
        let now = &at.task;
        let pid = u32::try_from(now.ctx.gpr[0] as i64).ok();
        let pid = pid.filter(|p| *p > 0)?;
        let vfork = self.event.process != now.process.index;
        let made = match vfork {
            // Its parent goes on, with the child's id as result.
            true => now.process.index == self.guide.goal,
            false => self.event.outcome == Outcome::Continue && self.event.forks?,
        };
        made.then_some(What::Fork { pid, vfork })
    }

    /// What the event was that has happened, in so far as the run is to tell of it.
    fn found_behind(&mut self, at: &Stepper, before: Point) -> Option<Why> {
        let Event {
            pc, slot, process, ..
        } = self.event;
        let written = self.event.written.map(|(watch, addr)| What::Watchpoint {
            watch,
            addr,
            call: self.event.call.or(Some(u32::MAX)),
        });
        let began = self.event.outcome == Outcome::Exec && at.task.process.index == process;
        let execs = (began && self.guide.stops.execs).then_some(What::Exec);
        let forked = match self.guide.stops.forks {
            true => self.forked(at),
            false => None,
        };
        let all = [written, execs, forked].into_iter().flatten();
        let mut hits = all.map(|what| Hit {
            what,
            before,
            slot,
            pc,
        });
        if let Some(why) = hits.find_map(|hit| self.found(hit)) {
            return Some(why);
        }
        let returned = self.event.call.filter(|nr| {
            self.event.outcome == Outcome::Continue
                && at.task.process.index == process
                && self.catches(*nr)
        })?;
        // One that is found where the way ends is not on the way.
        let ends = self
            .run
            .until
            .is_some_and(|u| self.compare(at, &u).is_some());
        match ends {
            true => None,
            false => self.found(hit(at, What::Returned(returned), self.guide.here(at))),
        }
    }
}

impl Stops for Going<'_> {
    type Why = Why;

    fn look(&mut self, at: &mut Stepper) -> Result<Option<Why>> {
        let ticks = at.task.ctx.ticks();
        let long = self.ticks.is_some_and(|t| ticks.wrapping_sub(t) >= SLICE);
        self.ticks = Some(ticks);
        let ends = self.guide.guard.amid().is_none();
        if long && ends && (self.wanted)() {
            return Ok(Some(Why::Interrupted));
        }
        if let Some(until) = &self.run.until
            && let Some(why) = self.compare(at, until)
        {
            return Ok(Some(why));
        }
        if self.run.step.is_some() && self.left == 0 {
            return Ok(Some(Why::Stepped));
        }
        let work = self.guide.track.work;
        let done = self
            .run
            .work
            .is_some_and(|w| work >= w || has_much_output());
        if ends && done && work > self.start {
            return Ok(Some(Why::Work));
        }
        self.looks += 1;
        let orders = ends && self.looks.is_multiple_of(LOOK) && (self.wanted)();
        Ok(orders.then_some(Why::Interrupted))
    }

    fn before_code(&mut self, at: &mut Stepper, step: bool) -> Result<Pace<Why>> {
        if let Some(hit) = self.breakpoint(at)
            && let Some(why) = self.found(hit)
        {
            return Ok(Pace::Stop(why));
        }
        self.place = place(at);
        if step || self.must_step(at) {
            if let Some(hit) = self.about_to_touch(at)
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
        Ok(Pace::Within(self.most(at)))
    }

    fn takes(&mut self, at: &mut Stepper, stop: &Stop, ticks: u64) -> bool {
        let guide = &mut *self.guide;
        guide.track.work += ticks;
        if is_end_of_budget(stop) {
            return false;
        }
        let mine = guide.guard.takes(at, stop) || matches!(stop, Stop::Breakpoint { .. });
        if ticks != 0 || place(at) != self.place || guide.guard.amid().is_some() {
            guide.told.passed = None;
        }
        if !mine {
            self.access = None;
            self.before(at, point(at, Steps::Event), None);
        }
        mine
    }

    fn advanced(&mut self, at: &Stepper) -> Option<Why> {
        self.guide.told.passed = None;
        self.guide.guard.moved();
        self.count(at.task.slot);
        self.access.take().map(Why::Hit)
    }

    fn before_event(&mut self, at: &mut Stepper, due: &Due) -> Result<Option<Why>> {
        self.guide.guard.unprotect();
        let before = match due {
            Due::Position(_) => self.guide.here(at),
            _ if self.is_at_event(at) => return Ok(Some(Why::Until)),
            _ => point(at, Steps::Event),
        };
        let found = match due {
            Due::Position(position) => {
                let sig = match &position.what {
                    Happening::Signal(info) => Some(signo(info)),
                    Happening::Killed(sig) => Some(*sig),
                    Happening::Switch => None,
                };
                sig.filter(|_| self.guide.stops.signals)
                    .and_then(|sig| self.tell(at, What::Signal(sig), before))
            }
            Due::Stop(stop) => self.before_stop(at, stop, before)?,
            _ => None,
        };
        if found.is_none() {
            let calls = matches!(due, Due::Stop(Stop::Syscall { .. })) || at.task.parked;
            let call = calls.then_some(at.task.ctx.gpr[0] as u32);
            self.before(at, before, call);
        }
        Ok(found)
    }

    fn happened(&mut self, at: &mut Stepper, flow: &Flow) -> Result<()> {
        let event = &mut self.event;
        event.slot = at.task.slot;
        event.pc_behind = at.task.ctx.rip;
        event.written = watching::noticed();
        event.outcome = match flow {
            Flow::Continue => Outcome::Continue,
            Flow::Exec(_) => Outcome::Exec,
            _ => Outcome::Other,
        };
        self.guide.track.happened(at, flow)
    }

    fn settled(&mut self, at: &mut Stepper) -> Option<Why> {
        self.guide.track.settled(at);
        if self.event.outcome != Outcome::Other {
            self.count(self.event.slot);
        }
        self.guide.told.passed = None;
        self.guide.guard.passed_event();
        let before = self.event.before?;
        // What others wrote before the turn that begins.
        let others = watching::noticed().map(|(watch, addr)| Hit {
            what: What::Watchpoint {
                watch,
                addr,
                call: Some(OTHERS),
            },
            before,
            slot: self.event.slot,
            pc: self.event.pc_behind,
        });
        others
            .and_then(|hit| self.found(hit))
            .or_else(|| self.found_behind(at, before))
    }
}

impl Going<'_> {
    /// An event is about to happen: notes where and to whom.
    fn before(&mut self, at: &Stepper, before: Point, call: Option<u32>) {
        self.guide.track.before_event(at, before);
        self.event = Event {
            before: Some(before),
            pc: at.task.ctx.rip,
            process: at.task.process.index,
            call,
            forks: call
                .filter(|_| self.guide.stops.forks)
                .map(|_| forks(&at.task)),
            ..Event::default()
        };
    }
}

fn hit(at: &Stepper, what: What, before: Point) -> Hit {
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

/// Whether the call that the thread stands at is to make a process, and no thread.
fn forks(task: &Task) -> bool {
    let call = Call::at(&task.ctx);
    let flags = match call.row.map_or(Makes::Nothing, |row| row.makes) {
        Makes::Nothing => return false,
        Makes::Process => return true,
        Makes::Flags(argument) => call.arg(argument),
        Makes::FlagsBehind(argument) => task.read_u64(call.arg(argument)).unwrap_or(0),
    };
    flags & libc::CLONE_THREAD as u64 == 0
}

/// The number of the signal that the tape has next.
fn next_signal(task: &mut Task) -> Result<Option<i32>> {
    use relive_trace::{Ending, Kind};
    Ok(match task.tape.peek()?.map(|e| e.kind) {
        Some(Kind::Signal(s)) => Some(s.signo.into()),
        Some(Kind::End {
            how: Ending::Killed,
            code,
            ..
        }) => Some(code),
        _ => None,
    })
}

/// Whether so much output has been caught that it should be handed on.
fn has_much_output() -> bool {
    state::with(|s| s.caught.as_ref().is_some_and(|o| o.0.len() > MUCH_OUTPUT))
}
