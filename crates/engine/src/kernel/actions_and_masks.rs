//! System calls about signals. Most are computed: the engine keeps the guest's actions and mask.
//!
//! The signals that the host's handler has noted (`held`) are pending for the guest, as those in the
//! kernel are. A replay has none, and must take the effect of these calls on them from the tape.

use std::sync::Arc;

use relive_host::signal::{KernelAction, Mask};
use relive_host::{Reg, sys};

use super::enter::{blocking, interrupted};
use super::generic::generic;
use super::operation::{Operation, Prepared, RecordedResult};
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::reply::Reply;
use crate::failure::{CallResult, Result};
use crate::flow::Flow;
use crate::ptrace::intake;
use crate::sigaction::{DefaultAction, SIG_DFL, SIG_IGN, default_action};
use crate::siginfo::{SigInfo, signo};
use crate::signals::deliver;
use crate::signals::frame::altstack_flags;
use crate::task::Task;

const EINVAL: i64 = -(libc::EINVAL as i64);
/// The flags of an action that the kernel knows; it clears all others, so that a program can tell by
/// `SA_UNSUPPORTED` that it does. The last two are `SA_RESTORER` and `SA_EXPOSE_TAGBITS`.
const KNOWN_FLAGS: u64 = (libc::SA_NOCLDSTOP
    | libc::SA_NOCLDWAIT
    | libc::SA_SIGINFO
    | libc::SA_ONSTACK
    | libc::SA_RESTART
    | libc::SA_NODEFER) as u64
    | 0x8000_0000
    | 0x0400_0000
    | 0x800;
const UNBLOCKABLE: u64 = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);

/// Adds the signals that the host's handler has noted to those held for the guest; the thread's loop looks
/// at them once more behind the call.
fn take_in_noted(task: &mut Task) {
    if task.ctx.pending != 0 && task.ctx.noted != 0 {
        intake::take_in(task);
        task.ctx.pending = 1;
    }
}

/// rt_sigpending(2): the host never blocks the signals of faults, so those that the guest
/// blocks wait here.
pub struct Pending;

impl Operation for Pending {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        let result = generic(task, call)?;
        take_in_noted(task);
        let held = task.signals.held.iter();
        let held =
            held.fold(0u64, |mask, info| mask | 1 << (signo(info) - 1)) & task.signals.mask.0;
        if result == 0 && held != 0 && call.args[1] == 8 {
            let pending = task.read_u64(call.args[0]).unwrap_or(0);
            if let Err(e) = task.write(call.args[0], &(pending | held).to_le_bytes()) {
                return e.result();
            }
        }
        Ok(result)
    }
}

/// rt_sigtimedwait(2): as [`Pending`].
pub struct Timedwait;

impl Operation for Timedwait {
    /// The signals that it waits for, if they can be read.
    type Plan = Option<Mask>;

    fn prepare(task: &mut Task, call: &Call) -> Prepared<Option<Mask>> {
        let wanted = (call.args[3] == 8).then(|| task.read_u64(call.args[0]).ok());
        Ok(wanted.flatten().map(Mask))
    }

    fn perform(task: &mut Task, call: &Call, wanted: &mut Option<Mask>) -> Result<i64> {
        take_in_noted(task);
        if let Some(result) = take_held(task, call, *wanted)? {
            return Ok(result);
        }
        let result = generic(task, call)?;
        take_in_noted(task);
        let late = match result < 0 {
            true => take_held(task, call, *wanted)?,
            false => None,
        };
        Ok(late.unwrap_or(result))
    }
}

/// Takes a held signal that the call waits for.
fn take_held(task: &mut Task, call: &Call, wanted: Option<Mask>) -> Result<Option<i64>> {
    let held = &mut task.signals.held;
    let is_wanted = |info: &SigInfo| wanted.is_some_and(|mask| mask.has(signo(info)));
    let at = held.iter().position(is_wanted);
    let Some(info) = at.and_then(|at| held.remove(at)) else {
        return Ok(None);
    };
    if call.args[1] != 0
        && let Err(e) = task.give(call.args[1], &info)
    {
        return e.result().map(Some);
    }
    Ok(Some(i64::from(signo(&info))))
}

/// rt_sigaction(2).
///
/// # Errors
/// None.
pub fn rt_sigaction(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    Reply::done(action(task, call))
}

