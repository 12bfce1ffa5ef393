//! Delivering a signal: its action, the frame, the death; and the restart or failure of the system call
//! that it interrupted. Must never run in the host's signal handler.

use std::sync::Arc;

use relive_host::Reg;
use relive_host::signal::{KernelAction, Mask, set_mask};
use relive_trace::{Ending, Kind, Signal};

use super::frame;
use crate::failure::{Result, answered};
use crate::flow::{End, Flow};
use crate::ptrace::stop::StopPlace;
use crate::ptrace::{ends, intake, tracee};
use crate::sigaction::{DefaultAction, SIG_DFL, SIG_IGN, default_action};
use crate::siginfo::{SigInfo, fault_addr, fault_info, signo};
use crate::tape::SYNCHRONOUS;
use crate::task::Task;
use crate::task::signal_state::Interrupted;

const SI_KERNEL: i32 = 128;
/// Bytes of the `syscall` instruction.
const SYSCALL: u64 = 2;
/// The exception number of a page fault, and of a general protection fault.
const PAGE_FAULT: u64 = 14;
const PROTECTION: u64 = 13;

/// Delivers the signals that the host's handler has noted (live only), at the present safe point.
///
/// # Errors
/// None: a live run has no tape to diverge from.
pub fn deliver_noted(task: &mut Task) -> Result<Flow> {
    if task.mode().is_being_killed(task) {
        return killed(task, libc::SIGKILL, false);
    }
    if task.ctx.pending == 0 && task.signals.held.is_empty() {
        return Ok(Flow::Continue);
    }
    loop {
        // All of them may be blocked, or do nothing: then no event follows.
        task.mode().order().permit_frame(task)?;
        intake::take_in(task);
        // Whoever has killed it wakes it by a signal that is none of the guest's, and has said so before: perhaps only since the
        // look above.
        if task.mode().is_being_killed(task) {
            return killed(task, libc::SIGKILL, false);
        }
        let flow = deliver_held(task)?;
        // The kernel delivers one at a time. A signal that the new mask lets through comes now, before
        // the first instruction of the handler, and its own handler runs first.
        set_mask(task.signals.mask.for_host());
        if task.ctx.pending == 0 || !matches!(flow, Flow::Continue) {
            return Ok(flow);
        }
    }
}

/// Delivers the held signals that are not blocked, as the kernel does: the lowest number first.
fn deliver_held(task: &mut Task) -> Result<Flow> {
    loop {
        let held = task.signals.held.iter().enumerate();
        let free = held.filter(|(_, info)| !task.signals.mask.has(signo(info)));
        let first = free.min_by_key(|(_, info)| signo(info));
        let Some(info) = first
            .map(|(at, _)| at)
            .and_then(|at| task.signals.held.remove(at))
        else {
            return Ok(Flow::Continue);
        };
        let flow = deliver(task, &info, false)?;
        if !matches!(flow, Flow::Continue) {
            return Ok(flow);
        }
    }
}

/// Delivers the signal of the next event in replay; the caller has brought the thread to
/// its position.
///
/// # Errors
/// The event does not fit.
pub fn deliver_recorded(task: &mut Task, info: &SigInfo) -> Result<Flow> {
    let sig = signo(info);
    let action = task.process.state().actions[sig as usize];
    if task.traced.is_none() && !SignalEffect::of(task, sig, &action, false).is_logged() {
        let expected = format!("signal {sig} with a handler");
        let actual = format!("signal {sig}, which does nothing: another thread has set its action");
        return Err(task.mode().diverged(task, &expected, &actual));
    }
    deliver(task, info, false)
}

/// Raises the signal of an exception at the present instruction, with its number and error code; or lets the task
/// make the instruction again, where the cause may be gone. In replay the next event must be this very signal.
///
/// # Errors
/// A divergence.
pub fn fault(task: &mut Task, info: &SigInfo, trap: (u64, u64)) -> Result<Flow> {
    match makes_again(task)? {
        true => Ok(Flow::Continue),
        false => raise(task, info, trap),
    }
}

/// In front of an instruction that raises a signal: gets the memory of the frame. Whether the task is to make the
/// instruction again, as it was at rest for that.
///
/// # Errors
/// The order of memory is lost.
pub fn makes_again(task: &mut Task) -> Result<bool> {
    let was_at_rest = task.mode().order().permit_frame(task)?;
    if was_at_rest {
        task.inexact();
    }
    Ok(was_at_rest)
}

/// The same, surely.
fn raise(task: &mut Task, info: &SigInfo, (trapno, err): (u64, u64)) -> Result<Flow> {
    let trap = &mut task.signals.trap;
    (trap.trapno, trap.err) = (trapno, err);
    if trapno == PAGE_FAULT {
        trap.cr2 = fault_addr(info);
    }
    force(task, info)
}

