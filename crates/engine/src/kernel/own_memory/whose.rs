//! The owner of the memory that a descriptor leads to: the program itself, or another process.

use relive_host::sys;

use crate::descriptor::owner;
use crate::input::descriptors::is_memory;
use crate::task::Task;

/// An address at which no process has memory.
pub(super) const NOWHERE: u64 = 0;

/// The owner of the memory that a descriptor leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Own,
    Another,
}

/// Whether an id is that of this process or of one of its threads.
#[must_use]
pub fn is_own(task: &Task, pid: u32) -> bool {
    let own = task.process.pid;
    pid == own || pid == task.tid || sys::has_thread(own, pid)
}

pub(super) fn whose(task: &Task, fd: i32) -> Option<Whose> {
    if task.traits().together && !task.machine().descriptor_kinds.may_be_memory()
        || !is_memory(task, fd)
    {
        return None;
    }
    let own = owner(fd).is_some_and(|pid| is_own(task, pid));
    Some(if own { Whose::Own } else { Whose::Another })
}
