//! A vfork child runs in its parent's task: it takes over the context and the place in the schedule,
//! and the parent's own state is put aside here until the child has left. The same in all modes.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::ids;
use crate::sharing::processes::{PROCESSES, ProcessSlot};
use crate::tape::Tape;
use crate::task::Task;
use crate::task::parent::Parent;

/// Moves the parent's state out of the task; `answer` is its call, with the recorded outcome.
pub fn put_aside(task: &mut Task, args: &CloneArgs, answer: Option<(Call, Answer)>) {
    let parent = Parent {
        state: task.capture(),
        keeper: ids::thread_of(task.tid),
        process: Arc::clone(&task.process),
        tape: std::mem::replace(&mut task.tape, Tape::None),
        shares: *args,
        outer: task.vforked.take(),
        answer,
        becoming: AtomicU64::new(0),
    };
    task.vforked = Some(Box::new(parent));
}

/// Gives the task back to the parent, which stands at its call. Returns the call, with the recorded
/// outcome; `None` also if the task is no vfork child.
pub fn take_back(task: &mut Task) -> Option<(Call, Answer)> {
    let parent = *task.vforked.take()?;
    let shares = &parent.shares;
    parent
        .process
        .state()
        .take_back(&task.process.state(), shares);
    if shares.has(libc::CLONE_FILES) {
        task.machine().descriptor_kinds.forget_many(false);
    }
    (task.process, task.tape, task.vforked) = (parent.process, parent.tape, parent.outer);
    task.restore(parent.state);
    parent.answer
}

/// The process as others see it, if it is recorded.
#[must_use]
pub fn recorded(task: &Task, process: u32) -> Option<&ProcessSlot> {
    let shm = task
        .machine()
        .shm
        .as_ref()
        .filter(|_| task.traits().keeps)?;
    PROCESSES.of(shm).get(process)
}

/// Whether the process at hand is in its parent's memory and has been killed.
#[must_use]
pub fn is_killed(task: &Task) -> bool {
    let visits = task.vforked.is_some();
    visits && recorded(task, task.process.index).is_some_and(|slot| slot.visit.is_killed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Process;
    use crate::process::state::ProcessState;

    fn parent() -> Task {
        Task::new(
            crate::testing::machine(),
            Process::restore(ProcessState::new(3, 100)),
            1,
            101,
            Tape::None,
        )
    }

    #[test]
    fn the_parent_has_all_of_its_own_again() {
        let mut task = parent();
        task.set_name(b"parent");
        task.ctx.set_reg(relive_host::Reg::Rbx, 7);
        task.clear_tid = 0x1000;
        let before = task.capture();
        put_aside(&mut task, &CloneArgs::vfork(), None);
        task.restore(before.clone().for_vfork(&CloneArgs::vfork(), 200));
        task.process = Process::restore(ProcessState::new(4, 200));
        task.set_name(b"child");
        task.ctx.set_reg(relive_host::Reg::Rbx, 8);
        assert!(take_back(&mut task).is_none());
        assert!(task.capture() == before);
        assert_eq!((task.process.index, task.name()), (3, b"parent".to_vec()));
    }
}