fn action(task: &mut Task, call: &Call) -> CallResult<()> {
    let (sig, new, old) = (call.int(0), call.args[1], call.args[2]);
    let fixed = sig == libc::SIGKILL || sig == libc::SIGSTOP;
    if call.args[3] != 8 || !(1..=64).contains(&sig) || (new != 0 && fixed) {
        return Err(EINVAL.into());
    }
    let wanted = if new == 0 {
        None
    } else {
        Some(decode(&task.read::<32>(new)?))
    };
    let order = task.mode().order();
    // The table and the kernel change in one step: another thread may set the same action.
    let process = Arc::clone(&task.process);
    let mut state = process.state();
    let before = state.actions[sig as usize];
    let mut follows = None;
    if let Some(mut action) = wanted {
        action.mask &= !UNBLOCKABLE;
        action.flags &= KNOWN_FLAGS;
        state.actions[sig as usize] = action;
        follows = order.sets_action(task);
        task.mode().host().action(sig, &action);
        // Setting a signal to be ignored drops it where it is pending.
        if action.handler == SIG_IGN
            || (action.handler == SIG_DFL && default_action(sig) == DefaultAction::Ignore)
        {
            task.signals.held.retain(|i| signo(i) != sig);
        }
    }
    drop(state);
    if let Some(operation) = follows {
        order.follows(task, operation, true)?;
    }
    if old != 0 {
        task.give(old, &encode(&before))?;
    }
    Ok(())
}

fn decode(b: &[u8; 32]) -> KernelAction {
    let w = |i: usize| u64::from_le_bytes(b[8 * i..8 * i + 8].try_into().unwrap_or_default());
    KernelAction {
        handler: w(0),
        flags: w(1),
        restorer: w(2),
        mask: w(3),
    }
}

fn encode(a: &KernelAction) -> [u8; 32] {
    let mut b = [0; 32];
    for (slot, w) in b
        .chunks_exact_mut(8)
        .zip([a.handler, a.flags, a.restorer, a.mask])
    {
        slot.copy_from_slice(&w.to_le_bytes());
    }
    b
}

/// rt_sigprocmask(2).
///
/// # Errors
/// None.
pub fn rt_sigprocmask(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    Reply::done(procmask(task, call))
}

fn procmask(task: &mut Task, call: &Call) -> CallResult<()> {
    let [how, new, old, size, ..] = call.args;
    if size != 8 {
        return Err(EINVAL.into());
    }
    let before = task.signals.mask.0;
    if new != 0 {
        let set = task.read_u64(new)?;
        let after = match how as i32 {
            libc::SIG_BLOCK => before | set,
            libc::SIG_UNBLOCK => before & !set,
            libc::SIG_SETMASK => set,
            _ => return Err(EINVAL.into()),
        };
        task.signals.mask = Mask(after & !UNBLOCKABLE);
        task.mode().host().mask(task.signals.mask);
    }
    if old != 0 {
        task.give(old, &before.to_le_bytes())?;
    }
    Ok(())
}

/// rt_sigreturn(2): the call's event comes first, as the call sets the registers from a frame; a signal
/// that a bad frame raises is an event behind it.
///
/// # Errors
/// Divergence.
pub fn rt_sigreturn(task: &mut Task, call: &Call, told: Option<&Answer>) -> Result<Reply> {
    task.mode().end_call(task, call, 0, told)?;
    Ok(match deliver::return_from_handler(task)? {
        Flow::Continue => Reply::Returned,
        flow => Reply::Flow(flow),
    })
}

/// sigaltstack(2).
///
/// # Errors
/// None.
pub fn sigaltstack(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    Reply::done(altstack(task, call))
}

fn altstack(task: &mut Task, call: &Call) -> CallResult<()> {
    let (new, old) = (call.args[0], call.args[1]);
    let sp = task.ctx.reg(Reg::Rsp);
    let before = task.signals.altstack;
    if new != 0 {
        let stack = task.read::<24>(new)?;
        task.signals.set_altstack(&stack, sp)?;
    }
    if old != 0 {
        let mut b = [0; 24];
        b[0..8].copy_from_slice(&before.sp.to_le_bytes());
        b[8..12].copy_from_slice(&altstack_flags(&before, sp).to_le_bytes());
        b[16..24].copy_from_slice(&before.size.to_le_bytes());
        task.give(old, &b)?;
    }
    Ok(())
}

/// rt_sigsuspend(2): sleeps with a mask of its own.
pub struct Suspend;

impl Operation for Suspend {
    /// The mask.
    type Plan = Mask;

    fn prepare(task: &mut Task, call: &Call) -> Prepared<Mask> {
        if call.args[1] != 8 {
            return Err(EINVAL);
        }
        let mask = task.read_u64(call.args[0])?;
        Ok(Mask(mask & !UNBLOCKABLE))
    }

    fn enter(task: &mut Task, _: &Call, mask: &Mask) -> Result<()> {
        task.signals.saved_mask.get_or_insert(task.signals.mask);
        task.signals.mask = *mask;
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, mask: &mut Mask) -> Result<i64> {
        let result = if task.signals.held.iter().any(|i| !mask.has(signo(i))) {
            sys::INTERRUPTED as i64
        } else {
            let host = mask.for_host().0;
            blocking(task, call.nr, &[&raw const host as u64, 8, 0, 0, 0, 0])?
        };
        Ok(interrupted(task, call, result))
    }
}
