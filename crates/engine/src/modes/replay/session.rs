//! The threads of one replaying process and their turns: the thread that runs after an event, the
//! threads that exec leaves, and the ends of threads. Must never run guest code; that is the
//! stepper's work.

use std::collections::BTreeMap;

use relive_host::signal::die_of;
use relive_host::{enter, sys};
use relive_trace::{Ending, FileId, Image, Kind, TapeId, TapeReader};

use super::births::{ForkSide, fork_replay, resume_parent};
use super::concurrency;
use super::epoch_check;
use super::hook_state::with;
use super::linear::due::Linear;
use super::mapped_copies::copy_of;
use super::news::{self, News};
use super::own_schedule::TurnSchedule;
use super::report;
use crate::failure::{Failure, Result};
use crate::flow::{End, Flow};
use crate::guide::protocol::Ended;
use crate::inherit::ProgramView;
use crate::machine::Machine;
use crate::process::Process;
use crate::tape::Tape;
use crate::task::Task;
use crate::{ids, image, translations};

/// The threads of the process and their order.
pub struct Session {
    /// All but the one whose turn it is, by slot.
    pub tasks: BTreeMap<u32, Box<Task>>,
    turns: TurnSchedule,
    /// Finds the turns, in place of the schedule; not of a process that has gone over to turns, or was born by one.
    pub linear: Option<Linear>,
    /// Steps behind its last tick or event at which the thread stands that has just got a turn that was found.
    stands: u64,
    /// Its one thread is replayed beside the others of the process (`modes/parallel/`), and has no turns.
    beside: bool,
}

impl Session {
    /// The first process of a recording, before its first turn.
    ///
    /// # Errors
    /// The changes of others cannot be read.
    pub fn first(machine: &'static Machine) -> Result<Self> {
        Ok(Self {
            tasks: BTreeMap::new(),
            turns: TurnSchedule::of(machine, 0)?,
            linear: Linear::of(machine, 0)?,
            stands: 0,
            beside: false,
        })
    }

    /// One thread, beside the others of its process.
    ///
    /// # Errors
    /// The trace is damaged.
    pub fn beside_others(machine: &'static Machine, process: u32) -> Result<Self> {
        Ok(Self {
            tasks: BTreeMap::new(),
            turns: TurnSchedule::of(machine, process)?,
            linear: None,
            stands: 0,
            beside: true,
        })
    }

    /// Whether its one thread is replayed beside others.
    pub fn is_beside(&self) -> bool {
        self.beside
    }

    /// Whether its threads may stop before the ends of their tapes: it is replayed beside others, or waits for what the tapes
    /// of threads that ran at the same time do not have any more, or its epoch has ended.
    pub fn may_end_anywhere(&self) -> bool {
        let may = |linear: &Linear| linear.may_stop() || linear.is_at_end;
        self.beside || self.linear.as_ref().is_some_and(may)
    }

    /// The process of a session image.
    pub fn resumed(
        turns: TurnSchedule,
        linear: Option<Linear>,
        tasks: BTreeMap<u32, Box<Task>>,
    ) -> Self {
        Self {
            tasks,
            turns,
            linear,
            stands: 0,
            beside: false,
        }
    }

    /// The schedule of the process.
    pub fn turns(&self) -> &TurnSchedule {
        &self.turns
    }

    /// Whether a task's work behind its last event is needed: by a thread that has a turn after the
    /// present one, or by another process.
    pub fn goes_on(&mut self, task: &mut Task) -> Result<bool> {
        if self.beside {
            // The stops of its run know how far.
            return Ok(true);
        }
        if let Some(linear) = &self.linear {
            return Ok(
                !linear.is_cut && matches!(&task.tape, Tape::In(tape) if !tape.notes.is_empty())
            );
        }
        let ends_asleep = || with(|s| s.trace.manifest().ends_asleep());
        Ok(self.turns.more()? || (task.tape.at_end()? && (self.turns.awaited()? || ends_asleep())))
    }

