//! The stops of a traced thread, at the places where the kernel makes them. Only in a recording: a replay
//! traces nothing.

use std::sync::atomic::Ordering;

use super::change;
use super::intake::note_signals;
use super::requests::{event, option};
use super::slots::{SLOTS, sent_by, wish};
use super::standing::{LifeStep, state};
use super::stop::{self, Resumed, Stop, StopPlace, slot, trap_info};
use crate::failure::Result;
use crate::siginfo::{SigInfo, signo};
use crate::tape::SYNCHRONOUS;
use crate::task::Task;
use crate::traced::{Begins, GoesOn, Traced};

const SI_KERNEL: i32 = 128;
const SIGTRAP: u32 = libc::SIGTRAP as u32;

pub(super) fn options(task: &Task) -> u32 {
    slot(task).map_or(0, |s| s.options.load(Ordering::Acquire))
}

fn is_seized(task: &Task) -> bool {
    slot(task).is_some_and(|s| s.seized.load(Ordering::Acquire) != 0)
}

/// A stop without a signal of its own; a signal that the tracer gives comes next, if the kernel takes one
/// there.
fn trap(task: &mut Task, stop: Stop, takes: bool) -> Result<Resumed> {
    let resumed = stop::stop(task, stop)?;
    if let Some(sig @ 1..) = resumed.signal
        && takes
    {
        task.signals.held.push_back(sent_by(sig, SI_KERNEL, 0));
    }
    Ok(resumed)
}

pub(super) fn at_event(task: &mut Task, event: u32, message: u64, place: StopPlace) -> Result<()> {
    let info = Some(trap_info(event, task));
    let code = event << 8 | SIGTRAP;
    let stop = Stop {
        code,
        message,
        info,
        place,
    };
    trap(task, stop, false).map(drop)
}

/// At the beginning of a loop of its host: the stops that are due at a safe point.
///
/// # Errors
/// An event is lost.
pub fn at_safe_point(task: &mut Task) -> Result<()> {
    if std::mem::take(&mut task.looks) {
        look(task)?;
    }
    let begins = task.traced.as_mut().and_then(|t| t.begins.take());
    match begins {
        None => Ok(()),
        Some(Begins::Born) => born(task),
        Some(Begins::Program) => begins_program(task),
    }
}

fn born(task: &mut Task) -> Result<()> {
    if let Some(traced) = &task.traced
        && let Some((at, _)) = &traced.parent
        && let Some(shm) = crate::shm::shared()
    {
        let code = event::VFORK << 8 | SIGTRAP;
        stop::publish(SLOTS.of(shm).at(*at), code, task.tid.into());
    }
    if is_seized(task) {
        return at_event(task, event::STOP, 0, StopPlace::Safe);
    }
    task.signals
        .held
        .push_back(sent_by(libc::SIGSTOP, libc::SI_USER, 0));
    Ok(())
}

fn begins_program(task: &mut Task) -> Result<()> {
    let exec = libc::SYS_execve as u32;
    if let Some(traced) = &mut task.traced {
        traced.call = Some(exec);
    }
    if options(task) & option::EXEC != 0 {
        let former = u64::from(task.tid);
        at_event(task, event::EXEC, former, StopPlace::Exit)?;
    } else if !is_seized(task) {
        let pid = task.process.pid;
        task.signals
            .held
            .push_back(sent_by(libc::SIGTRAP, libc::SI_USER, pid));
    }
    leaves_call(task, exec)
}

/// The tracer's wishes.
fn look(task: &mut Task) -> Result<()> {
    let Some(shm) = crate::shm::shared() else {
        return Ok(());
    };
    if task.traced.is_none()
        && let Some((at, slot)) = SLOTS.of(shm).of_thread(task.tid)
        && slot.state() == state::CLAIMED
    {
        task.traced = Some(Box::new(Traced {
            slot: at,
            ..Traced::default()
        }));
        note_signals(task);
        slot.take(LifeStep::Hears);
    }
    let Some(slot) = slot(task) else {
        return Ok(());
    };
    let wishes = slot.wishes.swap(0, Ordering::AcqRel);
    if wishes & wish::SIGSTOP != 0 {
        let tracer = slot.tracer.load(Ordering::Acquire);
        task.signals
            .held
            .push_back(sent_by(libc::SIGSTOP, libc::SI_USER, tracer));
    }
    if wishes & wish::STOP != 0 {
        let sig = match wishes & wish::GROUP_STOPPED {
            0 => SIGTRAP,
            _ => libc::SIGSTOP as u32,
        };
        let stop = Stop {
            code: event::STOP << 8 | sig,
            message: 0,
            info: Some(trap_info(event::STOP, task)),
            place: StopPlace::Safe,
        };
        trap(task, stop, false)?;
    }
    Ok(())
}

