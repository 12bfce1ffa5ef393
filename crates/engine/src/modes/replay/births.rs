//! New threads and processes of a replay: contexts of the same host thread, forks of the host, or, for
//! a vfork child, the parent's task in another role.

use std::sync::atomic::Ordering;

use relive_trace::{Kind, Origin, TapeId};
use rustix::process::{WaitOptions, wait};

use super::concurrency;
use super::hook_state::{self, with};
use super::linear::bound;
use super::news;
use super::other_writers;
use super::own_schedule::TurnSchedule;
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::failure::{Failure, Result};
use crate::flow::{End, Flow};
use crate::kernel::resume::resume_after;
use crate::machine::Machine;
use crate::modes::live::fork::MEMBER;
use crate::process::Process;
use crate::process::state::ProcessState;
use crate::task::Task;
use crate::{inherit, vforked};

/// A thread of the process, which gets its first turn from the schedule.
pub fn thread(task: &mut Task, args: &CloneArgs, answer: &Answer) -> Result<Reply> {
    if answer.result > 0 {
        let index = answer.child_index();
        task.process.seen_thread(index);
        let tape = hook_state::task_tape(TapeId::new(task.process.index, index))?;
        let child = inherit::thread(task, args, index, answer.result as u32, tape);
        news::add_task(child);
    }
    Ok(Reply::Value(answer.result))
}

/// A process in its parent's memory that runs beside it: has its turns as a thread.
pub fn lodger(task: &mut Task, args: &CloneArgs, answer: &Answer) -> Result<Reply> {
    if answer.result > 0 {
        let index = answer.child_index();
        task.process.seen_thread(index);
        let tape = hook_state::task_tape(TapeId::new(task.process.index, index))?;
        news::add_task(inherit::lodger(
            task,
            args,
            index,
            answer.result as u32,
            tape,
        ));
    }
    Ok(Reply::Value(answer.result))
}

/// A process with a copy of the memory.
pub fn fork(task: &mut Task, args: &CloneArgs, answer: &Answer) -> Result<Reply> {
    if answer.result <= 0 {
        return Ok(Reply::Value(answer.result));
    }
    let index = answer.child_index();
    let parent = task.id();
    if fork_replay(task.machine(), index, answer.result as u32)? != ForkSide::Child {
        return Ok(Reply::Value(answer.result));
    }
    inherit::forked(task, args, index, answer.result as u32)?;
    task.ctx.ops = 0;
    task.ctx.marks = 0;
    task.tape = hook_state::task_tape(task.id())?;
    let member = answer.extra.get(4) == Some(&MEMBER);
    let flow = start_child(task, Origin::Fork, member)?;
    if matches!(flow, Flow::Continue) {
        inherit::begin_forked(task, args, parent)?;
    }
    Ok(Reply::Flow(flow))
}

/// A process in its parent's memory: the task plays both.
pub fn vfork(task: &mut Task, call: &Call, args: &CloneArgs, answer: &Answer) -> Result<Reply> {
    if answer.result <= 0 {
        return Ok(Reply::Value(answer.result));
    }
    let index = answer.child_index();
    vforked::put_aside(task, args, Some((*call, answer.clone())));
    inherit::vforked(task, args, index, answer.result as u32);
    task.tape = hook_state::task_tape(TapeId::new(index, 0))?;
    let flow = start_child(task, Origin::Vfork, false)?;
    inherit::begin_vforked(task, args)?;
    Ok(Reply::Flow(flow))
}

/// The vfork child that the task plays has left its parent's memory, as it `ends` or becomes another program; the parent's
/// call returns. `false` if it plays none.
///
/// # Errors
/// Divergence.
pub fn resume_parent(task: &mut Task, ends: bool) -> Result<bool> {
    if task.vforked.is_none() {
        return Ok(false);
    }
    bound::leaves_tape(task, ends)?;
    if ends {
        // Its ring is free from now on, though this process, which writes it, goes on.
        task.tape.close_exact();
    }
    if let Some((call, answer)) = vforked::take_back(task) {
        if let Some(ops) = answer.ops_behind_child() {
            // What the child's tape has not: it was killed in the midst of a call, or of its way to one.
            task.ctx.ops = ops;
        }
        super::finish::finish(&answer, task, &call, answer.result)?;
        resume_after(task, &call, answer.result);
    }
    Ok(true)
}

