//! Events: bringing one about, with all checks of a replay, and drawing its consequences.
//!
//! It never runs guest code up to an event; that is the work of `execute`.

use relive_dbt::Stop;
use relive_kabi::Makes;
use relive_trace::Image;

use super::{Driver, EVENT_WORK, Going, RSP};
use crate::failure::{Failure, Result};
use crate::kernel::Call;
use crate::modes::replay::advance::{Happening, advance, arrive};
use crate::modes::replay::guided::watching;
use crate::modes::replay::session::{self, Settled};
use crate::signals::signo;
use crate::stops;
use crate::task::{End, Flow, Task};
use crate::timeline::{Ended, Hit, OTHERS, Point, What, Why};

impl Driver {
    /// An event that happens to the thread where it stands.
    pub(super) fn position(
        &mut self,
        going: &mut Going<'_>,
        steps: u32,
        digest: u32,
        what: Happening,
    ) -> Result<Option<Why>> {
        self.unprotect_watched();
        let here = self.here();
        let sig = match &what {
            Happening::Signal(info) => Some(signo(info)),
            Happening::Killed(sig) => Some(*sig),
            Happening::Switch => None,
        };
        if let Some(sig) = sig
            && self.stops.signals
            && let Some(why) = self.tell(going, What::Signal(sig), here)
        {
            return Ok(Some(why));
        }
        if steps != 0 {
            crate::signals::finish_restart(&mut self.task);
        }
        let flow = arrive(&mut self.task, steps, digest, what)?;
        self.settled(going, flow, here, here.ticks)
    }

    /// One event, which the thread causes by itself: at a stop of translated code, or (`None`)
    /// one that needs no guest code.
    pub(super) fn event(
        &mut self,
        going: &mut Going<'_>,
        before: Point,
        stop: Option<Stop>,
    ) -> Result<Option<Why>> {
        self.unprotect_watched();
        let ticks = self.task.ctx.ticks();
        let calls = matches!(stop, Some(Stop::Syscall { .. })) || self.task.parked;
        let call = calls.then_some(self.task.ctx.gpr[0] as u32);
        let pc = self.task.ctx.rip;
        let process = self.task.process.index;
        let forks = call.filter(|_| self.stops.forks).map(|_| self.forks());
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
            true => self.forked(returned.and(forks), process),
            false => None,
        };
        for what in [written, execs, forked].into_iter().flatten() {
            let hit = Hit {
                what,
                before,
                slot,
                pc,
            };
            if let Some(why) = going.found(hit) {
                return Ok(Some(why));
            }
        }
        let returned =
            returned.filter(|nr| self.task.process.index == process && self.catches(*nr));
        // One that is found where the way ends is not on the way.
        let there = |s: &Self| going.run.until.is_some_and(|u| s.compare(&u).is_some());
        if let Some(nr) = returned.filter(|_| !there(self)) {
            return Ok(going.found(self.hit(What::Returned(nr), self.here())));
        }
        Ok(None)
    }

    /// Whether the call that the thread stands at is to make a process, and no thread.
    fn forks(&self) -> bool {
        let call = Call::at(&self.task);
        let flags = match call.row.map_or(Makes::Nothing, |row| row.makes) {
            Makes::Nothing => return false,
            Makes::Process => return true,
            Makes::Flags(argument) => call.arg(argument),
            Makes::FlagsBehind(argument) => self.task.read_u64(call.arg(argument)).unwrap_or(0),
        };
        flags & libc::CLONE_THREAD as u64 == 0
    }

    /// The child process that the event just made; `forks` says of a call that has returned whether
    /// it was to make one, `process` whoever made it.
    fn forked(&self, forks: Option<bool>, process: u32) -> Option<What> {
        let now = &self.task;
        let pid = u32::try_from(now.ctx.gpr[0] as i64)
            .ok()
            .filter(|p| *p > 0)?;
        let vfork = process != now.process.index;
        if vfork {
            // Its parent goes on, with the child's id as result.
            return (now.process.index == self.goal).then_some(What::Fork { pid, vfork });
        }
        forks?.then_some(What::Fork { pid, vfork })
    }

    /// Goes on from an event, and tells what others wrote before the turn that begins.
    pub(super) fn settled(
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
        Ok(written.and_then(|hit| going.found(hit)))
    }

    /// Draws the consequences of an event.
    pub(super) fn settle(&mut self, flow: Flow, before: Point, ticks: u64) -> Result<()> {
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
}
