//! The means that report accesses to watched memory while guest code runs: write-protected pages,
//! or checks in translated code. A reported access has not been made; its instruction runs alone.

use relive_dbt::Stop;
use relive_host::{Context, Reg};

use super::write_watch::WriteWatch;
use crate::failure::{Failure, Result};
use crate::guide::protocol::Watchpoint;
use crate::machine::Machine;
use crate::modes::replay::stepper::process::Stepper;
use crate::modes::replay::watching;
use crate::tape::digest_with;

/// The means that report accesses.
pub enum Means {
    /// Its pages cannot be written.
    WriteProtects(WriteWatch),
    /// Each access is checked by translated code.
    Checks,
    /// Nothing, as a run wants to be fast (`RunRequest::fast`).
    Nothing,
}

impl Means {
    pub fn of(watchpoints: &[Watchpoint]) -> Self {
        WriteWatch::around(watchpoints).map_or(Self::Checks, Self::WriteProtects)
    }
}

/// See the module.
pub struct WatchGuard {
    means: Means,
    /// An instruction that must run alone, because it may touch watched memory: slot and pc.
    alone: Option<(u32, u64)>,
    machine: &'static Machine,
    /// The thread is in the middle of a repeated string instruction, as a write-protected page has
    /// stopped it there: the digest of its registers where it began. No run may end here.
    amid: Option<u32>,
}

impl WatchGuard {
    pub fn new(machine: &'static Machine) -> Self {
        Self {
            machine,
            means: Means::Checks,
            alone: None,
            amid: None,
        }
    }

    /// Changes the means.
    pub fn set(&mut self, means: Means) -> Result<()> {
        self.unprotect();
        self.means = means;
        watching::check(self.machine, matches!(self.means, Means::Checks)).map_err(Failure::setup)
    }

    /// For a run that would rather miss accesses than check each one (`fast`), or not.
    pub fn begin(&mut self, fast: bool, watchpoints: &[Watchpoint]) -> Result<()> {
        match self.means {
            Means::Nothing if !fast => self.set(Means::of(watchpoints)),
            Means::Checks if fast && !watchpoints.is_empty() => self.set(Means::Nothing),
            _ => Ok(()),
        }
    }

    /// Whether accesses may have been missed.
    pub fn is_blind(&self) -> bool {
        matches!(self.means, Means::Nothing)
    }

    /// Before guest code runs at full speed: write-protects watched memory, if that can be. `work`
    /// is the replay's work so far. Whether the means are the same as before, or others had to be
    /// taken.
    pub fn protect(&mut self, work: u64, fast: bool) -> Result<bool> {
        let Means::WriteProtects(watch) = &mut self.means else {
            return Ok(true);
        };
        if watch.protect(self.machine, work) {
            return Ok(true);
        }
        self.set(if fast { Means::Nothing } else { Means::Checks })?;
        Ok(false)
    }

    /// Before anything else than guest code happens.
    pub fn unprotect(&mut self) {
        if let Means::WriteProtects(watch) = &mut self.means {
            watch.unprotect();
        }
    }

    /// Whether the next instruction must run alone.
    pub fn is_alone(&self, place: (u32, u64)) -> bool {
        self.alone == Some(place)
    }

    /// The digest of the registers of the thread's position, where it is not that of the registers
    /// that it has.
    pub fn amid(&self) -> Option<u32> {
        self.amid
    }

    /// The thread has gone on from where it was.
    pub fn moved(&mut self) {
        (self.alone, self.amid) = (None, None);
    }

    /// An event has happened.
    pub fn passed_event(&mut self) {
        self.alone = None;
    }

    /// Guest code has stopped. Whether it was for an access.
    ///
    /// # Errors
    /// Its code cannot be guarded.
    pub fn takes(&mut self, at: &mut Stepper, stop: &Stop) -> Result<bool> {
        let written = matches!(stop, Stop::Fault { .. }) && self.is_watched_write(at)?;
        self.unprotect();
        if self.amid.is_some() {
            at.steps = None;
        }
        let mine = written || matches!(stop, Stop::Watch { .. });
        if mine {
            self.alone = Some((at.task.slot, at.task.ctx.rip));
        }
        Ok(mine)
    }

    /// Whether the fault that the thread has stopped with is a write to watched pages.
    fn is_watched_write(&mut self, at: &Stepper) -> Result<bool> {
        let Means::WriteProtects(watch) = &mut self.means else {
            return Ok(false);
        };
        if !watch.is_hit(&at.task) {
            return Ok(false);
        }
        let ctx = &at.task.ctx;
        let repeats = at
            .task
            .machine()
            .memory()
            .with_code(true, |_, code| relive_dbt::repeats(code, ctx.rip))?;
        self.amid = repeats.then(|| digest_of_start(ctx));
        Ok(true)
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