/// The tick at which the vfork child that the task plays was becoming another program, of which its tape has nothing, as it was killed
/// before. What it has done up to there is in its parent's memory.
///
/// # Errors
/// A damaged trace.
pub fn becomes_nothing(task: &mut Task) -> Result<Option<u64>> {
    let answer = task.vforked.as_ref().and_then(|p| p.answer.as_ref());
    match answer.and_then(|(_, answer)| answer.child_became()) {
        Some(tick) if task.tape.outline()?.is_none() => Ok(Some(tick)),
        _ => Ok(None),
    }
}

/// The sides of a fork of the replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForkSide {
    Child,
    /// With the host's id of the child; `None`: a replay of one process alone has none.
    Parent(Option<u32>),
}

/// Forks the replay at the birth of process `child`, recorded as `pid`. A
/// replay of one process alone does not fork: it goes on as that process or as its parent.
///
/// # Errors
/// The kernel's refusal.
pub fn fork_replay(machine: &'static Machine, child: u32, pid: u32) -> Result<ForkSide> {
    match with(|s| s.follow.as_ref().map(|f| f.contains(&child))) {
        Some(true) => return Ok(ForkSide::Child),
        Some(false) => return Ok(ForkSide::Parent(None)),
        None => {}
    }
    other_writers::forks(machine)?;
    reap_children()?;
    let side = fork_host(machine)?;
    if side != ForkSide::Child {
        with(|s| s.children.insert(pid, child));
    }
    Ok(side)
}

/// Forks this host process for a further process of the replay.
///
/// # Errors
/// The kernel's refusal.
pub fn fork_host(machine: &'static Machine) -> Result<ForkSide> {
    let shm = machine
        .shm
        .as_ref()
        .ok_or_else(|| Failure::internal("a replay has shared memory"))?;
    let running = &concurrency::CONCURRENCY.of(shm).running;
    running.fetch_add(1, Ordering::AcqRel);
    machine.memory().translator.about_to_fork();
    // SAFETY: a replay has one host thread, which holds no lock here.
    let host = unsafe { libc::fork() };
    if host < 0 {
        running.fetch_sub(1, Ordering::AcqRel);
        return Err(Failure::setup(format!(
            "cannot fork the replay: {}",
            std::io::Error::last_os_error()
        )));
    }
    if host > 0 {
        return Ok(ForkSide::Parent(Some(host as u32)));
    }
    super::checksum::is_forked();
    with(|s| s.children.clear());
    shm.register(std::process::id());
    crate::stats::begin(crate::machine::count_translations);
    Ok(ForkSide::Child)
}

/// Reaps ended children of this host process: their results are on the tapes, but the resources
/// that they used count with their parent's only once they are reaped. Children that outlive their
/// parent are reaped by the supervisor.
///
/// # Errors
/// One was killed: no forked process dies of a signal by itself.
fn reap_children() -> Result<()> {
    while let Ok(Some((_, status))) = wait(WaitOptions::NOHANG) {
        if let Some(signal) = status.terminating_signal() {
            return Err(super::confine::killed(signal));
        }
    }
    Ok(())
}

/// Takes the first event of a child's tape; a forked child also takes its process over, and
/// as a `member` of the group begins when it is its turn. A forked child that was killed before its
/// first event, or its first turn, ends at once, without a result of its own.
///
/// # Errors
/// The tape does not begin as one.
pub fn start_child(task: &mut Task, origin: Origin, member: bool) -> Result<Flow> {
    let start = match task.tape.peek()?.map(|e| e.kind) {
        Some(Kind::Start(s)) if s.origin == origin => s,
        None if origin == Origin::Fork => {
            // Killed before its first event.
            news::become_child(TurnSchedule::of(task.machine(), task.process.index)?);
            return Ok(Flow::ProcessEnd(End::Code(0)));
        }
        // The same: its parent goes on at once.
        None => return Ok(Flow::Continue),
        other => {
            let expected = format!("{:?}", other.map(|k| format!("{k:?}")));
            return Err(super::report::divergence(
                task,
                &expected,
                &format!("the start of a child ({origin:?})"),
            ));
        }
    };
    task.tid = start.tid;
    if start.pid != task.process.pid {
        // In a namespace of its own it has another id than its parent knows.
        task.process = Process::restore(ProcessState {
            pid: start.pid,
            ..task.process.capture()
        });
    }
    if origin == Origin::Fork {
        let mut turns = TurnSchedule::of(task.machine(), task.process.index)?;
        if member {
            other_writers::is_born();
        }
        let runs = !member || turns.next()?.is_some();
        news::become_child(turns);
        if !runs {
            return Ok(Flow::ProcessEnd(End::Code(0)));
        }
    }
    Ok(Flow::Continue)
}
