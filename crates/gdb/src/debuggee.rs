//! The recorded process as the client's target.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::Path;
use std::rc::Rc;

use gdbstub::common::Tid;
use gdbstub::target::{TargetError, TargetResult};
use relive_engine::Failure;
use relive_engine::timeline::{
    Follow, Registers, ReplayStatus, StopEvent, Stopped, Thread, Timeline, Uninterrupted,
    Watchpoint, vector_places, vector_state,
};
use relive_trace::Trace;

use crate::arch::{Register, features};
use crate::at::At;
use crate::description;
use crate::files::{Files, Open};
use crate::interrupt::Interrupt;
use crate::order::{Order, Reason};

/// Errno values for the client.
pub(crate) const EFAULT: u8 = 14;
pub(crate) const ESRCH: u8 = 3;
pub(crate) const EINVAL: u8 = 22;
pub(crate) const ENOMEM: u8 = 12;
/// The stack pointer among the general registers.
pub(crate) const RSP: usize = 4;

/// The process.
pub struct Debuggee {
    pub(crate) timeline: Timeline,
    pub(crate) files: Files,
    pub(crate) registers: Vec<Register>,
    pub(crate) description: String,
    pub(crate) auxv: Vec<u8>,
    pub(crate) open: Vec<Option<Open>>,
    /// Threads at the timeline's position, the running one first.
    pub(crate) threads: Vec<Thread>,
    /// How to go on, as the client has ordered.
    pub(crate) order: Order,
    pub(crate) breakpoints: BTreeSet<u64>,
    /// Conditions of breakpoints, by address; also of some that were removed.
    pub(crate) conditions: BTreeMap<u64, Vec<Vec<u8>>>,
    /// Bytes of packets with conditions since the process last went on.
    pub(crate) noted: usize,
    pub(crate) watchpoints: Vec<Watchpoint>,
    /// The thread that a stop was last reported for.
    pub(crate) current: Option<Tid>,
    /// Messages for the client's user.
    pub(crate) news: Vec<String>,
    /// System calls that the client catches; an empty list means all.
    pub(crate) calls: Option<Vec<u32>>,
    /// The program that runs: its path, and the stack pointer that it began with.
    pub(crate) program: (Vec<u8>, u64),
    /// The program that the client knows of, if it has moved since by a command of its own.
    pub(crate) shown: Option<(Vec<u8>, u64)>,
    /// The reason of the next stop as text of the protocol, where gdbstub cannot express it.
    pub(crate) told: Option<String>,
    /// A stop to be reported as soon as the client resumes the process.
    pub(crate) owed: Option<Reason>,
    /// The client that may interrupt long operations, while there is one.
    pub(crate) interrupt: Option<Rc<Interrupt>>,
    /// The process, by its index in the recording, and its id. A child of vfork(2) runs in its memory, and is a thread of it to the client.
    process: u32,
    pub(crate) pid: u32,
    /// The child that the last stop reported.
    pub(crate) forked: Option<u32>,
    /// Children that the client holds as processes of their own: they are not reported again.
    pub(crate) known: Vec<u32>,
    /// The client's number of this process.
    pub(crate) number: u32,
    /// The event of the last stop, if it was reached backwards: its number and kind.
    pub(crate) met: Option<(u64, StopEvent)>,
    /// It is right before a signal that was reported.
    pub(crate) at_signal: bool,
    /// The thread that the client has moved elsewhere in the changed copy, by slot: to call a
    /// function, or to jump.
    pub(crate) astray: Option<u32>,
    /// Where a function called by the client ended: slot, pc and stack pointer.
    pub(crate) finished: Option<(u32, u64, u64)>,
    /// The client can restart the program.
    pub(crate) extended: bool,
    /// The client has ended the program, and has not restarted it.
    pub(crate) killed: bool,
    /// Registers read since the last change, by slot.
    cache: Option<(u32, Registers)>,
}

