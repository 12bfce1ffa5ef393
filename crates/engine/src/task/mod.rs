//! One guest thread, and its plain-data description, [`TaskState`].

pub mod flow;
pub mod state;

use state::{NO_ROBUST_LIST, comm};

use std::sync::Arc;

use relive_dbt::{Behind, Next, Stop};
use relive_host::segments::Segments;
use relive_host::{Context, GuestAddr, enter};
use relive_trace::{Event, Kind, TapeId};

use crate::closed_page::ClosedPage;
use crate::forbidden::Forbidden;
use crate::input::cursors::Cursors;
use crate::kernel::log::Log;
use crate::machine::Machine;
use crate::mode::Mode;
use crate::process::Process;
use crate::signals::state::TaskSignals;
use crate::spin::Spin;
use crate::tape::{Tape, digest};
use crate::trap_flag::{self, TrapFlag};

/// One guest thread: its registers and what the kernel would know about it.
pub struct Task {
    /// Registers, tick budget, noted signals.
    pub ctx: Box<Context>,
    /// The process it belongs to.
    pub process: Arc<Process>,
    /// Its index in the process.
    pub index: u32,
    /// Its identity for the baton and the schedule: the index of the thread of the address
    /// space that it stands for (its own, but for a vfork child).
    pub slot: u32,
    /// Its kernel thread id (the recorded one, in replay).
    pub tid: u32,
    /// Mask, alternate stack, pending signals.
    pub signals: TaskSignals,
    /// Address to clear and wake when the thread ends (set_tid_address(2)).
    pub clear_tid: u64,
    /// Head of the robust futex list and its length argument.
    pub robust: (u64, u64),
    /// Its history.
    pub tape: Tape,
    /// What the system call at hand did.
    pub log: Log,
    /// Where in the store of input its last reads ended.
    pub cursors: Cursors,
    /// Guest instructions stepped since the last tick or logged event, while `exact`.
    pub steps: u32,
    /// Whether `steps` is known: the thread is at a safe point.
    pub exact: bool,
    /// Replay: the thread gave up the baton inside the system call that its next event ends.
    pub parked: bool,
    /// Its name, as prctl(2) PR_SET_NAME sets it, filled up with zeros. Only of use to who
    /// looks at a replay: the guest asks the kernel.
    pub comm: [u8; 16],
    /// Whether it steps itself.
    pub trap_flag: TrapFlag,
    /// Its segment registers, in replay; live they are the host thread's. A new one has its creator's.
    pub segments: Segments,
    /// Which instructions it may not execute.
    pub forbidden: Forbidden,
    /// What it may call, if it has been confined.
    pub seccomp: Option<crate::seccomp::Mode>,
    /// How many filters for all threads of the process it has looked at.
    pub filters_seen: u32,
    /// What is known of how it waits for others.
    pub spin: Spin,
    /// The host process that runs it.
    machine: &'static Machine,
    /// How it runs.
    mode: &'static dyn Mode,
    /// Where to go on behind the last system call.
    behind: Behind,
    /// A vfork child runs in this task: what the parent goes on with.
    pub vforked: Option<Box<crate::vforked::Parent>>,
}

impl Task {
    /// A task that has not run yet.
    #[must_use]
    pub fn new(
        machine: &'static Machine,
        process: Arc<Process>,
        index: u32,
        tid: u32,
        tape: Tape,
    ) -> Self {
        Self {
            ctx: Context::new(),
            process,
            index,
            slot: index,
            tid,
            signals: TaskSignals::default(),
            clear_tid: 0,
            robust: NO_ROBUST_LIST,
            tape,
            log: Log::default(),
            cursors: Cursors::default(),
            steps: 0,
            exact: true,
            parked: false,
            comm: [0; 16],
            trap_flag: TrapFlag::Off,
            segments: Segments::stored(),
            forbidden: Forbidden::default(),
            seccomp: None,
            filters_seen: 0,
            spin: Spin::default(),
            machine,
            mode: machine.mode,
            behind: Behind::default(),
            vforked: None,
        }
    }

