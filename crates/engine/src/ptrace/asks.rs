//! A tracer's requests of ptrace(2) to its stopped tracee, which the tracee's own host answers. Must never read or write
//! another process's memory.

use std::sync::atomic::Ordering;

use super::pokes;
use super::registers::BYTES;
use super::requests::{ask, option, ptrace};
use super::slots::{ROOM, Slot, TraceRequest, wish};
use super::standing::{LifeStep, state};
use crate::call::Call;
use crate::failure::{Result, answered};
use crate::kernel::refuse::refuse;
use crate::task::Task;

const EIO: i64 = -(libc::EIO as i64);
const EFAULT: i64 = -(libc::EFAULT as i64);
const ESRCH: i64 = -(libc::ESRCH as i64);
const EINVAL: i64 = -(libc::EINVAL as i64);
/// `offsetof(struct user, u_debugreg)`, and the bytes of the debug registers.
const DEBUG: std::ops::Range<u64> = 848..912;
/// `sizeof(struct user)`
const USER: u64 = 912;
const NT_PRSTATUS: u64 = 1;
const NT_FPREGSET: u64 = 2;
const NT_X86_XSTATE: u64 = 0x202;
const FXSAVE: usize = 512;
/// The highest number of a signal.
const SIGNALS: u64 = 64;

/// A request that copies bytes between the tracer's memory, at `data`, and the tracee's state.
struct StateCopy {
    request: u32,
    /// The request to the tracee's host.
    ask: u32,
    bytes: usize,
    /// To the tracee.
    sets: bool,
    /// The value that `addr` must have.
    addr: Option<u64>,
}

const fn gets(request: u32, ask: u32, bytes: usize) -> StateCopy {
    StateCopy {
        request,
        ask,
        bytes,
        sets: false,
        addr: None,
    }
}

const fn sets(request: u32, ask: u32, bytes: usize) -> StateCopy {
    StateCopy {
        sets: true,
        ..gets(request, ask, bytes)
    }
}

/// With the size of a signal mask.
const fn of_mask(copied: StateCopy) -> StateCopy {
    StateCopy {
        addr: Some(8),
        ..copied
    }
}

const COPIED: [StateCopy; 8] = [
    gets(ptrace::GETREGS, ask::REGISTERS, BYTES),
    sets(ptrace::SETREGS, ask::SET_REGISTERS, BYTES),
    gets(ptrace::GETFPREGS, ask::EXTENDED, FXSAVE),
    sets(ptrace::SETFPREGS, ask::SET_EXTENDED, FXSAVE),
    gets(ptrace::GETSIGINFO, ask::SIGINFO, 128),
    sets(ptrace::SETSIGINFO, ask::SET_SIGINFO, 128),
    of_mask(gets(ptrace::GETSIGMASK, ask::MASK, 8)),
    of_mask(sets(ptrace::SETSIGMASK, ask::SET_MASK, 8)),
];