impl Debuggee {
    /// Opens a recording.
    ///
    /// # Errors
    /// The trace is damaged, or has no such process.
    pub fn open(trace: &Path, follow: &Follow, at: At) -> Result<Self, Failure> {
        let opened = Trace::open(trace).map_err(Failure::setup)?;
        let mut timeline = Timeline::open(trace, follow)?;
        let files = Files::of(opened, &follow.chain)?;
        let stopped = at.go(&mut timeline, &mut Uninterrupted)?;
        let at_signal = matches!(stopped, Stopped::Hit(_));
        let news = at.news(&timeline, stopped).into_iter().collect();
        let features = features(vector_state(), &vector_places());
        let description = description::document(&features);
        let registers = features.into_iter().flat_map(|f| f.registers).collect();
        let mut debuggee = Self {
            timeline,
            files,
            registers,
            description,
            auxv: Vec::new(),
            open: Vec::new(),
            threads: Vec::new(),
            order: Order::default(),
            breakpoints: BTreeSet::new(),
            conditions: BTreeMap::new(),
            noted: 0,
            watchpoints: Vec::new(),
            current: None,
            news,
            calls: None,
            program: (Vec::new(), 0),
            shown: None,
            told: None,
            owed: None,
            interrupt: None,
            process: follow.chain.last().copied().unwrap_or(0),
            pid: 0,
            forked: None,
            known: Vec::new(),
            number: 0,
            met: None,
            at_signal,
            astray: None,
            finished: None,
            extended: false,
            killed: false,
            cache: None,
        };
        debuggee.look()?;
        Ok(debuggee)
    }

    /// Handles a failure of the guest. A changed copy may fail in any way, because its content is
    /// the client's: it is dropped then, and the recording goes on.
    ///
    /// # Errors
    /// `Fatal`: the replay of the recording has failed.
    pub(crate) fn survive<T>(
        &mut self,
        outcome: Result<T, Failure>,
    ) -> Result<T, TargetError<Failure>> {
        let failure = match outcome {
            Ok(value) => return Ok(value),
            Err(failure) if !self.timeline.is_changed() => return Err(TargetError::Fatal(failure)),
            Err(failure) => failure,
        };
        self.timeline.forget_changes();
        self.news.push(format!(
            "what was written into the program is forgotten, it cannot go on: {failure}"
        ));
        self.look().map_err(TargetError::Fatal)?;
        Err(TargetError::Errno(EFAULT))
    }

    /// Reads the threads and the program again, after the timeline has moved.
    pub(crate) fn look(&mut self) -> Result<(), Failure> {
        self.cache = None;
        self.threads = self.timeline.guest().threads()?;
        let ReplayStatus {
            slot, process, pid, ..
        } = self.timeline.status();
        if process == self.process || self.pid == 0 {
            self.pid = pid;
        }
        self.threads.sort_by_key(|t| (t.slot != slot, t.slot));
        let program = self.timeline.original().program()?;
        if program != self.program {
            self.auxv = auxiliary(&mut self.timeline, program.1)?;
            self.program = program;
        }
        Ok(())
    }

    /// Forgets the settings of a client that has gone.
    pub(crate) fn forget_client(&mut self) {
        self.breakpoints.clear();
        self.conditions.clear();
        self.watchpoints.clear();
        self.calls = None;
        (self.told, self.owed, self.forked) = (None, None, None);
        (self.met, self.shown) = (None, None);
        (self.astray, self.finished) = (None, None);
        (self.extended, self.killed) = (false, false);
        self.known.clear();
        self.open.clear();
        self.order = Order::default();
        self.current = None;
        self.cache = None;
        self.interrupt = None;
        self.news.clear();
        self.timeline.forget_changes();
    }

