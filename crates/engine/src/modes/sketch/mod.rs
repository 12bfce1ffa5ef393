//! Sketch recording: the threads of a process run at the same time, and the order of their effects on each other
//! is logged where it is made.
//!
//! Logs: every call with its effects, values of instructions, and signals with their positions, as serial
//! recording does; an edge where an ordered operation of a thread came after one of another thread: calls
//! whose effect on shared state a replay computes ([`object`]), signals that find an action which threads may
//! set, and atomic instructions; and moments, as a hint for the rest ([`crate::course`]). No turns: a replay finds them. Exact: when a replay of it has
//! ended as the tapes say, and not before. Lock order, outermost first: the process's object, the lock of the
//! store of input, the output lock, process state, memory.
//!
//! After Instant Replay (LeBlanc and Mellor-Crummey 1987): versions of objects instead of one order of all.

mod alone_with_files;
mod coherence;
mod commit;
mod file_changes;
mod junctures;
mod marks;
mod object;
mod pauses;
mod quiet_checkpoint;
mod quiet_fork;
mod together;

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use relive_dbt::{AtPause, Ordered};
use relive_host::order;
use relive_host::reading::Use;
use relive_trace::{Kind, input_sum};

use super::checkpoints;
use super::checkpoints::checkpointing::Checkpointing;
use super::live::kernel_state::KERNEL;
use super::live::{self, recording};
use super::serial::{Serial, Start, kill};
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::reply::Reply;
use crate::failure::Result;
use crate::flow::Flow;
use crate::kernel::{stream_output, syscall_event};
use crate::lines::Lines;
use crate::memory::content::{Content, ContentRequest};
use crate::mode::{
    Begun, Contents, FileUse, Host, Mode, ModeTraits, Order, Outcomes, PrecedingOp, Reading,
    Signals, Turns,
};
use crate::sharing::users::USERS;
use crate::shm::{Logged, Shm};
use crate::siginfo::SigInfo;
use crate::tape::Tape;
use crate::task::Task;
use crate::task::ending::{await_visitors, has_visitors_left};
use crate::vforked;
use junctures::Junctures;
use object::{Object, Version};
use pauses::Pauses;

/// Ticks between two moments of a thread that has company: some tens of microseconds.
const SLICE: i64 = 1 << 14;
/// Ticks between two looks at the recorder, of a thread that has none.
const ALONE: i64 = 1 << 22;

/// The mode of `relive record --mode sketch`.
pub struct Sketch {
    shm: Shm,
    /// The state that threads of the process share and a replay computes: one object for all of it.
    shared: Object,
    /// The actions of signals, which a thread that takes a signal finds under the lock of the process's state.
    actions: Version,
    /// Whether the process has, or has had, several threads.
    company: &'static AtomicBool,
    /// The pauses of its threads, if there are to be any.
    pauses: Option<Pauses>,
    /// The lines of its memory, if all accesses are to be ordered.
    lines: Option<Lines>,
    /// Where there are to be checkpoints.
    checkpoints: Option<Checkpointing>,
    /// The junctures of the process, if its memory has no lines.
    junctures: Junctures,
    /// Changes of files that the process had heard of when it first mapped one shared.
    heard: AtomicU64,
    /// Its mode from here on, once it has gone over to turns.
    turns: OnceLock<&'static Serial>,
}

impl Sketch {
    /// The mode of one process.
    #[must_use]
    pub fn new(shm: Shm, start: &Start, lines: bool) -> Self {
        let sketch = Self {
            shm,
            shared: Object::default(),
            actions: Version::default(),
            company: Box::leak(Box::new(AtomicBool::new(false))),
            pauses: match start.handed_on.seed {
                Some((seed, true)) => Some(Pauses::new(seed)),
                _ => None,
            },
            lines: lines.then(Lines::default),
            checkpoints: Checkpointing::of(shm, &start.handed_on),
            junctures: Junctures::default(),
            heard: AtomicU64::new(0),
            turns: OnceLock::new(),
        };
        sketch.begins_alone(start.process);
        if start.goes_on {
            sketch.begins_program(start.process);
        }
        sketch
    }
}

impl Mode for Sketch {
    fn traits(&self) -> ModeTraits {
        ModeTraits {
            together: true,
            multiplexed: false,
            confined: false,
            traces: false,
            samples: false,
            checkpoints: self.checkpoints.is_some(),
            keeps: true,
            clocks: Use::Record,
            at_pause: AtPause::GoOn,
            operations: match self.lines {
                Some(_) => Ordered::Off,
                None => Ordered::Record,
            },
        }
    }

    fn host(&self) -> &'static dyn Host {
        &KERNEL
    }

    fn order(&self) -> &dyn Order {
        self
    }
}

impl Outcomes for Sketch {
    fn begin_call(&self, task: &mut Task, call: &Call) -> Result<Begun> {
        begin(task);
        self.commit_before(task, call)?;
        Ok(Begun::Live)
    }