/// The task stands at the `syscall` instruction of a call. Returns whether it makes it.
///
/// # Errors
/// An event is lost.
pub fn enters_call(task: &mut Task, nr: u32) -> Result<bool> {
    let Some(traced) = &mut task.traced else {
        return Ok(true);
    };
    traced.event = None;
    traced.call = Some(nr);
    if traced.goes_on != GoesOn::ToCall {
        return Ok(true);
    }
    let stop = call_stop(task, StopPlace::Entry);
    Ok(!trap(task, stop, true)?.skips)
}

fn call_stop(task: &Task, place: StopPlace) -> Stop {
    let code = match options(task) & option::SYSGOOD {
        0 => SIGTRAP,
        _ => SIGTRAP | 0x80,
    };
    Stop {
        code,
        message: match place {
            StopPlace::Entry => 1,
            _ => 2,
        },
        info: Some(sent_by(libc::SIGTRAP, code as i32, task.process.pid)),
        place,
    }
}

/// The task has made a call, and stands behind it.
///
/// # Errors
/// An event is lost.
pub fn leaves_call(task: &mut Task, nr: u32) -> Result<()> {
    let Some(traced) = &mut task.traced else {
        return Ok(());
    };
    if traced.begins.is_some() {
        return Ok(());
    }
    traced.call = Some(nr);
    if let Some((event, message)) = traced.event.take() {
        at_event(task, event, message, StopPlace::Exit)?;
        if event == event::VFORK && options(task) & option::VFORKDONE != 0 {
            at_event(task, event::VFORK_DONE, message, StopPlace::Exit)?;
        }
    }
    if task
        .traced
        .as_ref()
        .is_some_and(|t| t.goes_on == GoesOn::ToCall)
    {
        let stop = call_stop(task, StopPlace::Exit);
        trap(task, stop, true)?;
    }
    if let Some(traced) = &mut task.traced {
        traced.call = None;
    }
    Ok(())
}

/// A signal is about to be delivered. Returns the signal that is delivered in its place, if any is.
///
/// # Errors
/// An event is lost.
pub fn signal(task: &mut Task, info: &SigInfo, synchronous: bool) -> Result<Option<SigInfo>> {
    let sig = signo(info);
    if synchronous {
        // From here on the position has a name, and the replay knows that the tracer decides.
        change::make(task, SYNCHRONOUS, &[])?;
    }
    if sig == libc::SIGKILL {
        return Ok(Some(*info));
    }
    let resumed = stop::stop(
        task,
        Stop {
            code: sig as u32,
            message: 0,
            info: Some(*info),
            place: StopPlace::Safe,
        },
    )?;
    let before = resumed.info.unwrap_or(*info);
    let now = match resumed.signal {
        // A fault would come again, and kill first.
        _ if task.mode().is_being_killed(task) => {
            sent_by(libc::SIGKILL, libc::SI_USER, task.process.pid)
        }
        None => before,
        Some(0) => return Ok(None),
        Some(new) if new == sig => before,
        Some(new) => sent_by(new, libc::SI_USER, task.process.pid),
    };
    if task.signals.mask.has(signo(&now)) && !synchronous {
        task.signals.held.push_back(now);
        return Ok(None);
    }
    Ok(Some(now))
}

/// A traced process stops by a signal: as the kernel's own stop, but its host goes on.
///
/// # Errors
/// An event is lost.
pub fn group_stop(task: &mut Task, sig: i32) -> Result<()> {
    let (code, info) = match is_seized(task) {
        true => (
            event::STOP << 8 | sig as u32,
            Some(trap_info(event::STOP, task)),
        ),
        false => (sig as u32, None),
    };
    let stop = Stop {
        code,
        message: 0,
        info,
        place: StopPlace::Safe,
    };
    trap(task, stop, false).map(drop)
}

/// Whether its tracer steps a task.
#[must_use]
pub fn steps(task: &Task) -> bool {
    task.traced
        .as_ref()
        .is_some_and(|t| t.goes_on == GoesOn::Step)
}
