//! The guest's signal frame, as the kernel builds it: `struct rt_sigframe` of
//! arch/x86/include/asm/sigframe.h, with the extended state (`xstate`) behind it. Must never build a
//! frame, or return from one, where the kernel refuses to.

use relive_host::signal::{KernelAction, Mask};
use relive_host::{GuestAddr, Reg, cpu};

use super::xstate;
use crate::failure::CallResult;
use crate::siginfo::{SigInfo, signo};
use crate::task::Task;
use crate::task::signal_state::{AltStack, SS_AUTODISARM};
use crate::trap_flag::TrapFlag;

/// pretcode, ucontext (304 bytes), siginfo.
const FRAME: u64 = 8 + UCONTEXT + 128;
const UCONTEXT: u64 = 304;
const RED_ZONE: u64 = 128;
const EFAULT: i64 = -(libc::EFAULT as i64);
const SA_RESTORER: u64 = 0x0400_0000;
/// UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS
const UC_FLAGS: u64 = 7;
const CS: u64 = 0x33;
const SS: u64 = 0x2b;
/// The flags that a program may set by returning from a handler: the arithmetic ones, DF, AC.
const USER_FLAGS: u64 = 0x4_0cd5;

/// Bytes of `struct sigcontext` without the reserved words at its end.
const SIGCONTEXT_BYTES: usize = 192;

/// Order of the general registers in `struct sigcontext`.
const SIGCONTEXT: [Reg; 16] = [
    Reg::R8,
    Reg::R9,
    Reg::R10,
    Reg::R11,
    Reg::R12,
    Reg::R13,
    Reg::R14,
    Reg::R15,
    Reg::Rdi,
    Reg::Rsi,
    Reg::Rbp,
    Reg::Rbx,
    Reg::Rdx,
    Reg::Rax,
    Reg::Rcx,
    Reg::Rsp,
];

/// Builds the frame for `info` and points the task at its handler.
///
/// # Errors
/// The frame does not fit into writable memory.
pub fn push(task: &mut Task, action: &KernelAction, info: &SigInfo, back: Mask) -> CallResult<()> {
    let (alt, trap) = (task.signals.altstack, task.signals.trap);
    let (frame, fp) = place(task, action).ok_or(EFAULT)?;
    // The kernel's writes make a stack grow as well.
    for at in [fp, frame] {
        task.machine().memory().grow(at)?;
    }
    task.write(fp, &xstate::saved(&task.ctx.vectors()))?;
    let mut bytes = Vec::with_capacity(FRAME as usize);
    let mut put = |v: u64| bytes.extend_from_slice(&v.to_le_bytes());
    put(action.restorer);
    put(UC_FLAGS);
    put(0);
    put(alt.sp);
    // As it was set, not as sigaltstack(2) tells it: whether the thread is on it shows in its pointer.
    put(u64::from(alt.flags as u32));
    put(alt.size);
    for reg in SIGCONTEXT {
        put(task.ctx.reg(reg));
    }
    put(task.ctx.rip);
    put(task.ctx.rflags | task.trap_flag.bit());
    put(CS | SS << 48);
    put(trap.err);
    put(trap.trapno);
    put(back.0);
    put(trap.cr2);
    put(fp);
    (0..8).for_each(|_| put(0));
    put(back.0);
    bytes.extend_from_slice(info);
    assert_eq!(bytes.len() as u64, FRAME, "the frame has the kernel's size");
    task.write(frame, &bytes)?;
    let ctx = &mut task.ctx;
    ctx.set_reg(Reg::Rdi, signo(info) as u64);
    ctx.set_reg(Reg::Rsi, frame + 8 + UCONTEXT);
    ctx.set_reg(Reg::Rdx, frame + 8);
    ctx.set_reg(Reg::Rax, 0);
    ctx.set_reg(Reg::Rsp, frame);
    ctx.rip = action.handler;
    ctx.rflags &= !(0x400 | 0x1_0000);
    task.trap_flag = TrapFlag::Off;
    if alt.flags & SS_AUTODISARM != 0 {
        task.signals.altstack = AltStack::RESET;
    }
    Ok(())
}

