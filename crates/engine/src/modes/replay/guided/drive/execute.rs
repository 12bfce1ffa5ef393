//! Running guest code: up to a tick or one instruction, and what the stop behind it means.
//!
//! It never consumes an event; that is the work of `events`.

use relive_dbt::Stop;
use relive_host::{Context, Reg};

use super::{Driver, Going, Guard, NEVER, SLICE};
use crate::failure::Result;
use crate::machine::machine;
use crate::modes::replay::advance::pass;
use crate::modes::replay::session;
use crate::signals::{fault_info, signo};
use crate::tape::digest_with;
use crate::timeline::{Steps, What, Why};
use crate::{instr, stops};

impl Driver {
    /// Runs guest code, but not beyond tick `limit`; `positional`: that is where an event
    /// happens to the thread, and not one that it causes.
    pub(super) fn execute(
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
        if !step {
            self.protect_watched(going.run.fast)?;
        }
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
        let hit = matches!(stop, Stop::Fault { .. }) && self.is_watched_write();
        self.unprotect_watched();
        if now != ticks || self.at() != at || self.amid.is_some() {
            self.steps = None;
            self.passed = None;
        }
        match stop {
            _ if hit => {
                self.alone = Some(self.at());
                Ok(None)
            }
            Stop::Breakpoint { .. } => Ok(None),
            Stop::Watch { .. } => {
                self.alone = Some(self.at());
                Ok(None)
            }
            stop => self.eventful(going, stop, positional),
        }
    }

    /// Whether the fault that the thread has stopped with is a write to watched pages.
    fn is_watched_write(&mut self) -> bool {
        let Guard::WriteProtects(watch) = &mut self.guard else {
            return false;
        };
        if !watch.is_hit(&self.task) {
            return false;
        }
        let ctx = &self.task.ctx;
        let repeats = machine()
            .memory()
            .with_code(true, |_, code| relive_dbt::repeats(code, ctx.rip));
        self.amid = repeats.then(|| digest_of_start(ctx));
        true
    }

    /// An instruction, or many, have been executed.
    fn advanced(&mut self, going: &mut Going<'_>) -> Option<Why> {
        (self.passed, self.alone, self.amid) = (None, None, None);
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
        if matches!(stop, Stop::Fault { .. }) {
            self.faulted = Some((before.event, self.task.ctx.fault.siginfo));
        }
        if fault
            && self.stops.signals
            && self.told != Some(before.event)
            && let Some(sig) = self.next_signal()?
            && let Some(why) = self.tell(going, What::Signal(sig), before)
        {
            return Ok(Some(why));
        }
        let nr = self.task.ctx.gpr[0] as u32;
        if matches!(stop, Stop::Syscall { .. })
            && self.catches(nr)
            && let Some(why) = self.tell(going, What::Call(nr), before)
        {
            return Ok(Some(why));
        }
        self.event(going, before, Some(stop))
    }

    /// Whether one wants to be told of this system call.
    pub(super) fn catches(&self, nr: u32) -> bool {
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

    /// What the signal says that is the next event, if it is one.
    pub fn siginfo(&mut self) -> Result<Option<Vec<u8>>> {
        use relive_trace::{Ending, Kind};
        let event = session::events();
        let faulted = self.faulted.filter(|(at, _)| *at == event).map(|f| f.1);
        Ok(match self.task.tape.peek()?.map(|e| e.kind) {
            Some(Kind::Signal(s)) => Some(s.siginfo.to_vec()),
            // Who dies of a signal is not told of it: of what was sent the recording has the
            // number.
            Some(Kind::End {
                how: Ending::Killed,
                code,
                ..
            }) => Some(match faulted.filter(|info| signo(info) == code) {
                Some(info) => info.to_vec(),
                None => fault_info(code, 0, 0).to_vec(),
            }),
            _ => None,
        })
    }
}

/// The digest of a thread's registers where the repeated string instruction began that it is in the
/// middle of.
fn digest_of_start(ctx: &Context) -> u32 {
    let mut gpr = ctx.gpr;
    for (reg, start) in [Reg::Rcx, Reg::Rsi, Reg::Rdi]
        .into_iter()
        .zip(ctx.string_start)
    {
        gpr[reg as usize] = start;
    }
    digest_with(ctx.rip, &gpr)
}
