//! Resuming: the client's orders, and their outcomes.

use gdbstub::common::{Signal, Tid};
use gdbstub::target::TargetError;
use gdbstub::target::ext::base::multithread::{
    MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume,
    MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps, MultiThreadSingleStep,
    MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{
    ReplayLogPosition, ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps,
};
use gdbstub::target::ext::catch_syscalls::CatchSyscallPosition;
use relive_engine::Failure;
use relive_engine::timeline::{
    Ended, Hit, Interrupter, OTHERS, StopEvent, StopReason, Stopped, Thread, Watching,
};

use crate::debuggee::{Debuggee, RSP, tid};
use crate::order::{Order, Reason};
use crate::signals::to_gdb;
use crate::stops::kind_to;

impl MultiThreadResume for Debuggee {
    fn resume(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Failure> {
        self.order = Order::Continue;
        Ok(())
    }

    fn set_resume_action_continue(&mut self, _: Tid, _: Option<Signal>) -> Result<(), Failure> {
        // Signals are the recording's: none is added, none is left out.
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Debuggee {
    fn set_resume_action_step(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), Failure> {
        self.order = Order::Step(tid);
        Ok(())
    }
}

impl MultiThreadRangeStepping for Debuggee {
    fn set_resume_action_range_step(
        &mut self,
        tid: Tid,
        start: u64,
        end: u64,
    ) -> Result<(), Failure> {
        self.order = Order::Range(tid, start, end);
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Debuggee {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Failure> {
        // The schedule is the recording's: other threads run where they ran.
        Ok(())
    }
}

impl ReverseCont<Tid> for Debuggee {
    fn reverse_cont(&mut self) -> Result<(), Failure> {
        self.order = Order::Back;
        Ok(())
    }
}

impl ReverseStep<Tid> for Debuggee {
    fn reverse_step(&mut self, tid: Tid) -> Result<(), Failure> {
        self.order = Order::StepBack(tid);
        Ok(())
    }
}

impl Debuggee {
    /// Carries out the order. `None`: the client has sent something before it is done.
    ///
    /// # Errors
    /// Divergence, or the replay is gone.
    pub(crate) fn go(&mut self, wanted: &mut dyn Interrupter) -> Result<Option<Reason>, Failure> {
        self.at_signal = false;
        if let Some(thread) = self.strayed()? {
            return self.stray(&thread, wanted);
        }
        // Going backwards, no child has ever had its parent's memory.
        let is_due = |r: &Reason| !(self.order.is_back() && matches!(r, Reason::VForkDone(_)));
        let shown = self.shown.take();
        let is_other = |program: &_| shown.as_ref().is_some_and(|shown| shown != program);
        if let Some(reason) = self.owed.take().filter(is_due) {
            return Ok(Some(match is_other(&self.program) {
                true => self.executes_first(reason),
                false => reason,
            }));
        }
        if self.timeline.forget_changes() {
            self.news.push(
                "what was written into the program is forgotten: the recording goes on".to_owned(),
            );
        }
        self.timeline.stops = self.stops();
        let met = self.met.take();
        let mut stopped = self.move_on(wanted)?;
        // After a backward run the program stands as if it had come forwards.
        if let Stopped::Hit(hit) = stopped {
            if !self.order.is_back() && met == Some((hit.before.event, hit.what)) {
                stopped = self.move_on(wanted)?;
            } else if self.order.is_back()
                && matches!(
                    hit.what,
                    StopEvent::Signal(_) | StopEvent::Call(_) | StopEvent::Returned(_)
                )
            {
                self.met = Some((hit.before.event, hit.what));
            }
        }
        self.look()?;
        let reason = self.reason(stopped);
        Ok(match is_other(&self.program) {
            true => reason.map(|reason| self.executes_first(reason)),
            false => reason,
        })
    }

    /// The stop that tells the client of another program, which it goes on from by itself: the one that it waits for
    /// comes then.
    fn executes_first(&mut self, reason: Reason) -> Reason {
        self.owed = Some(reason);
        self.executes(self.tid(self.status().slot))
    }

    /// The thread executes a program.
    fn executes(&mut self, tid: Tid) -> Reason {
        let hex: String = self.program.0.iter().map(|b| format!("{b:02x}")).collect();
        self.told = Some(format!("exec:{hex};"));
        Reason::Library(tid)
    }

    /// Moves to the next stop once, as ordered.
    fn move_on(&mut self, wanted: &mut dyn Interrupter) -> Result<Stopped, Failure> {
        match self.order {
            Order::Continue => self.forward(wanted),
            Order::Step(t) => {
                let slot = self.slot_of(t);
                self.timeline.step(slot, 1, wanted)
            }
            Order::Range(t, start, end) => self.range(t, start, end, wanted),
            Order::Back => self.timeline.backward(wanted),
            Order::StepBack(t) => {
                let slot = self.slot_of(t);
                self.timeline.step_back(slot, wanted)
            }
        }
    }

    /// Moves forward to the next stop. A child that the client holds already is no stop.
    fn forward(&mut self, wanted: &mut dyn Interrupter) -> Result<Stopped, Failure> {
        loop {
            let stopped = self.timeline.forward(wanted)?;
            match stopped {
                Stopped::Hit(Hit {
                    what: StopEvent::Fork { pid, .. },
                    ..
                }) if self.known.contains(&pid) => {}
                _ => return Ok(stopped),
            }
        }
    }

    fn slot_of(&self, tid: Tid) -> u32 {
        self.slot(tid).unwrap_or(self.status().slot)
    }

    fn range(
        &mut self,
        tid: Tid,
        start: u64,
        end: u64,
        wanted: &mut dyn Interrupter,
    ) -> Result<Stopped, Failure> {
        let slot = self.slot_of(tid);
        loop {
            let stopped = self.timeline.step(slot, 1, wanted)?;
            let status = self.timeline.status();
            let inside = status.slot == slot && (start..end).contains(&status.pc);
            let at_stop = self.breakpoints.contains(&status.pc);
            if stopped != Stopped::Stepped || !inside || at_stop {
                return Ok(stopped);
            }
            if wanted.wanted() {
                return Ok(Stopped::Interrupted);
            }
        }
    }

    fn reason(&mut self, stopped: Stopped) -> Option<Reason> {
        let status = self.status();
        let back = self.order.is_back();
        let here = self.tid(status.slot);
        self.current = Some(here);
        Some(match stopped {
            Stopped::Interrupted => return None,
            Stopped::Hit(hit) => self.of_hit(&hit),
            Stopped::Start => {
                self.current = Some(here);
                Reason::ReplayLog {
                    tid: Some(here),
                    pos: ReplayLogPosition::Begin,
                }
            }
            Stopped::Ended(how) => {
                let pid = status.pid;
                self.news.push(match how {
                    Ended::Code(code) => format!("process {pid} exited with code {code}"),
                    Ended::Signal(sig) => format!(
                        "process {pid} was killed by {}",
                        relive_kabi::signal_name(sig).unwrap_or("a signal".into())
                    ),
                    Ended::CutOff => format!("the recording of process {pid} ends here"),
                });
                Reason::ReplayLog {
                    tid: Some(here),
                    pos: match back {
                        true => ReplayLogPosition::Begin,
                        false => ReplayLogPosition::End,
                    },
                }
            }
            Stopped::There | Stopped::Stepped => {
                let tid = match self.order {
                    Order::Step(t) | Order::Range(t, ..) | Order::StepBack(t)
                        if self.slot(t).is_some() =>
                    {
                        t
                    }
                    _ => here,
                };
                Reason::SignalWithThread {
                    tid,
                    signal: Signal::SIGTRAP,
                }
            }
        })
    }

    fn of_hit(&mut self, hit: &Hit) -> Reason {
        let tid = self.tid(hit.slot);
        self.current = Some(tid);
        match hit.what {
            StopEvent::Breakpoint(_) => Reason::SwBreak(tid),
            StopEvent::Watchpoint { watch, call, .. } => {
                if call == Some(OTHERS) {
                    self.news
                        .push("another process wrote to watched memory".to_owned());
                }
                if let Some(row) = call.and_then(|nr| relive_kabi::row(u64::from(nr))) {
                    self.news
                        .push(format!("system call {} wrote to watched memory", row.name));
                }
                Reason::Watch {
                    tid,
                    kind: kind_to(watch.kind),
                    addr: watch.addr,
                }
            }
            StopEvent::Signal(sig) => {
                self.at_signal = true;
                Reason::SignalWithThread {
                    tid,
                    signal: to_gdb(sig),
                }
            }
            StopEvent::Call(nr) => Reason::CatchSyscall {
                tid: Some(tid),
                number: nr.into(),
                position: CatchSyscallPosition::Entry,
            },
            StopEvent::Returned(nr) => Reason::CatchSyscall {
                tid: Some(tid),
                number: nr.into(),
                position: CatchSyscallPosition::Return,
            },
            StopEvent::Exec => self.executes(tid),
            StopEvent::Fork { pid, vfork } => {
                let word = if vfork { "vfork" } else { "fork" };
                self.told = Some(format!("{word}:p{pid:x}.{pid:x};"));
                self.forked = Some(pid);
                self.owed = vfork.then_some(Reason::VForkDone(tid));
                Reason::Library(tid)
            }
        }
    }

    /// The thread that leaves the recording, if the client wants it to go on.
    fn strayed(&mut self) -> Result<Option<Thread>, Failure> {
        let slot = self.astray.take();
        if !self.timeline.is_changed() || self.order.is_back() {
            return Ok(None);
        }
        self.astray = slot;
        let threads = self.timeline.guest().threads();
        let threads = match self.survive(threads) {
            Ok(threads) => threads,
            Err(TargetError::Fatal(e)) => return Err(e),
            Err(_) => return Ok(None),
        };
        Ok(threads.into_iter().find(|t| Some(t.slot) == slot))
    }

    /// The place of a thread in the copy, as the end of a call: the same function may be called
    /// again from there.
    fn end_of(&mut self, slot: u32) -> Option<(u32, u64, u64)> {
        // A copy that has died reports that when it is resumed.
        let registers = self.timeline.guest().registers(slot).ok().flatten();
        registers.map(|r| (slot, r.rip, r.gpr[RSP]))
    }

    /// Runs a thread in the copy.
    fn stray(
        &mut self,
        thread: &Thread,
        wanted: &mut dyn Interrupter,
    ) -> Result<Option<Reason>, Failure> {
        let slot = thread.slot;
        let here = self.end_of(slot);
        if self.finished.is_some() && self.finished == here {
            self.timeline.forget_changes();
            (self.astray, self.finished) = (None, None);
            self.news.push(
                "the function that was called ends here; this is the recording again, where it was"
                    .to_owned(),
            );
            self.look()?;
            return Ok(Some(Reason::SignalWithThread {
                tid: self.tid(self.status().slot),
                signal: Signal::SIGTRAP,
            }));
        }
        let mut stops = self.stops();
        stops.watchpoints.retain(|w| w.kind != Watching::Reads);
        let step = self.order.is_step();
        let guest = self.timeline.guest();
        let ran = guest.inferior_call(slot, step, &stops, wanted);
        let (ran, output) = match self.survive(ran) {
            Ok(ran) => ran,
            Err(TargetError::Fatal(e)) => return Err(e),
            // The recording's position has not changed.
            Err(_) => {
                return Ok(Some(Reason::SignalWithThread {
                    tid: self.tid(self.status().slot),
                    signal: Signal::SIGABRT,
                }));
            }
        };
        if !output.is_empty() {
            self.news
                .push(String::from_utf8_lossy(&output).trim_end().to_owned());
        }
        self.look()?;
        let here = self.tid(slot);
        Ok(match ran.why {
            StopReason::Interrupted => None,
            StopReason::Hit(hit) => {
                let reason = self.of_hit(&hit);
                if matches!(hit.what, StopEvent::Signal(_)) {
                    // A copy delivers no signal, so the call cannot go on.
                    (self.at_signal, self.finished) = (false, self.end_of(slot));
                }
                Some(reason)
            }
            _ => Some(Reason::SignalWithThread {
                tid: here,
                signal: Signal::SIGTRAP,
            }),
        })
    }

    /// The reason for a stop that the client has asked for.
    pub(crate) fn interrupted(&mut self) -> Reason {
        Reason::SignalWithThread {
            tid: tid(self.status().tid),
            signal: Signal::SIGINT,
        }
    }
}
