//! Checkpoints of a recorded process: at a safe point of the thread that holds the baton the process is forked, and the
//! copy, which is no process of the guest's, writes itself down as a session image ([`super::copy_of_itself`]). The
//! guest is held up for the fork alone. Must never be made where the descriptions of threads, process and memory do not
//! tell all.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use relive_host::segments::Segments;
use relive_trace::{Kind, TapeMark};

use super::Serial;
use super::copy_of_itself::{self, CopyPlan};
use super::resting::{RestingPlace, RestingTasks};
use crate::elapsed::Elapsed;
use crate::failure::Result;
use crate::image_stream::CHECKPOINTS;
use crate::sharing::processes::{PROCESSES, standing};
use crate::shm::Shm;
use crate::tape::Tape;
use crate::task::Task;

/// The state of checkpoints in a process that is to have some.
#[derive(Default)]
pub struct Checkpointing {
    /// The number of the last one that was made, or could not be.
    last: AtomicU32,
    /// The threads without the baton.
    pub resting: RestingTasks,
    /// The part of the past that no ring of a living thread counts.
    past: Mutex<Elapsed>,
    /// Where the first stack of the program began.
    stack: Mutex<u64>,
    /// The past of the child that is about to be forked.
    child: Mutex<Elapsed>,
    /// The children of vfork(2) that are in this memory, each in that of the one before.
    visitors: Mutex<Vec<Visitor>>,
}

/// A child of vfork(2) in its parent's memory: its events are among those of the parent's way.
#[derive(Clone, Copy)]
struct Visitor {
    ring: u32,
    /// How far it was when it left.
    left: Option<Elapsed>,
}

impl Checkpointing {
    /// Of a process that begins, if the recording is to have checkpoints.
    pub fn of(shm: Shm, past: Elapsed) -> Option<Self> {
        let checkpoints = CHECKPOINTS.of(&shm);
        checkpoints.are_on().then(|| Self {
            last: AtomicU32::new(checkpoints.wanted()),
            past: Mutex::new(past),
            ..Self::default()
        })
    }

    fn past(&self) -> Elapsed {
        *self.past.lock().expect("no thread panics: panics abort")
    }

    fn set_past(&self, past: Elapsed) {
        *self.past.lock().expect("no thread panics: panics abort") = past;
    }

    /// The program begins with its stack there.
    pub fn begins(&self, stack: u64) {
        *self.stack.lock().expect("no thread panics: panics abort") = stack;
    }

    /// A turn is logged.
    pub fn turns(&self) {
        let mut past = self.past();
        past.turns += 1;
        self.set_past(past);
    }

    /// A thread ends; its ring is counted no more.
    pub fn thread_ends(&self, shm: Shm, task: &Task) {
        if let Tape::Out(tape) = &task.tape {
            let mut past = self.past();
            past.add_ring(shm, tape.ring);
            self.set_past(past);
        }
    }

    fn visitors(&self) -> MutexGuard<'_, Vec<Visitor>> {
        self.visitors
            .lock()
            .expect("no thread panics: panics abort")
    }

    /// A child of vfork(2) begins, with its tape.
    pub fn visitor_begins(&self, task: &Task) {
        if let Tape::Out(tape) = &task.tape {
            let ring = tape.ring;
            self.visitors().push(Visitor { ring, left: None });
        }
    }

    /// It leaves: it ends, or (`executes`) is about to become another program, which its tape will say.
    pub fn visitor_leaves(&self, shm: Shm, executes: bool) {
        if let Some(visitor) = self.visitors().last_mut() {
            let mut left = Elapsed::default();
            left.add_ring(shm, visitor.ring);
            visitor.left = Some(if executes { left.with_call() } else { left });
        }
    }

    /// Its parent goes on.
    pub fn visitor_left(&self, shm: Shm) {
        let Some(visitor) = self.visitors().pop() else {
            return;
        };
        let mut past = self.past();
        match visitor.left {
            Some(left) => past.add(left),
            // It was killed.
            None => past.add_ring(shm, visitor.ring),
        }
        self.set_past(past);
    }

    /// A child is about to be forked by a call that is not logged yet, and has this past behind it.
    pub fn forks(&self, past: Elapsed) {
        *self.child.lock().expect("no thread panics: panics abort") = past.with_call();
    }

    /// The process is that child.
    pub fn start_over(&self) {
        self.resting.all().clear();
        self.visitors().clear();
        self.set_past(*self.child.lock().expect("no thread panics: panics abort"));
    }
}

