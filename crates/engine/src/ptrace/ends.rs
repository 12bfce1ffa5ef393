//! The ends of traced tasks, and of tracers. Only in a recording. Must never let a process end for its real parent before
//! its tracer has been told.

use std::sync::atomic::Ordering;

use super::pokes;
use super::requests::{event, option};
use super::slots::{SLOTS, Slot};
use super::standing::{LifeStep, state};
use super::stop::{StopPlace, slot, tell};
use super::tracee::{at_event, options};
use crate::failure::Result;
use crate::flow::End;
use crate::ids;
use crate::task::Task;

/// The task is about to end with this status, at its call or at a safe point.
///
/// # Errors
/// An event is lost.
pub fn exits(task: &mut Task, status: u32, place: StopPlace) -> Result<()> {
    if task.traced.is_some() && options(task) & option::EXIT != 0 {
        return at_event(task, event::EXIT, status.into(), place);
    }
    Ok(())
}

/// A thread of several has ended, with this exit code.
pub fn thread_ended(task: &Task, code: i32) {
    let Some(slot) = slot(task) else { return };
    if task.tid == task.process.pid {
        // The kernel tells the end of the first thread with that of the process.
        return;
    }
    if slot.ends(task.tid, (code as u32 & 0xff) << 8) {
        tell(slot, libc::SIGCHLD as u32);
    }
}

/// The process has ended, and its host is about to. A tracer that is not its parent is told first.
pub fn process_ended(task: &Task, end: End) {
    release_tracees(task);
    let (Some(own), Some(shm)) = (slot(task), crate::shm::shared()) else {
        return;
    };
    let status = match end {
        End::Code(code) => (code as u32 & 0xff) << 8,
        End::Signal(sig) => sig as u32,
    };
    let pid = task.process.pid;
    let tracer = own.tracer.load(Ordering::Acquire);
    let is_parent = ids::parent() == tracer;
    let is_first = |slot: &Slot| slot.thread.load(Ordering::Acquire) == pid;
    for (_, slot) in SLOTS.of(shm).of_process(pid) {
        // The kernel tells a parent the end of the first thread.
        let thread = slot.thread.load(Ordering::Acquire);
        if !(is_parent && is_first(slot)) && slot.ends(thread, status) {
            tell(slot, libc::SIGCHLD as u32);
        }
    }
    // The process ends for its parent once the tracer has been told of all threads, as natively.
    let told = || {
        let mut slots = SLOTS.of(shm).of_process(pid);
        !slots.any(|(_, s)| s.state() == state::ENDED)
    };
    while !told() && !own.is_orphan() && shm.need_supervisor().is_ok() {
        own.sleep(told);
    }
    for (_, slot) in SLOTS.of(shm).of_process(pid) {
        if is_parent && is_first(slot) {
            slot.take(LifeStep::Vanishes);
        }
    }
}

/// A tracer ends: its tracees go on, or are killed.
fn release_tracees(task: &Task) {
    let Some(shm) = crate::shm::shared().filter(|shm| SLOTS.of(shm).any()) else {
        return;
    };
    for (_, slot) in SLOTS.of(shm).of_tracer(task.process.pid) {
        let process = slot.process.load(Ordering::Acquire);
        if slot.options.load(Ordering::Acquire) & option::EXITKILL != 0 && process != 0 {
            pokes::kill(process);
        }
        if slot.state() == state::ENDED {
            slot.take(LifeStep::Vanishes);
        }
        slot.ring();
    }
}
