//! Going forward under guidance: the loop around guest code of a guided replay.
//!
//! It does what `advance` does, event by event, with the same checks of every event, but it
//! may stop between any two instructions, and it knows where it is (`Point`).

use std::collections::{BTreeSet, HashMap};

use relive_dbt::Stop;
use relive_trace::Image;

use super::watching;
use crate::failure::{Failure, Result};
use crate::instr;
use crate::machine::machine;
use crate::replay::advance::{Happening, Target, advance, arrive, describe, pass, target};
use crate::replay::divergence;
use crate::replay::session::{self, Session, Settled};
use crate::signals::signo;
use crate::stops;
use crate::tape::digest;
use crate::task::{End, Flow, Task};
use crate::timeline::{
    Ended, Hit, OTHERS, Output, Past, Point, Ran, Run, Search, Status, Steps, Stops, Watchpoint,
    What, Why,
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
const RDI: usize = 7;
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
    breakpoints: BTreeSet<u64>,
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
    /// A breakpoint that has been reported: slot and pc.
    passed: Option<(u32, u64)>,
    /// An instruction that must run alone, because it may touch watched memory.
    alone: Option<(u32, u64)>,
    /// The program that runs: its path and where its first stack began.
    program: (Vec<u8>, u64),
}

/// The state of one run.
struct Going<'r> {
    run: &'r Run,
    hits: u64,
    last: Option<Hit>,
    /// Steps that remain of `run.step`.
    left: u64,
    /// A hit to be told behind the access that is being made.
    access: Option<Hit>,
}

