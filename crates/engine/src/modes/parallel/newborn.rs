//! New threads of a parallel replay: their host threads begin behind the event of the call that has made them, whose
//! effects they may see at once. Must make no process.

use relive_trace::TapeId;

use super::siblings::SIBLINGS;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::failure::{Failure, Result};
use crate::inherit;
use crate::machine::Machine;
use crate::modes::live::host_threads;
use crate::modes::replay::hook_state;
use crate::task::Task;

/// What a host thread runs, with a [`ThreadStart`] in a box.
pub type HostMain = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

/// The data of a host thread that is about to run a task.
pub struct ThreadStart {
    /// The machine.
    pub machine: &'static Machine,
    /// The task.
    pub task: Box<Task>,
}

/// A thread of the process, as the tape tells.
///
/// # Errors
/// A damaged trace.
pub fn thread(task: &mut Task, args: &CloneArgs, answer: &Answer) -> Result<Reply> {
    if answer.result > 0 {
        let index = answer.child_index();
        task.process.seen_thread(index);
        let tape = hook_state::task_tape(TapeId::new(task.process.index, index))?;
        let child = inherit::thread(task, args, index, answer.result as u32, tape);
        let me = SIBLINGS.get(task.slot);
        let me = me.ok_or_else(|| Failure::internal("a thread has its place"))?;
        me.bears(child);
    }
    Ok(Reply::Value(answer.result))
}

/// Gives a new thread its host thread.
///
/// # Errors
/// The kernel makes none.
pub fn start(machine: &'static Machine, mut task: Box<Task>, main: HostMain) -> Result<()> {
    task.member = machine.registry.enrol();
    machine.registry.begun();
    SIBLINGS.add(task.slot);
    let id = task.id();
    let birth = Box::into_raw(Box::new(ThreadStart { machine, task }));
    host_threads::spawn(main, birth.cast()).map_err(|errno| {
        let error = std::io::Error::from_raw_os_error(errno);
        Failure::setup(format!("the replay cannot make thread {id}: {error}"))
    })
}