/// Raises a signal at the present instruction that is no exception of the processor. In replay the
/// next event must be this very signal.
///
/// # Errors
/// A divergence.
pub fn force(task: &mut Task, info: &SigInfo) -> Result<Flow> {
    if !task.mode().raised(task, info)? {
        // A tracer has taken it.
        return Ok(Flow::Continue);
    }
    deliver(task, info, true)
}

/// Delivers a signal. A synchronous one is raised by the present instruction, and kills if it is
/// blocked or ignored.
pub(super) fn deliver(task: &mut Task, info: &SigInfo, synchronous: bool) -> Result<Flow> {
    if task.traced.is_some() {
        return deliver_traced(task, info, synchronous);
    }
    deliver_untraced(task, info, synchronous, false)
}

/// Delivers the signal that the tracer lets through.
fn deliver_traced(task: &mut Task, info: &SigInfo, synchronous: bool) -> Result<Flow> {
    let Some(now) = tracee::signal(task, info, synchronous)? else {
        return Ok(Flow::Continue);
    };
    let same = synchronous && signo(&now) == signo(info);
    deliver_untraced(task, &now, false, same)
}

/// Delivers a signal; with `forced`, one that a fault has raised, but at a safe point.
fn deliver_untraced(
    task: &mut Task,
    info: &SigInfo,
    synchronous: bool,
    forced: bool,
) -> Result<Flow> {
    let sig = signo(info);
    let (action, effect) = take_action(task, sig, synchronous, forced)?;
    match effect {
        SignalEffect::None => return Ok(Flow::Continue),
        SignalEffect::Stop => {
            if task.traced.is_some() {
                tracee::group_stop(task, sig)?;
            } else {
                task.mode().host().stop(sig);
            }
            return Ok(Flow::Continue);
        }
        SignalEffect::Terminate => {
            if synchronous && sig == libc::SIGBUS {
                // A replay needs the address.
                task.record(Kind::Signal(Signal {
                    steps: SYNCHRONOUS,
                    signo: sig as u8,
                    siginfo: info,
                }))?;
            }
            ends::exits(task, sig as u32, StopPlace::Safe)?;
            return killed(task, sig, synchronous);
        }
        SignalEffect::Handler => {}
    }
    let steps = if synchronous { SYNCHRONOUS } else { task.steps };
    task.record(Kind::Signal(Signal {
        steps,
        signo: sig as u8,
        siginfo: info,
    }))?;
    interrupt_call(task, action.flags & libc::SA_RESTART as u64 != 0);
    let back = task.signals.saved_mask.unwrap_or(task.signals.mask);
    if answered(frame::push(task, &action, info, back))?.is_err() {
        return force_segv(task, sig);
    }
    task.signals.saved_mask = None;
    let mut mask = task.signals.mask.0 | action.mask;
    if action.flags & libc::SA_NODEFER as u64 == 0 {
        mask |= 1 << (sig - 1);
    }
    task.signals.mask = Mask(mask & !(1 << (libc::SIGKILL - 1)) & !(1 << (libc::SIGSTOP - 1)));
    if synchronous || forced {
        task.mode().host().mask(task.signals.mask);
    }
    Ok(Flow::Continue)
}

/// The effect of a signal when it is delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SignalEffect {
    None,
    Stop,
    Terminate,
    Handler,
}

impl SignalEffect {
    fn of(task: &Task, sig: i32, action: &KernelAction, synchronous: bool) -> Self {
        match (action.handler, default_action(sig)) {
            (SIG_IGN, _) | (SIG_DFL, DefaultAction::Ignore) => Self::None,
            (SIG_DFL, DefaultAction::Stop) => Self::Stop,
            // The first process of a pid namespace: the kernel lets nothing but faults end it so.
            (SIG_DFL, DefaultAction::Terminate) if !synchronous && task.process.pid == 1 => {
                Self::None
            }
            (SIG_DFL, DefaultAction::Terminate) => Self::Terminate,
            _ => Self::Handler,
        }
    }

    /// Whether an event says so.
    fn is_logged(self) -> bool {
        matches!(self, Self::Terminate | Self::Handler)
    }
}