    fn end_call(
        &self,
        task: &mut Task,
        call: &Call,
        result: i64,
        _: Option<&Answer>,
    ) -> Result<()> {
        note_written(task, call, result)?;
        if let Some(holder) = task.holder.as_ref().filter(|_| task.vforked.is_some()) {
            // It could not leave.
            holder.goes_on();
        }
        syscall_event::log(task, call, result)?;
        self.junctures.mark_behind(task)?;
        if self.checkpoints.is_some() && i64::from(call.nr) == libc::SYS_prctl {
            checkpoints::told_by_prctl(self.shm, call);
        }
        Ok(())
    }

    fn plain_call(
        &self,
        task: &mut Task,
        nr: u64,
        args: &[u64; 6],
        used: usize,
    ) -> Logged<Option<i64>> {
        begin(task);
        recording::plain_call(task, nr, args, used).map(Some)
    }

    fn instruction(
        &self,
        task: &mut Task,
        number: u8,
        n: u8,
        values: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<[u64; 4]> {
        recording::instruction(task, number, n, values)
    }

    fn reading(
        &self,
        task: &mut Task,
        source: u32,
        values: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<Reading> {
        recording::reading(task, source, values)
    }
}

/// Notes the sum of the bytes that a call wrote: they may be the first trace of a race.
fn note_written(task: &mut Task, call: &Call, result: i64) -> Result<()> {
    if result <= 0 {
        return Ok(());
    }
    let Some(bytes) = stream_output::gather(task, call, result as u64) else {
        return Ok(());
    };
    let ticks = task.ctx.ticks();
    if let Tape::Out(tape) = &mut task.tape {
        let value = input_sum(&bytes);
        tape.note(ticks, Kind::Checksum { at: 0, value })?;
    }
    Ok(())
}

/// Notes when the task was where it stands, by the last tick.
fn note_moment(task: &mut Task) -> Result<()> {
    let ticks = task.ctx.ticks();
    match &mut task.tape {
        Tape::Out(tape) => Ok(tape.moment(ticks, false)?),
        _ => Ok(()),
    }
}

/// A call of the task begins.
fn begin(task: &mut Task) {
    if let Tape::Out(tape) = &mut task.tape {
        tape.ops_before_call = task.ctx.ops;
        if let Some(course) = &mut tape.course {
            course.begin();
        }
    }
}

impl Turns for Sketch {
    fn asleep(&self, task: &mut Task, enter: &mut dyn FnMut() -> i64) -> Result<i64> {
        self.make_checkpoint_before_sleep(task)?;
        if let Some(turns) = self.turns() {
            // It has stood aside for the one with which the process went over, and has its turn.
            return turns.asleep(task, enter);
        }
        task.flush_readings()?;
        task.arrived()?;
        self.rests(task, true)?;
        let sleeping = self.falls_asleep(task);
        let result = task.while_away(enter);
        self.wakes(task, sleeping)?;
        self.permit_again(task)?;
        Ok(result)
    }

    fn rested(&self, task: &mut Task) -> Result<()> {
        match self.turns() {
            Some(turns) => turns.takes_over_rested(task),
            None => Ok(()),
        }
    }

    fn checkpoint(&self, task: &mut Task) -> Result<()> {
        self.make_checkpoint(task)
    }

    fn checkpoint_before_sleep(&self, task: &mut Task) -> Result<()> {
        self.make_checkpoint_before_sleep(task)
    }

    fn others_see(&self, task: &Task) -> bool {
        !task.machine().registry.single() || self.may_be_seen(task.process.index)
    }

    fn begin_slice(&self, task: &mut Task) {
        let ticks = match (self.company.load(Ordering::Relaxed), &self.pauses) {
            (true, Some(pauses)) => pauses.slice(task).min(SLICE),
            (true, None) => SLICE,
            (false, _) => ALONE,
        };
        task.ctx.grant_about(ticks, ticks / 8);
    }

    /// A thread that runs for long says now and then when it was where.
    fn end_budget(&self, task: &mut Task) -> Result<Flow> {
        self.shm.need_supervisor()?;
        self.answer(task)?;
        if task.is_at_tick_or_event() {
            note_moment(task)?;
        }
        if self.is_asked(task) {
            self.go_over_when_asked(task)?;
            if self.turns().is_some() {
                return Ok(Flow::Continue);
            }
        }
        let pauses = self.pauses.as_ref();
        let flow = match pauses.filter(|_| self.company.load(Ordering::Relaxed)) {
            Some(pauses) => pauses.go_on(&self.shm, task),
            None => Ok(Flow::Continue),
        };
        self.begin_slice(task);
        flow
    }

    fn pause(&self, _: &mut Task) -> Result<()> {
        Ok(())
    }

    fn give_way(
        &self,
        task: &mut Task,
        enter: &mut dyn FnMut(&mut Task) -> Result<i64>,
    ) -> Result<i64> {
        enter(task)
    }
}

impl Signals for Sketch {
    fn send_signal(
        &self,
        task: &mut Task,
        call: &Call,
        sig: i32,
        send: &mut dyn FnMut(&mut Task) -> Result<i64>,
    ) -> Result<i64> {
        kill::from_outside(self.shm, task, call, sig, send)
    }

    fn raised(&self, _: &mut Task, _: &SigInfo) -> Result<bool> {
        Ok(true)
    }

    fn ends_thread_alone(&self, task: &mut Task) -> Result<bool> {
        Ok(live::has_others(task))
    }

    fn is_being_killed(&self, task: &Task) -> bool {
        vforked::is_killed(task)
    }
}

impl Contents for Sketch {
    fn content(&self, wanted: ContentRequest<'_>) -> Result<Content> {
        Ok(live::content(wanted))
    }
}

impl Order for Sketch {
    fn acquire(&self, task: &mut Task) -> Result<()> {
        let has_rested = Cell::new(false);
        let before = loop {
            let before = self.shared.acquire(task, &|task| {
                has_rested.set(true);
                self.rests(task, true)
            })?;
            // A child that has come into the memory since then needs the order to leave it.
            if !has_visitors_left(task) || !self.shared.withdraw(task) {
                break before;
            }
            await_visitors(task)?;
            if self.turns().is_some() {
                return Ok(());
            }
        };
        if self.turns().is_none() {
            if let Some(before) = before {
                self.follows(task, before, true)?;
            }
        } else {
            // Its turn orders it from here on, and the operation before may belong to a later turn.
            self.shared.release(task);
            self.takes_over_in_call(task)?;
        }
        if has_rested.get() {
            // Others may have taken the lines of the call.
            self.permit_again(task)?;
        }
        self.rests_for_good(task)
    }

    fn sets_action(&self, task: &Task) -> Option<PrecedingOp> {
        self.actions.next(task)
    }

    fn takes_action(&self, task: &mut Task) -> Option<PrecedingOp> {
        task.ctx.ops += 1;
        self.actions.next(task)
    }

    fn follows(&self, task: &mut Task, before: PrecedingOp, event: bool) -> Result<()> {
        let (thread, op) = before;
        let edge = Kind::Edge {
            at: task.ctx.ops,
            event,
            thread,
            op,
        };
        match &mut task.tape {
            Tape::Out(tape) => Ok(tape.note(task.ctx.ticks(), edge)?),
            _ => Ok(()),
        }
    }

    fn release(&self, task: &mut Task) {
        self.shared.release(task);
    }

    fn permit(&self, task: &mut Task) -> Result<Flow> {
        self.permit_instruction(task)
    }

    fn permit_step(&self, task: &mut Task) -> Result<()> {
        self.permit_next(task)
    }

    /// It may stand there for good, and others have seen what it has done up to there.
    fn stands_still(&self, task: &mut Task, event: bool) -> Result<()> {
        task.flush_readings()?;
        if event {
            task.arrived()?;
        } else {
            note_moment(task)?;
        }
        match self.lines {
            // The mark at which it rests names the place.
            Some(_) => self.rests(task, event),
            None => self.junctures.stands_still(task, event),
        }
    }

    fn stood_still(&self, task: &mut Task, event: bool) -> Result<()> {
        self.junctures.stood_still(task, event)
    }

    fn cuts_accesses(&self) -> bool {
        self.lines.is_none()
    }

    fn takes_access(&self, task: &mut Task) -> Result<()> {
        self.junctures.comes(task)
    }

    fn back_in_call(&self, task: &mut Task) -> Result<()> {
        self.takes_over_in_call(task)?;
        self.permit_again(task)
    }

    fn permit_call(&self, task: &mut Task, call: &Call) -> Result<()> {
        self.permit_memory_of(task, call)
    }

    fn permit_frame(&self, task: &mut Task) -> Result<bool> {
        self.permit_frame_of(task)
    }

    fn change_words(
        &self,
        task: &mut Task,
        words: &mut [u64],
        change: &mut dyn FnMut(&mut Task) -> Result<()>,
    ) -> Result<()> {
        if self.lines.is_some() {
            task.ctx.ops += words.len() as u64;
            self.permit_words(task, words)?;
            return change(task);
        }
        let Tape::Out(tape) = &mut task.tape else {
            return change(task);
        };
        tape.take_edges(&mut task.ctx, false)?;
        let held = order::HeldWords::sort(words);
        for same in held.objects() {
            order::hold(same, &mut task.ctx);
            tape.take_edges(&mut task.ctx, true)?;
        }
        let changed = change(task);
        held.release();
        changed
    }

    fn acquire_file(&self, task: &mut Task, call: &Call, used: &FileUse<'_>) -> Result<()> {
        if self.uses_alone(task, used)? {
            return Ok(());
        }
        let turns = self.go_over(task)?;
        turns.order().acquire_file(task, call, used)
    }

    fn takes_turns(&self, task: &mut Task) -> Result<()> {
        self.go_over(task)?.begins_turns(task)
    }

    fn release_files(&self, task: &Task) {
        let mut memory = task.machine().memory();
        for file in memory.space.take_dropped() {
            if !memory.space.shares_file(file) {
                USERS.of(&self.shm).release(file, task.process.index);
            }
        }
    }

    fn change_files(
        &self,
        task: &mut Task,
        call: &Call,
        make: &mut dyn FnMut(&mut Task, &Call) -> Result<Reply>,
    ) -> Result<Reply> {
        self.around_change(task, call, make)
    }
}