/// A request of ptrace(2) to the tracee in this slot.
///
/// # Errors
/// The turn behind it is lost.
pub fn to_tracee(task: &mut Task, call: &Call, slot: &'static Slot) -> Result<i64> {
    let [request, _, addr, data, ..] = call.args;
    let request = request as u32;
    match request {
        ptrace::KILL => {
            pokes::kill(slot.process.load(Ordering::Acquire));
            return Ok(0);
        }
        ptrace::INTERRUPT => return Ok(interrupt(slot)),
        _ if slot.state() != state::STOPPED => return Ok(ESRCH),
        _ => {}
    }
    if let Some(copied) = COPIED.iter().find(|copied| copied.request == request) {
        return copy(task, slot, copied, addr, data);
    }
    match request {
        ptrace::PEEKTEXT | ptrace::PEEKDATA => {
            let mut word = [0; 8];
            match told(task, slot, ask::READ, addr, 8, &mut word)? {
                8 => give(task, data, &word),
                ESRCH => Ok(ESRCH),
                _ => Ok(EIO),
            }
        }
        ptrace::POKETEXT | ptrace::POKEDATA => {
            let mut word = data.to_le_bytes();
            Ok(told(task, slot, ask::WRITE, addr, 8, &mut word)?.min(0))
        }
        ptrace::PEEKUSER | ptrace::POKEUSER if addr % 8 != 0 || addr >= USER => Ok(EIO),
        ptrace::PEEKUSER => peek_user(task, slot, addr, data),
        ptrace::POKEUSER => poke_user(task, call, slot),
        ptrace::GETREGSET | ptrace::SETREGSET => register_set(task, call, slot),
        ptrace::SETOPTIONS => Ok(set_options(call, slot)),
        ptrace::GETEVENTMSG => {
            let message = slot.message.load(Ordering::Acquire);
            give(task, data, &message.to_le_bytes())
        }
        ptrace::GET_SYSCALL_INFO => {
            let mut all = [0; 96];
            let n = told(task, slot, ask::CALL, 0, 0, &mut all)?;
            if n < 0 {
                return Ok(n);
            }
            let shown = (n as usize).min(addr as usize).min(all.len());
            Ok(match give(task, data, &all[..shown])? {
                0 => n,
                e => e,
            })
        }
        ptrace::LISTEN => Ok(goes(slot, LifeStep::Listens)),
        ptrace::CONT | ptrace::SYSCALL | ptrace::SINGLESTEP | ptrace::DETACH => {
            if data > SIGNALS {
                return Ok(EIO);
            }
            slot.signal.store(data as u32, Ordering::Release);
            slot.resume.store(request, Ordering::Release);
            Ok(goes(slot, LifeStep::GoesOn))
        }
        _ => Ok(refuse(call, libc::EIO)),
    }
}

fn goes(slot: &Slot, step: LifeStep) -> i64 {
    match slot.take(step) {
        true => 0,
        false => ESRCH,
    }
}

fn interrupt(slot: &Slot) -> i64 {
    if slot.seized.load(Ordering::Acquire) == 0 {
        return EIO;
    }
    slot.wishes.fetch_or(wish::STOP, Ordering::AcqRel);
    let process = slot.process.load(Ordering::Acquire);
    pokes::poke(process, slot.thread.load(Ordering::Acquire));
    0
}

fn copy(
    task: &mut Task,
    slot: &'static Slot,
    copied: &StateCopy,
    addr: u64,
    at: u64,
) -> Result<i64> {
    if copied.addr.is_some_and(|wanted| wanted != addr) {
        return Ok(EINVAL);
    }
    let mut all = [0; ROOM];
    let bytes = &mut all[..copied.bytes];
    if copied.sets {
        if relive_host::copy::read(relive_host::GuestAddr(at), bytes).is_err() {
            return Ok(EFAULT);
        }
        return told(task, slot, copied.ask, 0, copied.bytes, bytes);
    }
    match told(task, slot, copied.ask, 0, 0, &mut all)? {
        n if n < 0 => Ok(n),
        _ => give(task, at, &all[..copied.bytes]),
    }
}

fn peek_user(task: &mut Task, slot: &'static Slot, addr: u64, data: u64) -> Result<i64> {
    let mut all = [0; BYTES];
    let n = told(task, slot, ask::REGISTERS, 0, 0, &mut all)?;
    if n < 0 {
        return Ok(n);
    }
    let word = all.get(addr as usize..addr as usize + 8);
    let word = word.unwrap_or(&[0; 8]).to_owned();
    give(task, data, &word)
}

