//! The kernel's work at the end of a thread or a process: robust locks, the cleared thread id.

use std::time::{Duration, Instant};

use relive_host::Reg;
use relive_trace::{Ending, Kind};

use super::{Task, robust};
use crate::failure::{Failure, Result, answered};
use crate::ordered_sites;
use crate::registry::Quiet;

/// Ends one thread of several with a code: logs it, and does the kernel's work. Where threads run at the same
/// time, the event comes with the order of the words that change; the process does not end before it is logged.
///
/// # Errors
/// The event is lost, or a page cannot be opened.
pub fn end_thread(task: &mut Task, code: i32) -> Result<()> {
    let end = Kind::End {
        how: Ending::ThreadExit,
        code,
        steps: 0,
    };
    if task.traits().together {
        leave(task)?;
        task.record(end)
    } else {
        task.record(end)?;
        leave(task)
    }
}

/// Does the kernel's work for a thread that ends: robust locks, the cleared thread id.
fn leave(task: &mut Task) -> Result<()> {
    let mut words = match ordered_sites::has_marks(task.machine().shm.as_ref()) {
        true => robust::held(task, task.robust.0, task.tid),
        false => Vec::new(),
    };
    words.extend((task.clear_tid != 0).then_some(task.clear_tid));
    let mut woken = Vec::new();
    let mode = task.mode();
    mode.order().change_words(task, &mut words, &mut |task| {
        woken = robust::release(task, task.robust.0, task.tid)?;
        task.process.state().robust.remove(&task.index);
        task.last = mode.host().leaves(&task.machine().registry);
        woken.extend(clear_id_word(task)?);
        Ok(())
    })?;
    woken.into_iter().for_each(|at| mode.host().wake(at));
    Ok(())
}

impl Task {
    /// Whether the call at hand ends the thread or its program.
    #[must_use]
    pub fn leaves_for_good(&self) -> bool {
        let nr = self.ctx.reg(Reg::Rax) as i64;
        matches!(
            nr,
            libc::SYS_execve | libc::SYS_execveat | libc::SYS_exit | libc::SYS_exit_group
        )
    }
}

/// Clears the thread id and wakes its waiters.
///
/// # Errors
/// The page cannot be opened.
pub fn clear_id(task: &Task) -> Result<()> {
    if let Some(at) = clear_id_word(task)? {
        task.mode().host().wake(at);
    }
    Ok(())
}

/// Clears the word; gives it, if somebody may wait for it.
fn clear_id_word(task: &Task) -> Result<Option<u64>> {
    let at = task.clear_tid;
    let cleared = at != 0 && answered(task.change_word(at, |_| Some(0)))?.is_ok();
    Ok(cleared.then_some(at))
}

/// How long a process that ends waits for a child in its memory.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two looks.
const AGAIN: Duration = Duration::from_millis(1);

/// Before a recorded process whose threads run together ends or executes a program: waits until no child of another of its threads is in its memory (vfork(2)), which
/// natively would go on there. A replay has the two in one host process.
///
/// # Errors
/// One stays there; the turn that follows is lost.
pub fn await_visitors(task: &mut Task) -> Result<()> {
    if !has_visitors(task) {
        return Ok(());
    }
    let order = task.mode().order();
    order.stands_still(task, true)?;
    let waited = wait_for_visitors(task);
    order.back_in_call(task)?;
    waited
}

/// Whether a task that is recorded beside others, and is no such child itself, has to wait for one.
fn has_visitors(task: &Task) -> bool {
    let traits = task.traits();
    let waits = traits.together && traits.keeps && task.vforked.is_none();
    waits && task.machine().registry.has_visitors()
}

/// Whether the call at hand ends the process or its program, and has to wait for such a child.
#[must_use]
pub fn has_visitors_left(task: &Task) -> bool {
    let is_thread_end = task.ctx.reg(Reg::Rax) as i64 == libc::SYS_exit;
    task.leaves_for_good() && !is_thread_end && has_visitors(task)
}

fn wait_for_visitors(task: &mut Task) -> Result<()> {
    let registry = &task.machine().registry;
    let began = Instant::now();
    while registry.has_visitors() && began.elapsed() < PATIENCE {
        task.while_away(&mut || {
            std::thread::sleep(AGAIN);
            0
        });
    }
    match registry.has_visitors() {
        false => Ok(()),
        true => Err(Failure::unsupported(
            "a process that ends, or executes a program, while a child of another of its threads stays in its memory (vfork)",
        )),
    }
}

/// Brings all other threads to rest, at a moment when no child is in their memory: it would rest too, and the process that it waits for
/// is about to become another program. A recorded process has waited before it took its part in the order of calls, without which no child
/// comes or goes ([`await_visitors`]).
///
/// # Errors
/// One stays there; the order of memory is lost.
pub fn quiesce_without_visitors(task: &mut Task) -> Result<Option<Quiet<'static>>> {
    loop {
        let quiet = task.quiesce(true)?;
        let waits = !task.traits().keeps && task.machine().registry.has_visitors();
        if quiet.is_none() || !waits {
            return Ok(quiet);
        }
        drop(quiet);
        wait_for_visitors(task)?;
    }
}

/// Brings the other threads of a process that ends to rest for good, where they run at the same time and are
/// recorded: each has then said how far it has come.
///
/// # Errors
/// The order of memory is lost.
pub fn still(task: &mut Task) -> Result<()> {
    if task.vforked.is_none() && task.traits().keeps {
        std::mem::forget(task.quiesce(true)?);
    }
    Ok(())
}

/// Does the kernel's work for all threads of a process that ends: robust locks, which may be in
/// memory shared with other processes.
///
/// # Errors
/// A page cannot be opened.
pub fn release_locks(task: &Task) -> Result<()> {
    let lists: Vec<(u64, u32)> = task.process.state().robust.values().copied().collect();
    for (head, tid) in lists {
        for at in robust::release(task, head, tid)? {
            task.mode().host().wake(at);
        }
    }
    Ok(())
}

/// Whether a thread of the process holds a robust lock.
pub fn holds_locks(task: &Task) -> bool {
    let state = task.process.state();
    let mut heads = state.robust.values();
    heads.any(|&(head, _)| robust::holds(task, head))
}
