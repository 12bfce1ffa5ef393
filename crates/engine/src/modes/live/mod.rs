//! Guest threads that are host threads, as in all modes but replay: the loop of a thread, its
//! birth ([`host_threads`], [`fork`], [`vfork`]) and its end, and the state that the kernel keeps of it
//! ([`kernel_state`]). It must never choose the thread that runs next: that is the mode's.

pub mod code_changes;
mod file_content;
pub mod fork;
pub mod host_threads;
pub mod kernel_state;
pub mod lodger;
pub mod recording;
pub mod vfork;

pub use file_content::content;

use relive_dbt::Stop;
use relive_host::signal::{self, Mask, die_of, set_mask};
use relive_host::{enter, sys};

use crate::exits;
use crate::failure::{FailureClass, Result, die};
use crate::flow::{End, Flow};
use crate::kernel::generic::apply_mask;
use crate::kernel::syscall;
use crate::ptrace::{ends, step, tracee};
use crate::signals::deliver;
use crate::task::Task;

/// Gets a host thread ready for its task: context, signal stack, mask.
///
/// # Errors
/// There is no memory for the stack.
pub fn prepare_thread(task: &mut Task) -> Result<()> {
    // One is open that the C library lets through: noted now, it would wait where a call for it does not look.
    set_mask(Mask::all_async());
    // SAFETY: the context lives in the task's box, which this thread keeps until it ends.
    unsafe { enter::adopt(&raw mut *task.ctx) };
    install_stack()?;
    if task.member.is_none() {
        task.member = task.machine().registry.enrol();
    }
    if let Some(member) = &task.member {
        member.runs_as(task.process.pid, task.tid);
    }
    apply_mask(task);
    Ok(())
}

/// Gives the calling thread its signal stack.
fn install_stack() -> Result<()> {
    signal::install_stack().map_err(|_| FailureClass::NoMemory.into())
}

/// Runs a thread to its end; `begun`: whether it could begin. Returns only for a thread that is not the first of its
/// process, and has nothing left but to leave the C library.
pub fn run(mut task: Box<Task>, begun: Result<()>) {
    let main = task.tid == std::process::id();
    finish_thread(&mut task, main, begun);
    let (machine, member) = (task.machine(), task.member.take());
    drop(task);
    if let Some(member) = member {
        machine.registry.withdraw(member, true);
    }
}

/// Runs a vfork child that has begun so; it ends as a process.
pub fn run_in_place(task: &mut Task, begun: Result<()>) -> ! {
    finish_thread(task, true, begun);
    unreachable!("a process does not outlive its only thread")
}

/// Runs a thread that has begun so to its end, and returns its exit code. Here a live host process ends, and nowhere
/// else.
fn finish_thread(task: &mut Task, main: bool, begun: Result<()>) -> i32 {
    let flow = match begun.and_then(|()| run_until_end(task)) {
        Ok(flow) => flow,
        Err(e) => die(&e),
    };
    match flow {
        Flow::ProcessEnd(end) => end_process(task, end),
        // As the kernel has it: the process ends as its last thread does. The host's own threads may go on for a moment.
        Flow::ThreadEnd(code) if task.last => {
            if let Some(member) = &task.member {
                task.machine().registry.await_withdrawn(member);
            }
            end_process(task, End::Code(code));
        }
        flow => {
            if let crate::tape::Tape::Out(t) = &task.tape {
                t.close();
            }
            task.mode().thread_ends(task);
            let code = match flow {
                Flow::ThreadEnd(code) => code,
                _ => 0,
            };
            match task.lodges {
                true => ends::process_ended(task, End::Code(code)),
                false => ends::thread_ended(task, code),
            }
            if main {
                if let Some(member) = task.member.take() {
                    task.machine().registry.withdraw(member, false);
                }
                // SAFETY: the first thread's stack is not needed any more; the process lives
                // on with the others, and ends with this code when they have ended.
                unsafe { sys::exit_thread(code) }
            }
            code
        }
    }
}

/// Ends the host process as the guest process ended.
fn end_process(task: &Task, end: End) -> ! {
    if let crate::tape::Tape::Out(t) = &task.tape {
        t.close();
    }
    task.mode().process_ends(task);
    ends::process_ended(task, end);
    let whole = task.vforked.is_none() && !task.lodges;
    if whole && matches!(end, End::Code(_)) {
        let program = task.process.state().exe.clone();
        crate::translations::save(&task.machine().memory(), &program);
    }
    if whole {
        crate::stats::end();
    }
    match end {
        End::Code(code) => sys::exit_group(code),
        End::Signal(sig) => die_of(sig),
    }
}

fn run_until_end(task: &mut Task) -> Result<Flow> {
    task.mode().begin_slice(task);
    loop {
        if task.exact {
            if task.looks || task.traced.is_some() {
                tracee::at_safe_point(task)?;
            }
            let flow = deliver::deliver_noted(task)?;
            if !matches!(flow, Flow::Continue) {
                return Ok(flow);
            }
            if task.looks {
                continue;
            }
            // Before an interrupted call is made again: a position behind an event is before that.
            if task.traits().checkpoints {
                task.mode().checkpoint(task)?;
            }
            deliver::finish_restart(task);
        }
        if tracee::steps(task) {
            let flow = step::step(task)?;
            if !matches!(flow, Flow::Continue) {
                return Ok(flow);
            }
            if !task.ctx.has_budget() {
                let flow = task.mode().end_budget(task)?;
                if !matches!(flow, Flow::Continue) {
                    return Ok(flow);
                }
            }
            continue;
        }
        if task.traits().samples && task.mode().samples(task) {
            let flow = task.mode().end_budget(task)?;
            if !matches!(flow, Flow::Continue) {
                return Ok(flow);
            }
            continue;
        }
        // The stop is not moved on the way to its commonest cause: to read it as a whole, just after its parts were
        // written, stalls the processor for longer than all else here takes.
        let flow = match task.go(false) {
            Ok(Stop::Syscall { next, .. }) => syscall::syscall(task, next)?,
            Ok(Stop::Budget { .. }) => {
                task.at_event();
                task.mode().end_budget(task)?
            }
            Ok(Stop::Pause { .. }) => {
                task.at_event();
                task.mode().pause(task)?;
                Flow::Continue
            }
            Ok(stop) => exits::handle(task, stop)?,
            Err(e) => return Err(e),
        };
        if !matches!(flow, Flow::Continue) {
            return Ok(flow);
        }
        // A thread that steps itself may have used up its slice with an instruction that trapped.
        if !task.ctx.has_budget() {
            let flow = task.mode().end_budget(task)?;
            if !matches!(flow, Flow::Continue) {
                return Ok(flow);
            }
        }
    }
}

/// Whether other threads of the guest's process use its memory beside this one.
pub fn has_others(task: &Task) -> bool {
    task.vforked.is_none() && !task.machine().registry.single()
}
