//! Runs a thread's code until a stop that needs the engine. Writes to pages that only the host protects,
//! and growing stacks, are handled on the way. No other stop may be handled here.

use relive_dbt::{Behind, Next, Stop};
use relive_host::segments::Segments;
use relive_host::{GuestAddr, enter};

use super::{Task, stepping};
use crate::closed_page::ClosedPage;
use crate::failure::Result;
use crate::siginfo::{fault_addr, signo};
use crate::trap_flag::TrapFlag;

impl Task {
    /// Runs guest code until a stop that needs the engine. With `step`, at most one
    /// instruction. Writes to pages that only the host protects are taken care of here, so
    /// that they leave no mark on positions.
    ///
    /// # Errors
    /// The host cannot protect memory as it must.
    pub fn go(&mut self, step: bool) -> Result<Stop> {
        assert!(
            self.ctx.has_budget(),
            "a thread without ticks left would never stop"
        );
        match self.trap_flag {
            TrapFlag::Off => self.go_armed(step),
            TrapFlag::On | TrapFlag::Due => stepping::go(self, |task| task.go_armed(true)),
        }
    }

    fn go_armed(&mut self, step: bool) -> Result<Stop> {
        if self.traits.confined
            && let Some(armed) = self.mode().arm(self)?
        {
            return self.go_closed(step, &armed);
        }
        // The result of entering is this function's, and is not taken apart on the way: that costs
        // more than all else between two stops.
        let stop = self.enter(step, true);
        if let Ok(Stop::Fault { pc }) = stop {
            return self.go_behind_fault(step, None, pc);
        }
        stop
    }

    /// Runs guest code with a page closed.
    #[cold]
    fn go_closed(&mut self, step: bool, armed: &ClosedPage) -> Result<Stop> {
        let stop = match self.enter_again(step, true) {
            Ok(Stop::Fault { pc }) => self.go_behind_fault(step, Some(armed), pc),
            stop => stop,
        };
        self.machine.memory().reopen(armed.page)?;
        stop
    }

    /// Goes on behind a fault at `pc` that is the host's own matter; the others are stops.
    #[cold]
    fn go_behind_fault(
        &mut self,
        step: bool,
        armed: Option<&ClosedPage>,
        pc: GuestAddr,
    ) -> Result<Stop> {
        let mut stop = Stop::Fault { pc };
        while let Stop::Fault { .. } = stop {
            if armed.is_some_and(|a| a.is_hit(&mut self.ctx)) {
                return Ok(stop);
            }
            if !step {
                // It came here from the last safe point by an unknown number of steps.
                self.inexact();
            }
            let marks = self.ctx.marks;
            let grows = self.grows()?;
            if self.ctx.marks != marks && self.holder.is_some() {
                // It stood aside for others meanwhile.
                return Ok(self.without_lines());
            }
            if grows {
                stop = self.enter_again(step, true)?;
                continue;
            }
            let Some(page) = self.guarded_page() else {
                return Ok(stop);
            };
            // The instruction may lie on the very page that it writes to: it runs alone, with the
            // page open, and translations of the page are dropped afterwards.
            self.machine().memory().write_fault(page)?;
            stop = self.enter_again(true, false)?;
            self.machine().memory().forget_unguarded()?;
            if !step && matches!(stop, Stop::Stepped { .. }) {
                stop = self.enter_again(false, true)?;
            }
        }
        Ok(stop)
    }

    /// Grows a region, if the fault is just below one that grows. Returns whether it did.
    fn grows(&mut self) -> Result<bool> {
        let info = &self.ctx.fault.siginfo;
        let addr = fault_addr(info);
        if signo(info) != libc::SIGSEGV || self.machine().memory().space.at(addr).is_some() {
            return Ok(false);
        }
        let disturbs = self.may_change(&self.machine().memory(), addr, addr.saturating_add(1));
        let _quiet = match disturbs {
            Err(_) => self.quiesce(false)?,
            Ok(()) => None,
        };
        self.machine().memory().grow(addr)
    }

    /// The page of a fault that only the host's own protection caused.
    fn guarded_page(&self) -> Option<u64> {
        let info = &self.ctx.fault.siginfo;
        let addr = fault_addr(info);
        let memory = self.machine().memory();
        // Where threads run together, another thread may have opened the page since.
        let guarded =
            memory.is_guarded(addr) || self.traits.together && memory.space.may_write(addr);
        (signo(info) == libc::SIGSEGV && guarded).then_some(addr)
    }

    /// The stop of a thread that stood still, so that others may have taken the lines of the next instruction, and that is
    /// about to step it: a step looks at no permission.
    #[cold]
    fn without_lines(&mut self) -> Stop {
        self.ctx.permit_what = 0;
        let pc = GuestAddr(self.ctx.rip);
        Stop::Permission { pc }
    }

    /// [`Task::enter`] where speed does not matter.
    #[inline(never)]
    fn enter_again(&mut self, step: bool, guard: bool) -> Result<Stop> {
        self.enter(step, guard)
    }

    #[inline(always)]
    fn enter(&mut self, step: bool, guard: bool) -> Result<Stop> {
        if self.traits.multiplexed {
            self.segments.load();
        }
        let stood_aside = self.enter_guest()?;
        if step && stood_aside && self.holder.is_some() {
            self.leave_guest();
            return Ok(self.without_lines());
        }
        let stop = self.translated(step, guard);
        self.leave_guest();
        if self.traits.multiplexed {
            self.segments = Segments::stored();
        }
        stop
    }

    #[inline(always)]
    fn translated(&mut self, step: bool, guard: bool) -> Result<Stop> {
        let m = self.machine();
        let pc = GuestAddr(self.ctx.rip);
        let entry = match self.behind.entry(pc).filter(|_| !step) {
            Some(at) => Ok(at),
            None => m.memory().with_code(guard, |t, code| {
                if step {
                    t.step_entry(code, pc)
                } else {
                    t.entry(code, pc)
                }
            })?,
        };
        let mut entry = match entry {
            Ok(at) => at,
            Err(bad) => return Ok(bad.into()),
        };
        self.tape.lend(&mut self.ctx);
        loop {
            self.ctx.entry = entry;
            // SAFETY: this thread has adopted the context; `entry` was just given by the
            // translator, which keeps code alive until no thread can be in it.
            unsafe { enter::enter(&raw mut *self.ctx) };
            let ctx = &mut *self.ctx;
            // The translator counts its exits itself.
            let answer = if !crate::stats::wanted()
                && let Some((answer, behind)) = Behind::exit(ctx)
            {
                self.behind = behind;
                answer
            } else {
                m.memory()
                    .with_code(guard, |t, code| t.resolve(code, ctx))?
            };
            match answer {
                Next::Enter(at) => {
                    entry = at;
                    self.tape.sample(&mut self.ctx)?;
                }
                Next::Stop(stop) => {
                    self.tape.take_back(&mut self.ctx)?;
                    return Ok(stop);
                }
            }
        }
    }
}
