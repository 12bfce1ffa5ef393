//! A guided replay: the stepper, the way that it has gone, and where it is to stop.

use std::collections::BTreeSet;
use std::time::Duration;

use relive_host::context::PLENTY;
use relive_trace::{Ending, Kind};

use super::begin::Begin;
use super::guard::Means;
use super::guidance::Guidance;
use super::one_run::Going;
use super::track::Track;
use crate::exits::Exception;
use crate::failure::{Failure, Result};
use crate::guide::protocol::{Output, Past, Ran, ReplayStatus, RunRequest, StopReason, StopSet};
use crate::guide::races::Races;
use crate::machine::Machine;
use crate::memory::page_list::PageRange;
use crate::modes::replay::races::racing::Racing;
use crate::modes::replay::races::tracking;
use crate::modes::replay::stepper::process::Stepper;
use crate::modes::replay::watching;
use crate::modes::replay::{checksum, hook_state, images, session};
use crate::session_state::SessionState;
use crate::siginfo::{fault_info, signo};
use crate::task::Task;

/// How long a search for races goes on before it tells of its progress.
const RACING: Duration = Duration::from_millis(200);

/// A guided replay.
pub struct Driver {
    pub(super) at: Stepper,
    pub(super) guide: Guidance,
}

impl Driver {
    pub fn new(at: Stepper, track: Track, goal: u32) -> Self {
        Self {
            guide: Guidance {
                track,
                ..Guidance::new(at.task.machine(), goal)
            },
            at,
        }
    }

    /// The state of the process, and where its memory has content that its maps do not show by
    /// themselves; `None` where it cannot be described.
    ///
    /// # Errors
    /// It cannot be described anywhere in this process.
    pub fn image(&self) -> Result<Option<(SessionState, Vec<PageRange>)>> {
        if self.at.task.process.index != self.guide.goal {
            return Ok(None);
        }
        let state = images::process_capture::capture(&self.at, self.guide.track.capture())?;
        let with_pages = |state| Ok((state, checksum::own_pages(self.machine())?));
        state.map(with_pages).transpose()
    }

    /// The program that runs: its path, and the stack pointer that it began with.
    pub fn program(&self) -> (&[u8], u64) {
        self.guide.track.program()
    }

    /// All tasks that there are.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.at.tasks()
    }

    /// The task of a slot.
    pub fn task_mut(&mut self, slot: u32) -> Option<&mut Box<Task>> {
        if self.at.task.slot == slot {
            return Some(&mut self.at.task);
        }
        self.at.session.tasks.get_mut(&slot)
    }

    /// Gives the thread of a slot the turn, against the recording.
    pub fn make_current(&mut self, slot: u32) -> Result<()> {
        let Stepper { session, task, .. } = &mut self.at;
        if task.slot != slot {
            let next = session.tasks.remove(&slot);
            let next = next.ok_or_else(|| Failure::internal("the thread is there"))?;
            let old = std::mem::replace(task, next);
            session.tasks.insert(old.slot, old);
            session::adopt(task);
        }
        (self.at.steps, self.at.ended) = (None, None);
        Ok(())
    }

    /// Goes to where the followed process runs a program.
    pub fn begin(&mut self) -> Result<ReplayStatus> {
        let mut begin = Begin(&mut self.guide);
        if self.at.run(&mut begin)?.is_none() {
            return Err(Failure::setup(
                "the recording has no program of that process",
            ));
        }
        self.guide.track.forget_turns();
        Ok(self.status())
    }

    pub fn set_stops(&mut self, stops: StopSet) -> Result<()> {
        let guide = &mut self.guide;
        let breakpoints: BTreeSet<u64> = stops.breakpoints.iter().copied().collect();
        if breakpoints != guide.breakpoints {
            guide.breakpoints = breakpoints.clone();
            let machine = self.at.task.machine();
            let set = machine.memory().translator.set_breakpoints(breakpoints);
            set.map_err(Failure::setup)?;
        }
        if stops.watchpoints != guide.stops.watchpoints {
            watching::set(&stops.watchpoints);
            guide.guard.set(Means::of(&stops.watchpoints))?;
        }
        guide.stops = stops;
        Ok(())
    }

    /// The machine of the replay.
    pub fn machine(&self) -> &'static Machine {
        self.at.task.machine()
    }

    /// Where we are.
    pub fn status(&self) -> ReplayStatus {
        let task = &self.at.task;
        ReplayStatus {
            point: self.guide.here(&self.at),
            slot: task.slot,
            thread: task.index,
            tid: task.tid,
            process: task.process.index,
            pid: task.process.pid,
            pc: task.ctx.rip,
            work: self.guide.track.work,
            ended: self.at.ended,
        }
    }

    pub fn past(&self, slot: u32) -> Past {
        self.guide.track.past(&self.at, slot)
    }

    /// A sum over memory and the registers of all threads.
    ///
    /// # Errors
    /// The kernel does not list all memory.
    pub fn checksum(&self) -> Result<u64> {
        checksum::process(self.machine(), self.tasks())
    }

    /// Goes on as told; `wanted` says that there is a new order.
    pub fn run(
        &mut self,
        run: &RunRequest,
        wanted: &mut dyn FnMut() -> bool,
    ) -> Result<(Ran, Output)> {
        let Self { at, guide } = self;
        guide.told.begin(at, run);
        hook_state::with(|s| s.caught = run.output.then(Output::default));
        guide.guard.begin(run.fast, &guide.stops.watchpoints)?;
        let mut going = Going::new(guide, run, wanted);
        let why = at.run(&mut going);
        let last = going.last();
        guide.guard.unprotect();
        let output = hook_state::with(|s| s.caught.take()).unwrap_or_default();
        let ran = Ran {
            why: why?.unwrap_or(StopReason::Ended),
            last,
            status: self.status(),
            blind: self.guide.guard.is_blind(),
        };
        Ok((ran, output))
    }

    /// Goes on for a while, and looks for races.
    pub fn races(&mut self) -> Result<Races> {
        if self.at.ended.is_none() {
            self.at.run(&mut Racing::new(RACING))?;
        }
        let races = tracking::with(|t| t.races());
        let races = races.ok_or_else(|| Failure::internal("no race is looked for"))?;
        Ok(Races {
            ended: self.at.ended.is_some(),
            ..races
        })
    }

    /// The `siginfo_t` of the signal that is the next event, if it is one. The recording has none of a signal that a process dies of: the
    /// instruction at hand, which raises it, is executed, and so the replay cannot go on.
    pub fn siginfo(&mut self) -> Result<Option<Vec<u8>>> {
        let task = &mut self.at.task;
        let sig = match task.tape.peek()?.map(|e| e.kind) {
            Some(Kind::Signal(s)) if s.signo != 0 => return Ok(Some(s.siginfo.to_vec())),
            Some(Kind::End {
                how: Ending::Killed,
                code,
                ..
            }) => code,
            _ => return Ok(None),
        };
        let machine = task.machine();
        let set = machine.memory().translator.set_breakpoints(BTreeSet::new());
        set.map_err(Failure::setup)?;
        task.ctx.grant(PLENTY);
        let stop = task.go(true)?;
        let exception = Exception::of(task, &stop).filter(|raised| signo(&raised.info) == sig);
        // One that was sent: of that the recording has the number only.
        Ok(Some(exception.map_or_else(
            || fault_info(sig, 0, 0).to_vec(),
            |raised| raised.info.to_vec(),
        )))
    }
}