/// The addresses of the frame and of the extended state; `None` where the kernel builds no frame:
/// without a restorer, or on an alternate stack that has no room.
fn place(task: &Task, action: &KernelAction) -> Option<(u64, u64)> {
    let (alt, here) = (task.signals.altstack, task.ctx.reg(Reg::Rsp));
    if action.flags & SA_RESTORER == 0 {
        return None;
    }
    let mut sp = here.wrapping_sub(RED_ZONE);
    let wanted = action.flags & libc::SA_ONSTACK as u64 != 0 && alt.size != 0;
    let enters = wanted && !alt.holds(sp);
    if enters {
        sp = alt.sp.wrapping_add(alt.size);
    }
    let size = cpu::xsave_size() as u64 + xstate::END;
    let fp = sp.wrapping_sub(size) & !63;
    let frame = (fp.wrapping_sub(FRAME) & !15).wrapping_sub(8);
    let overflows = (enters || alt.holds(here)) && !alt.reaches(frame);
    (!overflows).then_some((frame, fp))
}

/// The flags of sigaltstack(2) as the guest sees them.
#[must_use]
pub fn altstack_flags(alt: &AltStack, sp: u64) -> i32 {
    let mode = if alt.size == 0 {
        libc::SS_DISABLE
    } else if alt.holds(sp) {
        libc::SS_ONSTACK
    } else {
        0
    };
    mode | alt.flags & SS_AUTODISARM
}

/// A frame that cannot be returned from.
pub struct Bad {
    /// The mask that it sets all the same.
    pub mask: Option<Mask>,
    /// The error code, where the processor refuses it.
    pub refused: Option<u64>,
}

/// Restores the state that `push` saved (rt_sigreturn(2)); returns the mask to set.
///
/// # Errors
/// The frame, or a part of it, is bad. As in the kernel, the parts before that are restored.
pub fn pop(task: &mut Task) -> Result<Mask, Bad> {
    let uc = task.ctx.reg(Reg::Rsp);
    // Registers that a bad frame does not set are those behind the call, with a result of 0.
    let next = GuestAddr(task.ctx.rip + 2);
    crate::call::go_behind(&mut task.ctx, next);
    task.ctx.set_reg(Reg::Rax, 0);
    let bad = |mask, refused| Bad { mask, refused };
    let mask = mask(task, uc).map_err(|_| bad(None, None))?;
    match restore(task, uc) {
        Ok(segments) => match refusal(segments, task.ctx.rip) {
            None => Ok(mask),
            code => Err(bad(Some(mask), code)),
        },
        Err(_) => {
            task.ctx.set_reg(Reg::Rax, 0);
            Err(bad(Some(mask), None))
        }
    }
}

/// The error code with which the processor refuses these segments and this pc, so that the kernel's
/// own return to the program faults.
fn refusal(segments: u64, rip: u64) -> Option<u64> {
    let canonical = (rip as i64) << 16 >> 16 == rip as i64;
    let selectors = [(segments & 0xffff, CS), (segments >> 48, SS)];
    let wrong = selectors.iter().find(|(there, good)| there | 3 != *good);
    match wrong {
        Some((there, _)) => Some(there & 0xfffc),
        None => (!canonical).then_some(0),
    }
}

/// The mask in a frame.
fn mask(task: &Task, uc: u64) -> Result<Mask, i64> {
    // The word before has been popped: its address must be valid, but it need not be mapped.
    uc.checked_sub(8).ok_or(EFAULT)?;
    task.read::<8>(uc)?;
    let mask = task.read_u64(uc.wrapping_add(296))?;
    Ok(Mask(
        mask & !(1 << (libc::SIGKILL - 1)) & !(1 << (libc::SIGSTOP - 1)),
    ))
}

/// Restores registers and stack; returns the segments.
fn restore(task: &mut Task, uc: u64) -> Result<u64, i64> {
    let context: [u8; SIGCONTEXT_BYTES] = task.read(uc.wrapping_add(40))?;
    let word = |i: usize| {
        let at = i - 40;
        u64::from_le_bytes(context[at..at + 8].try_into().unwrap_or_default())
    };
    for (i, reg) in SIGCONTEXT.into_iter().enumerate() {
        task.ctx.set_reg(reg, word(40 + 8 * i));
    }
    let flags = word(176);
    task.ctx.rip = word(168);
    task.ctx.rflags = (task.ctx.rflags & !USER_FLAGS) | (flags & USER_FLAGS) | 0x202;
    task.trap_flag = TrapFlag::of(flags);
    xstate::restore(task, word(224))?;
    let stack = task.read::<24>(uc.wrapping_add(16))?;
    // As in the kernel, an invalid alternate stack is no error here.
    let _ = task.signals.set_altstack(&stack, task.ctx.reg(Reg::Rsp));
    Ok(word(184))
}