/// The action of a signal. After a handler that is called only once (`SA_RESETHAND`), the next such
/// signal of any thread has the default action. Which action it is depends on the order in which threads set
/// actions and take signals: where an event follows, it is an operation.
fn take_action(
    task: &mut Task,
    sig: i32,
    synchronous: bool,
    forced: bool,
) -> Result<(KernelAction, SignalEffect)> {
    let mode = task.mode();
    let process = Arc::clone(&task.process);
    let mut state = process.state();
    let there = &mut state.actions[sig as usize];
    let mut action = *there;
    if (synchronous || forced) && (action.handler == SIG_IGN || task.signals.mask.has(sig)) {
        action.handler = SIG_DFL;
    }
    let effect = SignalEffect::of(task, sig, &action, synchronous);
    let follows = match effect.is_logged() {
        true => mode.order().takes_action(task),
        false => None,
    };
    if effect == SignalEffect::Handler && action.flags & libc::SA_RESETHAND as u64 != 0 {
        there.handler = SIG_DFL;
        mode.host().action(sig, there);
    }
    drop(state);
    if let Some(operation) = follows {
        mode.order().follows(task, operation, !synchronous)?;
    }
    Ok((action, effect))
}

/// The frame of `sig`'s handler cannot be built. As in the kernel: raises SIGSEGV at the same place;
/// if `sig` is SIGSEGV itself, the process ends.
fn force_segv(task: &mut Task, sig: i32) -> Result<Flow> {
    let info = fault_info(libc::SIGSEGV, SI_KERNEL, 0);
    if sig != libc::SIGSEGV {
        return force(task, &info);
    }
    task.mode().raised(task, &info)?;
    killed(task, sig, true)
}

/// Ends the process as by a signal that cannot be handled, at the present instruction; with `thread`,
/// only the thread at hand if there are others.
///
/// # Errors
/// A divergence.
pub fn kill(task: &mut Task, sig: i32, thread: bool) -> Result<Flow> {
    let one_of_several = task.mode().ends_thread_alone(task)?;
    if thread && one_of_several {
        crate::task::ending::end_thread(task, sig)?;
        return Ok(Flow::ThreadEnd(sig));
    }
    task.mode().raised(task, &fault_info(sig, 0, 0))?;
    killed(task, sig, true)
}

fn killed(task: &mut Task, sig: i32, synchronous: bool) -> Result<Flow> {
    crate::task::ending::await_visitors(task)?;
    crate::task::ending::still(task)?;
    crate::task::ending::release_locks(task)?;
    let steps = if synchronous { SYNCHRONOUS } else { task.steps };
    task.record(Kind::End {
        how: Ending::Killed,
        code: sig,
        steps,
    })?;
    Ok(Flow::ProcessEnd(End::Signal(sig)))
}

/// A handler is about to run: the interrupted call fails with EINTR or is made again.
fn interrupt_call(task: &mut Task, restart: bool) {
    let Some(call) = task.signals.restart.take() else {
        return;
    };
    if call.always || (restart && call.with_handler) {
        make_again(task, call.nr);
    } else {
        task.ctx.set_reg(Reg::Rax, -i64::from(libc::EINTR) as u64);
    }
}

/// No handler ran for the interrupted call.
pub fn finish_restart(task: &mut Task) {
    let Some(call) = task.signals.restart.take() else {
        return;
    };
    if let Some(mask) = task.signals.saved_mask.take() {
        task.signals.mask = mask;
        task.mode().host().mask(mask);
    }
    if call.always || call.without_handler {
        make_again(task, call.nr);
    } else {
        task.ctx.set_reg(Reg::Rax, -i64::from(libc::EINTR) as u64);
    }
}

/// Where the task goes on once it has been decided whether an interrupted call is made again, as [`finish_restart`] does.
#[must_use]
pub fn goes_on_at(task: &Task) -> u64 {
    let restarts = |call: &Interrupted| call.always || call.without_handler;
    match task.signals.restart.as_ref().is_some_and(restarts) {
        true => task.ctx.rip - SYSCALL,
        false => task.ctx.rip,
    }
}

/// Goes back to the `syscall` instruction.
fn make_again(task: &mut Task, nr: u32) {
    task.ctx.set_reg(Reg::Rax, u64::from(nr));
    task.ctx.rip -= SYSCALL;
}

/// rt_sigreturn(2).
///
/// # Errors
/// Divergence of the fault that a bad frame raises.
pub fn return_from_handler(task: &mut Task) -> Result<Flow> {
    let (mask, bad) = match frame::pop(task) {
        Ok(mask) => (Some(mask), None),
        Err(bad) => (bad.mask, Some(bad.refused)),
    };
    if let Some(mask) = mask {
        task.signals.mask = mask;
        task.mode().host().mask(mask);
    }
    let info = fault_info(libc::SIGSEGV, SI_KERNEL, 0);
    match bad {
        None => Ok(Flow::Continue),
        Some(None) => force(task, &info),
        Some(Some(code)) => raise(task, &info, (PROTECTION, code)),
    }
}
