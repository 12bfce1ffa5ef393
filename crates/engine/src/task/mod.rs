//! One guest thread, and its plain-data description, [`plain_task::TaskState`].

mod capture;
pub mod cursors;
pub mod ending;
mod go;
pub mod parent;
pub mod plain_task;
mod quiet;
mod robust;
pub mod signal_state;
mod stepping;

use parent::Parent;
use plain_task::{NO_ROBUST_LIST, comm};

use std::cell::Cell;
use std::sync::Arc;

use relive_dbt::Behind;
use relive_host::copy::BadAddress;
use relive_host::segments::Segments;
use relive_host::{Context, GuestAddr};
use relive_trace::{Event, Kind, TapeId};

use crate::call::log::Log;
use crate::call::strings::Strings;
use crate::failure::{CallResult, Result};
use crate::forbidden::Forbidden;
use crate::lines::{Holder, MemoryUse};
use crate::machine::Machine;
use crate::mode::{Mode, ModeTraits};
use crate::process::Process;
use crate::registry::Member;
use crate::seccomp::filter::Confined;
use crate::sharing::changes::Intended;
use crate::spin::Spin;
use crate::tape::{Tape, digest};
use crate::task::cursors::Cursors;
use crate::task::signal_state::TaskSignals;
use crate::traced::Traced;
use crate::trap_flag::TrapFlag;

