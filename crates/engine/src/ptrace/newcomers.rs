//! The tracing of tasks that a traced one makes, and of the program that it executes: their slots. Only in a recording.
//! Must never hand a slot to a task that its tracer has not asked for.

use std::sync::atomic::Ordering;

use super::intake::note_signals;
use super::registers;
use super::requests::{event, option};
use super::slots::{SLOTS, Slot};
use super::standing::{LifeStep, state};
use super::stop::{goes_on, slot};
use super::tracee::options;
use crate::call::clone_args::CloneArgs;
use crate::failure::Result;
use crate::ids;
use crate::task::Task;
use crate::traced::{Begins, Traced};

/// A thread has become traced by its parent's tracer: from now on it has its ids.
pub fn begins(task: &Task) {
    if let (Some(slot), Some(traced)) = (slot(task), &task.traced)
        && traced.begins == Some(Begins::Born)
    {
        name(slot, task.process.pid, task.tid);
        slot.take(LifeStep::Hears);
    }
}

fn name(slot: &Slot, process: u32, thread: u32) {
    slot.process.store(process, Ordering::Release);
    slot.thread.store(thread, Ordering::Release);
}

/// The process goes on as another program: whether it is traced.
pub fn after_exec(task: &mut Task) {
    let Some(shm) = crate::shm::shared().filter(|shm| SLOTS.of(shm).any()) else {
        return;
    };
    let slots = SLOTS.of(shm);
    let Some((at, slot)) = slots.of_thread(task.tid) else {
        return;
    };
    for (other, ended) in slots.of_process(task.process.pid) {
        if other != at {
            ended.take(LifeStep::Vanishes);
        }
    }
    slot.take(LifeStep::Hears);
    task.traced = Some(Box::new(Traced {
        slot: at,
        goes_on: goes_on(slot),
        begins: Some(Begins::Program),
        ..Traced::default()
    }));
    note_signals(task);
}

/// The task is about to make a thread or a process, which is traced too if the tracer wants that: takes a
/// slot for it.
pub fn makes(task: &mut Task, args: &CloneArgs) {
    let wanted = options(task);
    let Some(traced) = &mut task.traced else {
        return;
    };
    traced.birth = None;
    let (kind, option) = match (
        args.has(libc::CLONE_VFORK),
        args.signal == libc::SIGCHLD as u64,
    ) {
        (true, _) => (event::VFORK, option::VFORK),
        (false, true) => (event::FORK, option::FORK),
        (false, false) => (event::CLONE, option::CLONE),
    };
    let Some(shm) = crate::shm::shared() else {
        return;
    };
    let other_ids = args.has(libc::CLONE_NEWPID) || ids::may_differ();
    if wanted & option == 0 || args.has(libc::CLONE_UNTRACED) || other_ids {
        return;
    }
    let slots = SLOTS.of(shm);
    let own = slots.at(traced.slot);
    let Some((at, slot)) = slots.claim() else {
        return;
    };
    for (to, from) in [
        (&slot.tracer, &own.tracer),
        (&slot.tracer_thread, &own.tracer_thread),
        (&slot.options, &own.options),
        (&slot.seized, &own.seized),
    ] {
        to.store(from.load(Ordering::Acquire), Ordering::Release);
    }
    traced.birth = Some(at);
    traced.event = Some((kind, 0));
}

/// The call of [`makes`] is over: with the id of the new task in its creator, with 0 in a forked child.
pub fn made(task: &mut Task, id: i64, process: bool) {
    // A tracer may have attached before the child could hear of it.
    task.looks |= id == 0 && crate::shm::shared().is_some_and(|shm| SLOTS.of(shm).any());
    let Some(traced) = &mut task.traced else {
        return;
    };
    let birth = traced.birth.take();
    if id == 0 {
        task.traced = birth.map(|slot| Box::new(Traced::born(slot)));
        begins(task);
        note_signals(task);
        return;
    }
    let Some(at) = birth else { return };
    let Some(shm) = crate::shm::shared() else {
        return;
    };
    let slot = SLOTS.of(shm).at(at);
    if id < 0 {
        traced.event = None;
        slot.take(LifeStep::Vanishes);
        return;
    }
    if let Some((_, message)) = &mut traced.event {
        *message = id as u64;
    }
    if process {
        name(slot, id as u32, id as u32);
    }
}

/// A vfork child begins in its parent's task: the parent's part in tracing, put aside, becomes the child's.
pub fn visits(task: &mut Task, parent: Option<&mut Box<Traced>>, words: registers::Words) {
    let Some(parent) = parent else { return };
    let Some(birth) = parent.birth.take() else {
        return;
    };
    let mut own = Traced::born(birth);
    own.parent = Some((parent.slot, Box::new(words)));
    task.traced = Some(Box::new(own));
    begins(task);
    note_signals(task);
}

/// A vfork child has left its parent's memory: the parent, which has stopped meanwhile for its tracer, goes on
/// with that stop.
///
/// # Errors
/// An event is lost.
pub fn is_left(task: &mut Task, child: i64) -> Result<()> {
    let Some(slot) = slot(task) else {
        return Ok(());
    };
    note_signals(task);
    let wanted = options(task);
    let Some(traced) = &mut task.traced else {
        return Ok(());
    };
    if child < 0 {
        traced.event = None;
        return Ok(());
    }
    match slot.state() {
        // Its tracer has let it go on.
        state::RUNNING if traced.event.is_some() => {
            traced.goes_on = goes_on(slot);
            traced.event = match wanted & option::VFORKDONE {
                0 => None,
                _ => Some((event::VFORK_DONE, child as u64)),
            };
        }
        _ => {
            if let Some((_, message)) = &mut traced.event {
                *message = child as u64;
            }
        }
    }
    Ok(())
}
