//! New threads and processes of a replay: contexts of the same host thread, forks of the host, or, for
//! a vfork child, the parent's task in another role.

use relive_trace::{Origin, TapeId};

use super::session;
use crate::failure::Result;
use crate::inherit;
use crate::kernel::clone::CloneArgs;
use crate::kernel::{self, Answer, Call, Reply};
use crate::modes::live::fork::MEMBER;
use crate::task::{Flow, Task};
use crate::vforked;

/// A thread of the process, which gets its first turn from the schedule.
pub fn thread(task: &mut Task, args: &CloneArgs, answer: &Answer) -> Result<Reply> {
    if answer.result > 0 {
        let index = answer.child_index();
        task.process.seen_thread(index);
        let tape = session::open_tape(TapeId::new(task.process.index, index))?;
        let child = inherit::thread(task, args, index, answer.result as u32, tape);
        session::add_task(child);
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
    if !session::fork_host(index, answer.result as u32)? {
        return Ok(Reply::Value(answer.result));
    }
    inherit::forked(task, index, answer.result as u32);
    task.tape = session::open_tape(task.id())?;
    task.parked = false;
    let member = answer.extra.get(4) == Some(&MEMBER);
    session::start_child(task, Origin::Fork, member)?;
    inherit::begin_forked(task, args, parent);
    Ok(Reply::Flow(Flow::Continue))
}

/// A process in its parent's memory: the task plays both.
pub fn vfork(task: &mut Task, call: &Call, args: &CloneArgs, answer: &Answer) -> Result<Reply> {
    if answer.result <= 0 {
        return Ok(Reply::Value(answer.result));
    }
    let index = answer.child_index();
    vforked::put_aside(task, args, Some((*call, answer.clone())));
    inherit::vforked(task, index, answer.result as u32, args);
    task.tape = session::open_tape(TapeId::new(index, 0))?;
    session::start_child(task, Origin::Vfork, false)?;
    inherit::begin_vforked(task, args);
    Ok(Reply::Flow(Flow::Continue))
}

/// The vfork child that the task plays has left its parent's memory; the parent's call returns.
/// `false` if it plays none.
///
/// # Errors
/// Divergence.
pub fn resume_parent(task: &mut Task) -> Result<bool> {
    if task.vforked.is_none() {
        return Ok(false);
    }
    if let Some((call, answer)) = vforked::take_back(task) {
        super::finish::finish(&answer, task, &call, answer.result)?;
        kernel::resume_after(task, &call, answer.result);
    }
    Ok(true)
}