/// One guest thread: its registers, and the state that the kernel would have of it.
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
    /// The effects of the system call at hand.
    pub log: Log,
    /// The strings of that call, where other threads could change them.
    pub strings: Strings,
    /// The places in the store of input at which its last reads ended.
    pub cursors: Cursors,
    /// Guest instructions stepped since the last tick or logged event, while `exact`.
    pub steps: u32,
    /// Whether `steps` is known: the thread is at a safe point.
    pub exact: bool,
    /// Replay: the thread gave up the baton inside the system call that its next event ends.
    pub parked: bool,
    /// Its name, as prctl(2) PR_SET_NAME sets it, filled up with zeros. Only the debugger of a replay
    /// uses it: the guest asks the kernel.
    pub comm: [u8; 16],
    /// Whether it steps itself.
    pub trap_flag: TrapFlag,
    /// Its segment registers, in replay; live they are the host thread's. A new thread has its creator's.
    pub segments: Segments,
    /// The instructions that it may not execute.
    pub forbidden: Forbidden,
    /// The calls that it may make, if it has been confined.
    pub seccomp: Option<Confined>,
    /// The number of filters for all threads of the process that it has examined.
    pub filters_seen: u32,
    /// Its history of waiting for other threads in a loop.
    pub spin: Spin,
    /// Its place among the threads of the process, where these run together.
    pub member: Option<Arc<Member>>,
    /// Its permissions, where memory is ordered by its lines and several threads run.
    pub holder: Option<Arc<Holder>>,
    /// There too: the memory that the call at hand reads and writes.
    pub permitted: Vec<MemoryUse>,
    /// Its ticks and its address where it got lines for an instruction the last time.
    pub got_lines_at: (u64, u64),
    /// The byte that the call at hand did not find when it accessed memory for itself, the last one if there are several; 0: it found all.
    pub missing: Cell<u64>,
    /// Where threads run together: the change that the call at hand is about to make of a file.
    pub intended: Option<Intended>,
    /// It has ended as the last thread of its process.
    pub last: bool,
    /// The host process that runs it.
    machine: &'static Machine,
    /// How it runs.
    mode: &'static dyn Mode,
    /// The mode's properties, which are read on each way into translated code.
    traits: ModeTraits,
    /// The place in the code cache at which the thread goes on behind its last system call.
    behind: Behind,
    /// Another recorded process traces it.
    pub traced: Option<Box<Traced>>,
    /// A tracer may have something to say to it.
    pub looks: bool,
    /// It is a process of its own in the memory of another, and has its turns as a thread of that one
    /// (`modes/live/lodger.rs`).
    pub lodges: bool,
    /// The parent, put aside, while a vfork child runs in this task.
    pub vforked: Option<Box<Parent>>,
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
        let mut ctx = Context::new();
        ctx.order_id = index + 1;
        Self {
            ctx,
            process,
            index,
            slot: index,
            tid,
            signals: TaskSignals::default(),
            clear_tid: 0,
            robust: NO_ROBUST_LIST,
            tape,
            log: Log::default(),
            strings: Strings::default(),
            cursors: Cursors::default(),
            steps: 0,
            exact: true,
            parked: false,
            missing: Cell::new(0),
            intended: None,
            last: false,
            comm: [0; 16],
            trap_flag: TrapFlag::Off,
            segments: Segments::stored(),
            forbidden: Forbidden::default(),
            seccomp: None,
            filters_seen: 0,
            spin: Spin::default(),
            member: None,
            holder: None,
            permitted: Vec::new(),
            got_lines_at: (0, 0),
            machine,
            mode: machine.mode,
            traits: machine.mode.traits(),
            behind: Behind::default(),
            traced: None,
            looks: false,
            lodges: false,
            vforked: None,
        }
    }

    /// The host process that runs it.
    #[must_use]
    pub fn machine(&self) -> &'static Machine {
        self.machine
    }

    /// Tells the kernel all signal actions of the process.
    pub fn show_actions(&self) {
        let actions = self.process.state().actions;
        for (sig, action) in (0..).zip(&actions).skip(1) {
            self.mode.host().action(sig, action);
        }
    }

    /// Sets the instructions that it may not execute.
    pub fn forbid(&mut self, forbidden: Forbidden) {
        self.forbidden = forbidden;
        // Translated code reads the counter by itself, unless it leaves that to the engine.
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

    /// Logs an event at the present position (while recording) and makes the position a
    /// safe point.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub fn record(&mut self, kind: Kind<'_>) -> Result<()> {
        let event = Event {
            ticks: self.ctx.ticks(),
            digest: digest(&self.ctx),
            kind,
        };
        if let Tape::Out(tape) = &mut self.tape {
            tape.put(&event)?;
        }
        self.at_event();
        Ok(())
    }

    /// Writes the readings of clocks that have been made since the last event. This must come before
    /// other threads run: they may be recorded to their end while this thread's next event never comes.
    ///
    /// # Errors
    /// No supervisor stores them.
    pub fn flush_readings(&mut self) -> Result<()> {
        let ticks = self.ctx.ticks();
        match &mut self.tape {
            Tape::Out(tape) => Ok(tape.flush(ticks)?),
            _ => Ok(()),
        }
    }

    /// Notes that it has come to a call in which it may stay for ever.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub fn arrived(&mut self) -> Result<()> {
        let ticks = self.ctx.ticks();
        match &mut self.tape {
            Tape::Out(tape) => Ok(tape.arrived(ticks)?),
            _ => Ok(()),
        }
    }

    /// Notes that the position is just behind a logged event.
    pub fn at_event(&mut self) {
        (self.steps, self.exact) = (0, true);
    }

    /// Whether it stands right behind its last tick or event.
    #[must_use]
    pub fn is_at_tick_or_event(&self) -> bool {
        self.exact && self.steps == 0
    }

    /// Notes that the position is no safe point: its number of steps is unknown.
    pub fn inexact(&mut self) {
        self.exact = false;
    }

    /// How it runs: as its process does, unless it makes an inferior call.
    #[must_use]
    pub fn mode(&self) -> &'static dyn Mode {
        self.mode
    }

    /// The properties of its mode.
    #[must_use]
    pub fn traits(&self) -> &ModeTraits {
        &self.traits
    }

    /// Whether other threads run at the same time: guest memory that is read twice may differ.
    #[must_use]
    pub fn has_company(&self) -> bool {
        self.traits.together && self.mode.others_see(self)
    }

    /// Lets it run in another mode from now on.
    pub fn set_mode(&mut self, mode: &'static dyn Mode) {
        (self.mode, self.traits) = (mode, mode.traits());
    }

    /// Writes guest memory as the kernel would: into writable pages only.
    ///
    /// # Errors
    /// EFAULT, or a page cannot be opened.
    pub fn write(&self, addr: u64, bytes: &[u8]) -> CallResult<()> {
        self.mode().wrote(addr, bytes.len() as u64);
        if relive_host::copy::write(GuestAddr(addr), bytes).is_ok() {
            return Ok(());
        }
        let end = addr.saturating_add(bytes.len() as u64);
        // While this thread holds the lock, no other guards the pages again.
        let mut memory = self.machine().memory();
        memory.unguard(addr, end)?;
        relive_host::copy::write(GuestAddr(addr), bytes).map_err(|bad| self.missed(bad).into())
    }

    /// Changes a word of guest memory as the kernel would, by one atomic instruction: `change` maps the
    /// present word to the new one, or to `None` if it stays. Returns the word before.
    ///
    /// # Errors
    /// EFAULT, or a page cannot be opened.
    pub fn change_word(&self, addr: u64, change: impl Fn(u32) -> Option<u32>) -> CallResult<u32> {
        let mut there = u32::from_le_bytes(self.read(addr)?);
        while let Some(new) = change(there) {
            let found = self.exchange(addr, there, new)?;
            if found == there {
                break;
            }
            there = found;
        }
        Ok(there)
    }

    fn exchange(&self, addr: u64, old: u32, new: u32) -> CallResult<u32> {
        self.mode().wrote(addr, 4);
        if let Ok(found) = relive_host::copy::exchange(GuestAddr(addr), old, new) {
            return Ok(found);
        }
        let mut memory = self.machine().memory();
        memory.unguard(addr, addr.saturating_add(4))?;
        let found = relive_host::copy::exchange(GuestAddr(addr), old, new);
        found.map_err(|_| libc::EFAULT.into())
    }

    /// Writes a part of the outcome into guest memory, and notes it for the tape.
    ///
    /// # Errors
    /// EFAULT, or a page cannot be opened.
    pub fn give(&mut self, at: u64, bytes: &[u8]) -> CallResult<()> {
        self.write(at, bytes)?;
        self.log.wrote(at, bytes.len() as u64);
        Ok(())
    }

    /// Reads guest memory.
    ///
    /// # Errors
    /// EFAULT (negative), as a system call returns it.
    pub fn read<const N: usize>(&self, addr: u64) -> std::result::Result<[u8; N], i64> {
        relive_host::copy::read_array(GuestAddr(addr)).map_err(|bad| -i64::from(self.missed(bad)))
    }

    /// Notes the byte that was not found. EFAULT.
    fn missed(&self, bad: BadAddress) -> i32 {
        self.missing.set(bad.0.0);
        libc::EFAULT
    }

    /// Reads a u64.
    ///
    /// # Errors
    /// As [`Task::read`].
    pub fn read_u64(&self, addr: u64) -> std::result::Result<u64, i64> {
        self.read(addr).map(u64::from_le_bytes)
    }
}
