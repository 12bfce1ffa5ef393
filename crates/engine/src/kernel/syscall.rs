//! A system call of the guest, from its `syscall` instruction to its result, live and in replay: the
//! guest's filters, the mode's decision, the outcome, the event.

use relive_host::GuestAddr;

use super::resume::resume;
use super::{copied_strings, fds, generic, hooks, own, plain};
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::reply::Reply;
use crate::failure::Result;
use crate::flow::Flow;
use crate::kernel::judge::Verdict;
use crate::mode::Begun;
use crate::ptrace::tracee;
use crate::registry::NOT_QUIET;
use crate::task::Task;
use crate::task::ending::await_visitors;

/// Handles the system call at `task.ctx.rip`; `next` is the instruction behind it.
///
/// # Errors
/// Divergence, or an unsupported operation.
pub fn syscall(task: &mut Task, next: GuestAddr) -> Result<Flow> {
    match &task.traced {
        None => make_one(task, next),
        Some(_) => make_traced(task, next),
    }
}

/// Makes the call at hand of a traced task, with its stops.
#[cold]
fn make_traced(task: &mut Task, next: GuestAddr) -> Result<Flow> {
    let nr = Call::at(&task.ctx).nr;
    let makes = tracee::enters_call(task, nr)?;
    let flow = match makes {
        true => make_one(task, next)?,
        false => Flow::Continue,
    };
    if matches!(flow, Flow::Continue) {
        tracee::leaves_call(task, nr)?;
    }
    Ok(flow)
}

/// Makes the call at hand.
#[inline(always)]
fn make_one(task: &mut Task, next: GuestAddr) -> Result<Flow> {
    let confined = task.seccomp.is_some() || task.filters_seen != task.process.filters_set();
    if !confined && plain::answer(task, next)? {
        return Ok(Flow::Continue);
    }
    let call = Call::at(&task.ctx);
    if confined {
        if task.mode().changed(task)? {
            return Ok(Flow::Continue);
        }
        match crate::kernel::judge::before(task, &call, next)? {
            Verdict::Allow => {}
            Verdict::Flow(flow) => return Ok(flow),
            Verdict::Errno(errno) => return make(task, &call, next, Some(errno)),
        }
    }
    make(task, &call, next, None)
}

/// Makes a call that the guest's filters allow, or fails it with the errno of a filter.
fn make(task: &mut Task, call: &Call, next: GuestAddr, filtered: Option<i32>) -> Result<Flow> {
    let mode = task.mode();
    let told = match mode.begin_call(task, call)? {
        Begun::Live => None,
        Begun::Told(answer) => Some(answer),
        Begun::Flow(flow) => {
            if matches!(flow, Flow::Exec(_)) {
                crate::stats::call(call.nr);
            }
            return Ok(flow);
        }
    };
    if told.is_none() {
        if matches!(
            i64::from(call.nr),
            libc::SYS_exit_group | libc::SYS_execve | libc::SYS_execveat
        ) {
            await_visitors(task)?;
        }
        mode.order().permit_call(task, call)?;
        copied_strings::begin(task, call);
    }
    let filtered = filtered.or_else(|| match told {
        None => own::refuses(task, call),
        Some(_) => None,
    });
    task.log.clear();
    task.missing.set(0);
    crate::stats::call(call.nr);
    tracing::debug!(target: "syscall", "{} {call} at tick {}, operation {}", task.id(), task.ctx.ticks(), task.ctx.ops);
    if !call.row.is_some_and(|r| r.shares) {
        return settle(task, call, next, filtered, told);
    }
    mode.order().acquire(task)?;
    let flow = settle(task, call, next, filtered, told);
    mode.order().release(task);
    flow
}

/// Brings the outcome of a call about, logs or checks it, and shows it to the guest.
fn settle(
    task: &mut Task,
    call: &Call,
    next: GuestAddr,
    filtered: Option<i32>,
    told: Option<Answer>,
) -> Result<Flow> {
    let mode = task.mode();
    let reply = match (filtered, &told) {
        (Some(errno), _) => Reply::Value(-i64::from(errno)),
        (None, Some(_)) => with_quiet(task, call, told.as_ref())?,
        (None, None) if call.may_change_files() => {
            let order = mode.order();
            order.change_files(task, call, &mut |task, call| with_quiet(task, call, None))?
        }
        (None, None) => with_quiet(task, call, None)?,
    };
    let result = match reply {
        Reply::Value(v) => v,
        Reply::Flow(flow) => return Ok(flow),
        Reply::Returned => {
            // The call has set the registers itself (rt_sigreturn).
            return Ok(Flow::Continue);
        }
    };
    if call.row.is_some_and(|r| r.maps) {
        task.mode().order().release_files(task);
    }
    if told.is_none() && filtered.is_none() {
        fds::after(task, call, result);
    }
    // The call may have changed it.
    let mode = task.mode();
    mode.end_call(task, call, result, told.as_ref())?;
    resume(task, call, result, next);
    Ok(Flow::Continue)
}

/// The outcome of a call. If it cannot be made while other threads run, they are quiesced, and it is
/// made again.
#[inline]
fn with_quiet(task: &mut Task, call: &Call, told: Option<&Answer>) -> Result<Reply> {
    let reply = outcome(task, call, told)?;
    if !matches!(reply, Reply::Value(r) if r == -i64::from(NOT_QUIET)) {
        return Ok(reply);
    }
    task.log.clear();
    let _quiet = task.quiesce(true)?;
    outcome(task, call, told)
}

/// The outcome of a call, from the kernel or from the tape, with its effect on the engine's state.
///
/// # Errors
/// Divergence, an unsupported operation.
pub fn outcome(task: &mut Task, call: &Call, told: Option<&Answer>) -> Result<Reply> {
    match hooks::find(call) {
        Some(part) => part.outcome(task, call, told),
        None => generic::as_described(task, call, told),
    }
}