    /// Inherits the settings of the parent process, as memory with breakpoints in it is inherited.
    pub(crate) fn inherit(&mut self, parent: &Self) {
        self.breakpoints.clone_from(&parent.breakpoints);
        self.conditions.clone_from(&parent.conditions);
        self.watchpoints.clone_from(&parent.watchpoints);
        self.calls.clone_from(&parent.calls);
        self.interrupt.clone_from(&parent.interrupt);
    }

    /// The siginfo of the signal before which the process stands.
    pub(crate) fn siginfo(&mut self) -> Option<Vec<u8>> {
        if !self.at_signal {
            return None;
        }
        self.timeline.original().siginfo().ok().flatten()
    }

    pub(crate) fn status(&self) -> ReplayStatus {
        self.timeline.status()
    }

    /// The slot of a thread by its recorded id.
    pub(crate) fn slot(&self, tid: Tid) -> Option<u32> {
        let same = |t: &&Thread| t.tid as usize == tid.get();
        self.threads.iter().find(same).map(|t| t.slot)
    }

    /// The recorded id of the thread of a slot.
    pub(crate) fn tid(&self, slot: u32) -> Tid {
        let thread = self.threads.iter().find(|t| t.slot == slot);
        tid(thread.map_or(self.status().tid, |t| t.tid))
    }

    /// Registers of a thread.
    pub(crate) fn registers_of(&mut self, tid: Tid) -> Result<Registers, TargetError<Failure>> {
        let slot = self.slot(tid).ok_or(TargetError::Errno(ESRCH))?;
        if let Some((s, r)) = &self.cache
            && *s == slot
        {
            return Ok(r.clone());
        }
        let got = self.timeline.guest().registers(slot);
        let got = self.survive(got)?;
        let got = got.ok_or(TargetError::Errno(ESRCH))?;
        self.cache = Some((slot, got.clone()));
        Ok(got)
    }

    /// Sets registers of a thread.
    pub(crate) fn set_registers_of(&mut self, tid: Tid, new: &Registers) -> TargetResult<(), Self> {
        let slot = self.slot(tid).ok_or(TargetError::Errno(ESRCH))?;
        self.cache = None;
        let guest = self.timeline.changeable().map_err(TargetError::Fatal)?;
        let set = guest.set_registers(slot, new);
        if !self.survive(set)? {
            return Err(TargetError::Errno(EINVAL));
        }
        let old = self.timeline.original().registers(slot);
        let old = old.map_err(TargetError::Fatal)?;
        let same = old.is_some_and(|old| (old.rip, old.gpr[RSP]) == (new.rip, new.gpr[RSP]));
        if !same {
            self.astray = Some(slot);
        } else if self.astray == Some(slot) {
            (self.astray, self.finished) = (None, None);
        }
        Ok(())
    }
}

/// A thread id of the protocol, in which 0 is invalid.
pub(crate) fn tid(id: u32) -> Tid {
    NonZeroUsize::new(id as usize).unwrap_or(NonZeroUsize::MIN)
}

/// The auxiliary vector, read from the initial stack of a program: arguments, environment and
/// vector follow each other there (System V ABI, 3.4.1), and stay.
fn auxiliary(timeline: &mut Timeline, rsp: u64) -> Result<Vec<u8>, Failure> {
    const MOST: u64 = 1 << 20;
    let stack = timeline.guest().read(rsp, MOST)?;
    let words: Vec<u64> = stack
        .chunks_exact(8)
        .map(|b| b.try_into().map_or(0, u64::from_le_bytes))
        .collect();
    let arguments = words.first().copied().unwrap_or(0) as usize;
    let Some(behind) = words.get(arguments.saturating_add(2)..) else {
        return Ok(Vec::new());
    };
    let environment = behind.iter().position(|w| *w == 0).unwrap_or(behind.len());
    let vector = behind.get(environment + 1..).unwrap_or_default();
    let mut bytes = Vec::new();
    for pair in vector.chunks_exact(2) {
        pair.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
        if pair[0] == 0 {
            return Ok(bytes);
        }
    }
    Ok(Vec::new())
}