impl Going<'_> {
    /// Notes a stop; whether the run ends right before it.
    fn hit(&mut self, hit: Hit) -> bool {
        self.hits += 1;
        self.last = Some(hit);
        match self.run.search {
            Search::Stop => true,
            Search::Count => false,
            Search::Before(n) => self.hits == n,
        }
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
            passed: None,
            alone: None,
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
        watching::set(&stops.watchpoints).map_err(Failure::setup)?;
        self.stops = stops;
        Ok(())
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
        crate::replay::checksum::memory().wrapping_add(threads)
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
                digest: digest(&self.task.ctx),
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
            hits: 0,
            last: None,
            left: run.step.map_or(0, |(_, n)| n),
            access: None,
        };
        self.passed = run.leave.then(|| self.at());
        if !run.leave {
            self.told = None;
        }
        session::with(|s| s.caught = run.output.then(Output::default));
        let why = self.go(&mut going, wanted);
        let output = session::with(|s| s.caught.take()).unwrap_or_default();
        let ran = Ran {
            why: why?,
            hits: going.hits,
            last: going.last,
            status: self.status(),
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
            if going
                .run
                .work
                .is_some_and(|w| self.work >= w || has_much_output())
                && self.work > start
            {
                return Ok(Why::Work);
            }
            looks += 1;
            if looks.is_multiple_of(LOOK) && wanted() {
                return Ok(Why::Interrupted);
            }
            let ticks = self.task.ctx.ticks();
            if let Some(why) = self.once(going)? {
                return Ok(why);
            }
            if self.task.ctx.ticks().wrapping_sub(ticks) >= SLICE && wanted() {
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
        let (limit, stepped) = match target(&mut self.task)? {
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
            if self.is_meant() && going.hit(hit) {
                return Ok(Some(Why::Hit(hit)));
            }
        }
        let step = self.must_step(going, limit, stepped.is_some());
        if step
            && let Some(hit) = self.about_to_touch()
            && self.count_access(going, hit)
        {
            return Ok(Some(Why::Hit(hit)));
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

    /// Counts an access that is about to be made; whether the run ends before it.
    fn count_access(&mut self, going: &mut Going<'_>, hit: Hit) -> bool {
        let ends = going.hit(hit);
        if ends && matches!(going.run.search, Search::Stop) {
            going.access = Some(hit);
            return false;
        }
        ends
    }

    /// Runs guest code, but not beyond tick `limit`; `positional`: that is where an event
    /// happens to the thread, and not one that it causes.
    fn execute(
        &mut self,
        going: &mut Going<'_>,
        limit: u64,
        positional: bool,
        step: bool,
    ) -> Result<Option<Why>> {
        let (ticks, at) = (self.task.ctx.ticks(), self.at());
        if ticks > limit {
            return Err(self.diverged("the thread is past that tick"));
        }
        // An own event may come after any number of instructions behind its tick.
        let room = limit - ticks + u64::from(!positional);
        let here = self.here_at(Steps::Event);
        let until = going.run.until.map_or(NEVER, |u| {
            let same = (u.event, u.turn) == (here.event, here.turn);
            let open = u64::from(u.steps == Steps::Event);
            if same { u.ticks - ticks + open } else { NEVER }
        });
        let grant = match step {
            true => NEVER,
            false => room.min(until).clamp(1, SLICE),
        };
        self.task.ctx.grant(grant as i64);
        let stop = self.task.go(step);
        let now = self.task.ctx.ticks();
        self.work += now - ticks;
        if now > limit {
            return Err(self.diverged("the thread ran on past that tick"));
        }
        let ran = matches!(
            stop,
            Stop::Budget { .. } | Stop::Pause { .. } | Stop::Stepped { .. }
        );
        if ran {
            self.steps = match now != ticks || !step {
                true => Some(0),
                false => self.steps.map(|n| n + 1),
            };
            if positional && now == limit && ticks == limit && step && self.steps == Some(0) {
                return Err(self.diverged("a tick came first"));
            }
            return Ok(self.advanced(going));
        }
        if now != ticks || self.at() != at {
            self.steps = None;
            self.passed = None;
        }
        match stop {
            Stop::Breakpoint { .. } => Ok(None),
            Stop::Watch { .. } => {
                self.alone = Some(self.at());
                Ok(None)
            }
            stop => self.eventful(going, stop, positional),
        }
    }

    /// An instruction, or many, have been executed.
    fn advanced(&mut self, going: &mut Going<'_>) -> Option<Why> {
        (self.passed, self.alone) = (None, None);
        if going.run.step.is_some_and(|(s, _)| s == self.task.slot) {
            going.left = going.left.saturating_sub(1);
        }
        going.access.take().map(Why::Hit)
    }

    /// A stop that the engine has to do something for: mostly the next event.
    fn eventful(
        &mut self,
        going: &mut Going<'_>,
        stop: Stop,
        positional: bool,
    ) -> Result<Option<Why>> {
        going.access = None;
        let quiet = match &stop {
            Stop::CacheFull { .. } => return stops::handle(&mut self.task, stop).map(|_| None),
            Stop::Instr { op, .. } => !instr::logged(op),
            _ => false,
        };
        if positional {
            pass(&mut self.task, stop)?;
            self.steps = self.steps.map(|n| n + 1);
            return Ok(self.advanced(going));
        }
        if quiet {
            stops::handle(&mut self.task, stop)?;
            self.steps = self.steps.map(|n| n + 1);
            return Ok(self.advanced(going));
        }
        let before = self.here_at(Steps::Event);
        let until = going.run.until;
        if until.is_some_and(|u| u.steps == Steps::Event && before.key() == u.key()) {
            return Ok(Some(Why::Until));
        }
        let fault = matches!(
            stop,
            Stop::Fault { .. } | Stop::Trap { .. } | Stop::NoCode { .. } | Stop::BadTarget { .. }
        );
        if fault
            && self.stops.signals
            && self.told != Some(before.event)
            && let Some(sig) = self.next_signal()?
        {
            self.told = Some(before.event);
            let hit = self.hit(What::Signal(sig), before);
            if going.hit(hit) {
                return Ok(Some(Why::Hit(hit)));
            }
        }
        let nr = self.task.ctx.gpr[0] as u32;
        if matches!(stop, Stop::Syscall { .. })
            && self.catches(nr)
            && self.told != Some(before.event)
        {
            self.told = Some(before.event);
            let hit = self.hit(What::Call(nr), before);
            if going.hit(hit) {
                return Ok(Some(Why::Hit(hit)));
            }
        }
        self.event(going, before, Some(stop))
    }

    /// Whether one wants to be told of this system call.
    fn catches(&self, nr: u32) -> bool {
        let calls = self.stops.calls.as_ref();
        calls.is_some_and(|all| all.is_empty() || all.contains(&nr))
    }

    /// The number of the signal that the tape has next.
    fn next_signal(&mut self) -> Result<Option<i32>> {
        use relive_trace::{Ending, Kind};
        Ok(match self.task.tape.peek()?.map(|e| e.kind) {
            Some(Kind::Signal(s)) => Some(s.signo.into()),
            Some(Kind::End {
                how: Ending::Killed,
                code,
                ..
            }) => Some(code),
            _ => None,
        })
    }

    /// An event that happens to the thread where it stands.
    fn position(
        &mut self,
        going: &mut Going<'_>,
        steps: u32,
        digest: u32,
        what: Happening,
    ) -> Result<Option<Why>> {
        let here = self.here();
        let sig = match &what {
            Happening::Signal(info) => Some(signo(info)),
            Happening::Killed(sig) => Some(*sig),
            Happening::Switch => None,
        };
        if let Some(sig) = sig
            && self.stops.signals
            && self.told != Some(here.event)
        {
            self.told = Some(here.event);
            let hit = self.hit(What::Signal(sig), here);
            if going.hit(hit) {
                return Ok(Some(Why::Hit(hit)));
            }
        }
        if steps != 0 {
            crate::signals::finish_restart(&mut self.task);
        }
        let flow = arrive(&mut self.task, steps, digest, what)?;
        self.settled(going, flow, here, here.ticks)
    }

    /// One event, which the thread causes by itself: at a stop of translated code, or (`None`)
    /// one that needs no guest code.
    fn event(
        &mut self,
        going: &mut Going<'_>,
        before: Point,
        stop: Option<Stop>,
    ) -> Result<Option<Why>> {
        let ticks = self.task.ctx.ticks();
        let calls = matches!(stop, Some(Stop::Syscall { .. })) || self.task.parked;
        let call = calls.then_some(self.task.ctx.gpr[0] as u32);
        let pc = self.task.ctx.rip;
        let (flags, process) = (self.task.ctx.gpr[RDI], self.task.process.index);
        let flow = match stop {
            Some(stop) => stops::handle(&mut self.task, stop)?,
            None => {
                let more = self.session.goes_on(&mut self.task)?;
                advance(&mut self.task, more)?
            }
        };
        let slot = self.task.slot;
        let written = watching::noticed().map(|(watch, addr)| What::Watchpoint {
            watch,
            addr,
            call: call.or(Some(u32::MAX)),
        });
        let executes = matches!(flow, Flow::Exec(_));
        let returned = matches!(flow, Flow::Continue).then_some(call).flatten();
        if let Some(why) = self.settled(going, flow, before, ticks)? {
            return Ok(Some(why));
        }
        let began = executes && self.task.process.index == process;
        let execs = (began && self.stops.execs).then_some(What::Exec);
        let forked = match self.stops.forks {
            true => self.forked(returned, flags, process),
            false => None,
        };
        for what in [written, execs, forked].into_iter().flatten() {
            let hit = Hit {
                what,
                before,
                slot,
                pc,
            };
            if going.hit(hit) {
                return Ok(Some(Why::Hit(hit)));
            }
        }
        let returned =
            returned.filter(|nr| self.task.process.index == process && self.catches(*nr));
        // One that is found where the way ends is not on the way.
        let there = |s: &Self| going.run.until.is_some_and(|u| s.compare(&u).is_some());
        if let Some(nr) = returned.filter(|_| !there(self)) {
            let hit = self.hit(What::Returned(nr), self.here());
            if going.hit(hit) {
                return Ok(Some(Why::Hit(hit)));
            }
        }
        Ok(None)
    }

    /// The child process that the event just made; `returned` is the call that has returned,
    /// `flags` its first argument, `process` whoever made it.
    fn forked(&self, returned: Option<u32>, flags: u64, process: u32) -> Option<What> {
        let now = &self.task;
        let pid = u32::try_from(now.ctx.gpr[0] as i64)
            .ok()
            .filter(|p| *p > 0)?;
        let vfork = process != now.process.index;
        if vfork {
            // Its parent goes on, with the child's id as result.
            return (now.process.index == self.goal).then_some(What::Fork { pid, vfork });
        }
        let forks = match i64::from(returned?) {
            libc::SYS_fork => true,
            libc::SYS_clone => flags & libc::CLONE_THREAD as u64 == 0,
            _ => false,
        };
        forks.then_some(What::Fork { pid, vfork })
    }

    fn settled(
        &mut self,
        going: &mut Going<'_>,
        flow: Flow,
        before: Point,
        ticks: u64,
    ) -> Result<Option<Why>> {
        let slot = self.task.slot;
        let over = matches!(flow, Flow::Continue | Flow::Exec(_));
        let pc = self.task.ctx.rip;
        self.settle(flow, before, ticks)?;
        if over && going.run.step.is_some_and(|(s, _)| s == slot) {
            going.left = going.left.saturating_sub(1);
        }
        (self.passed, self.alone) = (None, None);
        // What others wrote before the turn that begins.
        let written = watching::noticed().map(|(watch, addr)| Hit {
            what: What::Watchpoint {
                watch,
                addr,
                call: Some(OTHERS),
            },
            before,
            slot,
            pc,
        });
        Ok(written.filter(|hit| going.hit(*hit)).map(Why::Hit))
    }

    /// Draws the consequences of an event.
    fn settle(&mut self, flow: Flow, before: Point, ticks: u64) -> Result<()> {
        let events = session::events();
        let slot = self.task.slot;
        let parks = matches!(flow, Flow::Park);
        self.work += (events - before.event) * EVENT_WORK;
        self.work += self.task.ctx.ticks().saturating_sub(ticks);
        let process = self.task.process.index;
        let image = match &flow {
            Flow::Exec(bytes) => Some(Image::decode(bytes).map_err(Failure::setup)?),
            _ => None,
        };
        self.session.collect(&mut self.task);
        if matches!(flow, Flow::Continue) {
            if process != self.goal && self.task.process.index == self.goal {
                self.left.clear();
            }
            self.began = Some(before);
            self.base = self.task.ctx.ticks();
            self.steps = Some(0);
            return Ok(());
        }
        // A stand-in that is never run, while the session has the task.
        let stand_in = Task::new(
            std::sync::Arc::clone(&self.task.process),
            self.task.index,
            self.task.tid,
            crate::tape::Tape::Blank,
        );
        let task = std::mem::replace(&mut self.task, Box::new(stand_in));
        if parks {
            self.left.insert(slot, before);
        }
        match self.session.settle(task, flow)? {
            Settled::Goes(next) => self.task = next,
            Settled::Ended(task, end) => {
                self.end(task, slot, end)?;
                (self.base, self.began) = (self.task.ctx.ticks(), Some(before));
                return Ok(());
            }
        }
        if parks || self.task.slot != slot {
            self.turn += 1;
            self.began = None;
        } else {
            self.began = Some(before);
        }
        if let Some(image) = image {
            // Unless it was a child's, which is another process now.
            let ctx = &self.task.ctx;
            if (ctx.rip, ctx.gpr[RSP]) == (image.rip, image.rsp) {
                self.program = (image.path, image.rsp);
            }
        }
        self.base = self.task.ctx.ticks();
        self.steps = Some(0);
        Ok(())
    }

    fn end(&mut self, task: Option<Box<Task>>, slot: u32, end: Option<End>) -> Result<()> {
        if end.is_none() {
            session::check_cut_off(self.task.process.index)?;
        }
        if let Some(task) = task.or_else(|| self.session.tasks.remove(&slot)) {
            self.task = task;
        }
        self.steps = Some(0);
        self.ended = Some(match end {
            Some(End::Code(code)) => Ended::Code(code),
            Some(End::Signal(sig)) => Ended::Signal(sig),
            None => Ended::CutOff,
        });
        Ok(())
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
