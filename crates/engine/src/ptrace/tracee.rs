//! The stops of a traced thread, at the places where the kernel makes them. Only in a recording: a replay
//! traces nothing.

use std::sync::atomic::Ordering;

use super::change;
use super::intake::note_signals;
use super::registers;
use super::requests::{event, option};
use super::slots::{SLOTS, Slot, sent_by, wish};
use super::standing::{LifeStep, state};
use super::stop::{self, Resumed, Stop, StopPlace, slot, tell, trap_info};
use crate::call::clone_args::CloneArgs;
use crate::failure::Result;
use crate::flow::End;
use crate::ids;
use crate::siginfo::{SigInfo, signo};
use crate::tape::SYNCHRONOUS;
use crate::task::Task;
use crate::traced::{Begins, GoesOn, Traced};

const SI_KERNEL: i32 = 128;
const SIGTRAP: u32 = libc::SIGTRAP as u32;

fn options(task: &Task) -> u32 {
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

fn at_event(task: &mut Task, event: u32, message: u64, place: StopPlace) -> Result<()> {
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
    let goes_on = match slot.resume.load(Ordering::Acquire) {
        super::requests::ptrace::SYSCALL => GoesOn::ToCall,
        super::requests::ptrace::SINGLESTEP => GoesOn::Step,
        _ => GoesOn::Freely,
    };
    for (other, ended) in slots.of_process(task.process.pid) {
        if other != at {
            ended.take(LifeStep::Vanishes);
        }
    }
    slot.take(LifeStep::Hears);
    task.traced = Some(Box::new(Traced {
        slot: at,
        goes_on,
        begins: Some(Begins::Program),
        ..Traced::default()
    }));
    note_signals(task);
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
            traced.goes_on = match slot.resume.load(Ordering::Acquire) {
                super::requests::ptrace::SYSCALL => GoesOn::ToCall,
                super::requests::ptrace::SINGLESTEP => GoesOn::Step,
                _ => GoesOn::Freely,
            };
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
    // SAFETY: asks for an id.
    let is_parent = unsafe { libc::getppid() } as u32 == tracer;
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
            // SAFETY: kills a tracee, as it has been told to.
            unsafe { libc::kill(process as i32, libc::SIGKILL) };
        }
        if slot.state() == state::ENDED {
            slot.take(LifeStep::Vanishes);
        }
        slot.ring();
    }
}