    /// The host process that runs it.
    #[must_use]
    pub fn machine(&self) -> &'static Machine {
        self.machine
    }

    /// Sets what it may not execute.
    pub fn forbid(&mut self, forbidden: Forbidden) {
        self.forbidden = forbidden;
        // Translated code reads the counter by itself otherwise.
        self.ctx.leave_counter(forbidden.counter);
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> Vec<u8> {
        self.comm.iter().copied().take_while(|&b| b != 0).collect()
    }

    /// Sets its name, cut to 15 bytes.
    pub fn set_name(&mut self, name: &[u8]) {
        self.comm = comm(name);
    }

    /// Its tape's name.
    #[must_use]
    pub fn id(&self) -> TapeId {
        TapeId {
            process: self.process.index,
            thread: self.index,
        }
    }

    /// Runs guest code until something needs the engine. With `step`, at most one
    /// instruction. Writes to pages that only the host protects are taken care of here, so
    /// that they leave no mark on positions.
    pub fn go(&mut self, step: bool) -> Stop {
        assert!(
            self.ctx.has_budget(),
            "a thread without ticks left would never stop"
        );
        match self.trap_flag {
            TrapFlag::Off => self.go_armed(step),
            TrapFlag::On | TrapFlag::Due => trap_flag::go(self, |task| task.go_armed(true)),
        }
    }

    fn go_armed(&mut self, step: bool) -> Stop {
        let armed = self.mode().arm(self);
        let stop = self.go_on(step, armed.as_ref());
        if let Some(armed) = armed {
            armed.disarm(self);
        }
        stop
    }

    fn go_on(&mut self, step: bool, armed: Option<&ClosedPage>) -> Stop {
        let mut stop = self.enter(step, true);
        while let Stop::Fault { .. } = stop {
            if armed.is_some_and(|a| a.is_hit(self)) {
                return stop;
            }
            if self.grows() {
                stop = self.enter(step, true);
                continue;
            }
            let Some(page) = self.guarded_page() else {
                return stop;
            };
            // The instruction may lie on the very page that it writes to: it runs alone,
            // with the page open, and the page is looked at afresh afterwards.
            self.machine().memory().write_fault(page);
            stop = self.enter(true, false);
            self.machine().memory().forget_unguarded();
            if !step && matches!(stop, Stop::Stepped { .. }) {
                stop = self.enter(false, true);
            }
        }
        stop
    }

    /// Whether the fault is one below a region that grows, and has been made to.
    fn grows(&self) -> bool {
        let info = &self.ctx.fault.siginfo;
        let addr = crate::signals::info::fault_addr(info);
        crate::signals::info::signo(info) == libc::SIGSEGV && self.machine().memory().grow(addr)
    }

    /// The page of a fault that only the host's own protection caused.
    fn guarded_page(&self) -> Option<u64> {
        let info = &self.ctx.fault.siginfo;
        let addr = crate::signals::info::fault_addr(info);
        let memory = self.machine().memory();
        // Where threads run together another one may have opened the page since.
        let guarded = memory.is_guarded(addr)
            || self.mode().traits().together && memory.space.may_write(addr);
        (crate::signals::info::signo(info) == libc::SIGSEGV && guarded).then_some(addr)
    }

    fn enter(&mut self, step: bool, guard: bool) -> Stop {
        if !self.mode().traits().multiplexed {
            return self.enter_as_is(step, guard);
        }
        self.segments.load();
        let stop = self.enter_as_is(step, guard);
        self.segments = Segments::stored();
        stop
    }

    fn enter_as_is(&mut self, step: bool, guard: bool) -> Stop {
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
            }),
        };
        let mut next = match entry {
            Ok(at) => at,
            Err(bad) => return bad.into(),
        };
        self.tape.lend(&mut self.ctx);
        loop {
            self.ctx.entry = next;
            // SAFETY: this thread has adopted the context; `entry` was just given by the
            // translator, which keeps code alive until no thread can be in it.
            unsafe { enter::enter(&raw mut *self.ctx) };
            let ctx = &mut *self.ctx;
            // The translator counts its exits itself.
            if !crate::stats::wanted()
                && let Some((stop, behind)) = Behind::call(ctx)
            {
                self.behind = behind;
                self.tape.take_back(&self.ctx);
                return stop;
            }
            match m.memory().with_code(guard, |t, code| t.resolve(code, ctx)) {
                Next::Enter(at) => next = at,
                Next::Stop(stop) => {
                    self.tape.take_back(&self.ctx);
                    return stop;
                }
            }
        }
    }

    /// Logs an event at the present position (while recording) and makes the position a
    /// safe point.
    pub fn record(&mut self, kind: Kind<'_>) {
        let event = Event {
            ticks: self.ctx.ticks(),
            digest: digest(&self.ctx),
            kind,
        };
        if let Tape::Out(tape) = &mut self.tape {
            tape.put(&event);
        }
        self.at_event();
    }

    /// Writes the readings of clocks that have been made since the last event: before others
    /// run, who may be recorded to their end while this thread's next event never comes.
    pub fn flush_readings(&mut self) {
        let ticks = self.ctx.ticks();
        if let Tape::Out(tape) = &mut self.tape {
            tape.flush(ticks);
        }
    }

    /// The position is now one just behind a logged event.
    pub fn at_event(&mut self) {
        (self.steps, self.exact) = (0, true);
    }

    /// The position is now one that has no name.
    pub fn inexact(&mut self) {
        self.exact = false;
    }

    /// How it runs: as its process does, unless it makes an inferior call.
    #[must_use]
    pub fn mode(&self) -> &'static dyn Mode {
        self.mode
    }

    /// Lets it run in another mode from now on.
    pub fn set_mode(&mut self, mode: &'static dyn Mode) {
        self.mode = mode;
    }

    /// Writes guest memory as the kernel would: into writable pages only.
    ///
    /// # Errors
    /// EFAULT (negative), as a system call returns it.
    pub fn write(&self, addr: u64, bytes: &[u8]) -> std::result::Result<(), i64> {
        self.mode().wrote(addr, bytes.len() as u64);
        if relive_host::copy::write(GuestAddr(addr), bytes).is_ok() {
            return Ok(());
        }
        let end = addr.saturating_add(bytes.len() as u64);
        self.machine().memory().unguard(addr, end);
        relive_host::copy::write(GuestAddr(addr), bytes).map_err(|_| -i64::from(libc::EFAULT))
    }

    /// Writes a part of the outcome into guest memory, and notes it for the tape.
    ///
    /// # Errors
    /// EFAULT (negative), as a system call returns it.
    pub fn give(&mut self, at: u64, bytes: &[u8]) -> std::result::Result<(), i64> {
        self.write(at, bytes)?;
        self.log.wrote(at, bytes.len() as u64);
        Ok(())
    }

    /// Reads guest memory.
    ///
    /// # Errors
    /// EFAULT (negative), as a system call returns it.
    pub fn read<const N: usize>(&self, addr: u64) -> std::result::Result<[u8; N], i64> {
        relive_host::copy::read_array(GuestAddr(addr)).map_err(|_| -i64::from(libc::EFAULT))
    }

    /// Reads a u64.
    ///
    /// # Errors
    /// As [`Task::read`].
    pub fn read_u64(&self, addr: u64) -> std::result::Result<u64, i64> {
        self.read(addr).map(u64::from_le_bytes)
    }
}