    /// Draws the consequence of an event of the running task, which becomes the one that goes on.
    /// Returns how the process has ended, if it has: that task is then the last one that there was.
    pub fn settle(&mut self, task: &mut Box<Task>, flow: Flow) -> Result<Option<Ended>> {
        let flow = match flow {
            // The process in whose memory it was goes on.
            Flow::ProcessEnd(_) if task.lodges => Flow::ThreadEnd(0),
            flow => flow,
        };
        Ok(match flow {
            Flow::Continue => None,
            Flow::Park => match self.next_turn(task, false)? {
                Some(slot) if slot == task.slot => {
                    begin_turn(task);
                    None
                }
                Some(slot) => {
                    let parked = self.give_turn(task, slot)?;
                    self.tasks.insert(parked.slot, parked);
                    None
                }
                None => Some(Ended::CutOff),
            },
            Flow::ThreadEnd(code) => match self.next_turn(task, true)? {
                Some(slot) => {
                    self.give_turn(task, slot)?;
                    None
                }
                None => Some(self.nobody_follows(task, code)?),
            },
            Flow::ProcessEnd(_) if resume_parent(task, true)? => None,
            Flow::ProcessEnd(End::Code(code)) => Some(Ended::Code(code)),
            Flow::ProcessEnd(End::Signal(sig)) => Some(Ended::Signal(sig)),
            Flow::Exec(image) => {
                self.exec(task, &image.0)?;
                None
            }
        })
    }

    /// No thread has a turn behind the end of the running one: how the process has ended.
    ///
    /// # Errors
    /// The others go on in the recording, and wait for each other here.
    fn nobody_follows(&mut self, task: &Task, code: i32) -> Result<Ended> {
        match &self.linear {
            Some(linear) if linear.is_at_end => {
                epoch_check::end(task.machine(), self.tasks.values().map(|task| &**task))?;
                Ok(Ended::CutOff)
            }
            Some(linear) if !self.tasks.is_empty() && !linear.may_stop() => {
                Err(report::all_wait(task))
            }
            _ => Ok(Ended::Code(code)),
        }
    }

    /// The thread whose turn comes next: the running one has ended, or can do nothing more in its turn.
    fn next_turn(&mut self, task: &mut Task, ends: bool) -> Result<Option<u32>> {
        if self.beside {
            return Ok(None);
        }
        let ticks = task.ctx.ticks();
        if let Tape::In(tape) = &mut task.tape
            && !ends
        {
            tape.stays(ticks)?;
        }
        if self.linear.is_none() {
            return self.turns.next();
        }
        if ends {
            task.tape.close_exact();
        }
        if let Some(linear) = &mut self.linear {
            linear.is_over(task.slot);
        }
        let all_over = |linear: &Linear| linear.all_over(&self.tasks);
        if self.linear.as_ref().is_some_and(all_over) && self.turns.more()? {
            // Each thread stands where it waited for its first turn.
            if let Some(linear) = self.linear.take() {
                self.turns.goes_on(linear.into_schedule());
            }
            return self.turns.next();
        }
        // One that is gone has done all that it had to do; this one may not have.
        let first = self.first_due((!ends).then_some(task))?;
        let (Some(linear), Some((slot, _))) = (&mut self.linear, first) else {
            return Ok(None);
        };
        self.stands = linear.turn(slot)?;
        Ok(Some(slot))
    }

    /// Steps behind its last tick or event at which the running thread stands, behind an event.
    pub fn stands(&mut self) -> u64 {
        std::mem::take(&mut self.stands)
    }

    /// Takes in new threads, or forgets the others in a forked child.
    ///
    /// # Errors
    /// A linearising replay has no hints.
    pub fn collect(&mut self, task: &Task) -> Result<()> {
        debug_assert!(
            !self.tasks.contains_key(&task.slot),
            "the running task is not in the table"
        );
        let Some(News { born, became }) = news::take() else {
            return Ok(());
        };
        if let Some(turns) = became {
            self.tasks.clear();
            if self.linear.is_some() {
                self.linear = Linear::of(turns.machine(), turns.process())?;
            }
            self.turns = turns;
        }
        for child in born {
            self.tasks.insert(child.slot, Box::new(child));
        }
        Ok(())
    }

    /// Gives the thread of a slot the turn, in place of the running task, which is returned.
    pub fn give_turn(&mut self, task: &mut Box<Task>, slot: u32) -> Result<Box<Task>> {
        let next = self.tasks.remove(&slot).ok_or_else(|| {
            Failure::divergence(format!(
                "the schedule names thread {slot}, which does not exist in the replay"
            ))
        })?;
        let last = std::mem::replace(task, next);
        begin_turn(task);
        Ok(last)
    }