impl Serial {
    /// Notes that the task gives the baton away, where that matters.
    pub(super) fn rests(&self, task: &mut Task, place: RestingPlace) {
        if let Some(checkpoints) = &self.checkpoints {
            // Another thread cannot read those that are in this one's processor.
            task.ctx.vectors_mut();
            task.segments = Segments::stored();
            checkpoints.resting.rests(task, place);
        }
    }

    /// It has it back.
    pub(super) fn goes_on(&self, task: &Task) {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.resting.goes_on(task);
        }
    }

    /// The part of the past of the process that no ring counts.
    pub(super) fn past(&self) -> Elapsed {
        let past = self.checkpoints.as_ref().map(Checkpointing::past);
        past.unwrap_or_default()
    }

    /// The past of the process, without what the ring `but` counts.
    pub(super) fn elapsed(&self, but: Option<u32>) -> Elapsed {
        let process = self.schedule().process;
        let mut all = self.past().with_rings(self.shm, process, but);
        if let Some(checkpoints) = &self.checkpoints {
            let visitors = checkpoints.visitors();
            for visitor in visitors.iter().filter(|v| Some(v.ring) != but) {
                all.add_ring(self.shm, visitor.ring);
            }
        }
        all
    }

    /// Makes a checkpoint, if one is wanted and can be made here.
    ///
    /// # Errors
    /// A note on the tape is lost.
    pub(super) fn make_checkpoint(&self, task: &mut Task) -> Result<()> {
        let Some(own) = &self.checkpoints else {
            return Ok(());
        };
        let all = CHECKPOINTS.of(&self.shm);
        let wanted = all.wanted();
        if wanted == own.last.load(Ordering::Relaxed) || !self.is_describable(task, own) {
            return Ok(());
        }
        own.last.store(wanted, Ordering::Relaxed);
        tracing::debug!(target: "checkpoint", "checkpoint {wanted} of {}", task.id());
        if self.others_write() || copy_of_itself::common_bytes(task) > copy_of_itself::COMMON_MAX {
            all.left_out();
            return Ok(());
        }
        if matches!(&task.tape, Tape::Out(tape) if tape.readings.any()) {
            // Readings are on the tape before an event: the thread gives its turn to itself.
            task.record(Kind::Switch { steps: 0 })?;
            self.turn(task, None)?;
        }
        task.segments = Segments::stored();
        let began = Instant::now();
        let stack = *own.stack.lock().expect("no thread panics: panics abort");
        let (process, schedule) = {
            let schedule = self.schedule();
            (schedule.process, schedule.mark().unwrap_or_default())
        };
        let resting = own.resting.all();
        let resting = resting.values().map(|resting| {
            // SAFETY: this thread holds the baton.
            let mark = mark(unsafe { resting.task() });
            (*resting, mark)
        });
        let plan = CopyPlan {
            shm: self.shm,
            elapsed: self.elapsed(None),
            turn: turns(self.shm, process),
            schedule,
            stack,
            current: mark(task),
            resting: resting.collect(),
        };
        copy_of_itself::make(task, &plan);
        all.paused(began.elapsed().as_micros());
        Ok(())
    }

    /// Whether the descriptions tell all of the process, at the place where the task is.
    fn is_describable(&self, task: &Task, own: &Checkpointing) -> bool {
        let settled = task.exact && task.steps == 0 && task.ctx.pending == 0;
        let plain = task.vforked.is_none() && !task.lodges && task.traced.is_none() && !task.looks;
        let here = !crate::ids::may_differ() && !CHECKPOINTS.of(&self.shm).may_be_adopted();
        if !settled || !plain || !here || !self.baton.has_room() {
            return false;
        }
        let resting = own.resting.all();
        let all = resting.len() as u32 + 1 == task.machine().registry.count();
        // SAFETY: this thread holds the baton.
        all && resting
            .values()
            .all(|r| unsafe { r.task() }.vforked.is_none())
    }

    /// Whether other processes may write to the memory of this one.
    fn others_write(&self) -> bool {
        let slot = PROCESSES.of(&self.shm).get(self.schedule().process);
        let standing = slot.map(|slot| slot.standing.load(Ordering::Acquire));
        standing.is_none_or(|standing| {
            matches!(
                standing,
                standing::ASKED | standing::MEMBER | standing::JOINING
            )
        })
    }
}

fn turns(shm: Shm, process: u32) -> u32 {
    let slot = PROCESSES.of(&shm).get(process);
    slot.map_or(0, |slot| slot.turns.load(Ordering::Acquire))
}

fn mark(task: &Task) -> TapeMark {
    match &task.tape {
        Tape::Out(tape) => tape.mark(),
        _ => TapeMark::default(),
    }
}