fn poke_user(task: &mut Task, call: &Call, slot: &'static Slot) -> Result<i64> {
    let [_, _, addr, data, ..] = call.args;
    if DEBUG.contains(&addr) && data != 0 {
        // The registers of the processor are not the tracee's.
        return Ok(refuse(call, libc::EIO));
    }
    if addr >= BYTES as u64 {
        return Ok(0);
    }
    let mut all = [0; BYTES];
    let n = told(task, slot, ask::REGISTERS, 0, 0, &mut all)?;
    if n < 0 {
        return Ok(n);
    }
    all[addr as usize..addr as usize + 8].copy_from_slice(&data.to_le_bytes());
    told(task, slot, ask::SET_REGISTERS, 0, BYTES, &mut all)
}

/// `PTRACE_GETREGSET`, `PTRACE_SETREGSET`: `data` is the address of a buffer's address and length.
fn register_set(task: &mut Task, call: &Call, slot: &'static Slot) -> Result<i64> {
    let [request, _, kind, data, ..] = call.args;
    let (Ok(base), Ok(len)) = (task.read_u64(data), task.read_u64(data.wrapping_add(8))) else {
        return Ok(EFAULT);
    };
    let (get, set) = match kind {
        NT_PRSTATUS => (ask::REGISTERS, ask::SET_REGISTERS),
        NT_FPREGSET | NT_X86_XSTATE => (ask::EXTENDED, ask::SET_EXTENDED),
        _ => return Ok(EINVAL),
    };
    if len % 8 != 0 {
        return Ok(EINVAL);
    }
    let mut all = [0; ROOM];
    let n = told(task, slot, get, 0, 0, &mut all)?;
    if n < 0 {
        return Ok(n);
    }
    let size = match kind {
        NT_FPREGSET => FXSAVE,
        _ => n as usize,
    };
    let n = size.min(len as usize);
    let done = if request as u32 == ptrace::GETREGSET {
        give(task, base, &all[..n])?
    } else if relive_host::copy::read(relive_host::GuestAddr(base), &mut all[..n]).is_err() {
        EFAULT
    } else {
        told(task, slot, set, 0, size, &mut all[..size])?
    };
    match done {
        0 => give(task, data.wrapping_add(8), &(n as u64).to_le_bytes()),
        e => Ok(e),
    }
}

fn set_options(call: &Call, slot: &Slot) -> i64 {
    /// `PTRACE_O_TRACESECCOMP`, whose event would be one of the guest's own filters, and `PTRACE_O_SUSPEND_SECCOMP`.
    const UNSUPPORTED: u64 = 0x80 | 0x20_0000;
    let options = call.args[3];
    if options & !(u64::from(option::ALL) | UNSUPPORTED) != 0 {
        return EINVAL;
    }
    if options & UNSUPPORTED != 0 {
        return refuse(call, libc::EINVAL);
    }
    slot.options.store(options as u32, Ordering::Release);
    0
}

/// Makes a request to the host of a stopped tracee, with `length` of the bytes; its answer's bytes replace them.
/// The result, or an errno (negative); `None`: the tracee is gone.
///
/// # Errors
/// The turn behind it is lost.
pub fn asked(
    task: &mut Task,
    slot: &'static Slot,
    request: TraceRequest,
    bytes: &mut [u8],
) -> Result<Option<i64>> {
    let mut result = None;
    let mode = task.mode();
    mode.asleep(task, &mut || {
        result = slot.ask(request, bytes);
        0
    })?;
    Ok(result)
}

/// The same; a tracee that is gone is ESRCH.
fn told(
    task: &mut Task,
    slot: &'static Slot,
    what: u32,
    argument: u64,
    length: usize,
    bytes: &mut [u8],
) -> Result<i64> {
    let request = TraceRequest {
        what,
        argument,
        length,
    };
    Ok(asked(task, slot, request, bytes)?.unwrap_or(ESRCH))
}

/// Writes a part of the outcome into the tracer's memory.
fn give(task: &mut Task, at: u64, bytes: &[u8]) -> Result<i64> {
    Ok(match answered(task.give(at, bytes))? {
        Ok(()) => 0,
        Err(e) => e,
    })
}