    fn exec(&mut self, task: &mut Task, bytes: &[u8]) -> Result<()> {
        let img = Image::decode(bytes).map_err(Failure::setup)?;
        if task.vforked.is_some() {
            // The call is an operation, though it has no outcome here: the parent goes on counting behind it.
            task.ctx.ops += 1;
            let known = task.vforked.as_ref().and_then(|p| p.answer.as_ref());
            let pid = known.map_or(task.process.pid, |(_, answer)| answer.result as u32);
            if let ForkSide::Parent(host) = fork_replay(task.machine(), task.process.index, pid)? {
                // The child may come to say so when this process has ended.
                host.into_iter().for_each(|pid| task.tape.exact_is_of(pid));
                resume_parent(task, false)?;
                return Ok(());
            }
            task.vforked = None;
            self.turns = TurnSchedule::of(task.machine(), task.process.index)?;
            if self.linear.is_some() {
                self.linear = Linear::of(task.machine(), task.process.index)?;
            }
            task.tape.exact_is_of(ids::process());
        }
        if let Some(linear) = &mut self.linear {
            linear.end_program();
            linear.begin_program();
        }
        task.ctx.ops = 0;
        task.ctx.marks = 0;
        if let Tape::In(tape) = &mut task.tape {
            // The new program counts from 0, behind the marks of the call.
            tape.late.clear();
        }
        if task.ctx.rip != 0 {
            self.turns.begin_program();
        }
        self.tasks.clear();
        task.restore(task.capture().after_exec(task.process.pid, &img.path));
        let shown = ProgramView {
            exe: img.path.clone(),
            // Only calls that are made show them.
            environ: Vec::new(),
            auxv: Vec::new(),
            streams: img.streams.clone(),
        };
        task.process = Process::restore(task.process.capture().after_exec(shown));
        let machine = task.machine();
        let mut memory = machine.memory();
        // No thread is in the cache: there is none but this one.
        memory.translator.flush().map_err(Failure::setup)?;
        translations::load_served(&mut memory, &img.path);
        let old: Vec<(u64, u64)> = memory.space.iter().map(|r| (r.start, r.end)).collect();
        for (start, end) in old {
            memory.unmap(start, end)?;
        }
        memory.space = crate::space::AddressSpace::new();
        let mut open = Vec::new();
        image::apply(&img, &mut memory, &mut task.ctx, |id: FileId| {
            let file = copy_of(machine, id)?;
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            open.push(file);
            Ok(fd)
        })?;
        Ok(())
    }

    /// The process has ended, and with it this host process.
    pub fn end(&self, how: Ended) -> ! {
        if let Some(linear) = &self.linear {
            linear.end_program();
        }
        self.turns.end();
        concurrency::process_ends(self.turns.machine());
        match how {
            Ended::Code(code) => sys::exit_group(code),
            Ended::Signal(sig) => die_of(sig),
            Ended::CutOff => sys::exit_group(0),
        }
    }
}

/// The recording of a process ends where all its threads wait for ever: right only if it was cut off,
/// so that no tape of the process has an end that was not reached.
///
/// # Errors
/// One has.
pub fn check_cut_off(process: u32) -> Result<()> {
    let tapes: Vec<TapeReader> = with(|s| {
        let ids: Vec<TapeId> = s
            .trace
            .tapes()
            .iter()
            .map(|t| t.id)
            .filter(|id| id.process == process && !id.is_schedule())
            .collect();
        ids.into_iter()
            .map(|id| s.trace.tape(id).map_err(Failure::setup))
            .collect::<Result<_>>()
    })?;
    for mut tape in tapes {
        let beside = tape.id().thread != 0;
        while let Some(e) = tape.next().map_err(Failure::setup)? {
            if matches!(e.kind, Kind::Start(start) if beside && start.tid == start.pid) {
                // A process that had turns in this memory: its end is not this one's.
                break;
            }
            if let Kind::End {
                how: Ending::ProcessExit | Ending::Killed,
                ..
            } = e.kind
            {
                let what = report::show(&e);
                return Err(Failure::divergence(format!(
                    "the replay of process {process} stopped, although its recording goes on to: {what} (thread {})",
                    tape.id()
                )));
            }
        }
    }
    Ok(())
}

/// The task is the one that runs from now on.
pub fn adopt(task: &mut Task) {
    // SAFETY: the context lives in its box; the one adopted before is not entered again
    // before it is adopted again.
    unsafe { enter::adopt(&raw mut *task.ctx) };
}

fn begin_turn(task: &mut Task) {
    tracing::debug!(target: "sched", "turn of {} at tick {}", task.id(), task.ctx.ticks());
    adopt(task);
}
