//! The guest's signal frame, as the kernel builds it: `struct rt_sigframe` of
//! arch/x86/include/asm/sigframe.h, with the extended state behind it.

use relive_host::context::XsaveArea;
use relive_host::signal::{KernelAction, Mask};
use relive_host::{Reg, cpu};

use super::{AltStack, SS_AUTODISARM, SigInfo, signo};
use crate::task::Task;
use crate::trap_flag::TrapFlag;

/// pretcode, ucontext (304 bytes), siginfo.
const FRAME: u64 = 8 + UCONTEXT + 128;
const UCONTEXT: u64 = 304;
const RED_ZONE: u64 = 128;
const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
/// Offset in the legacy area of the bytes that the kernel reserves for software.
const SW_RESERVED: usize = 464;
/// UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS
const UC_FLAGS: u64 = 7;
const CS: u64 = 0x33;
const SS: u64 = 0x2b;
/// Flags a program may set by returning from a handler: the arithmetic ones, DF, AC.
const USER_FLAGS: u64 = 0x4_0cd5;

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

/// What the handler learns about a fault besides the siginfo.
#[derive(Clone, Copy, Default, Debug)]
pub struct Trap {
    /// Processor exception number.
    pub trapno: u64,
    /// Its error code.
    pub err: u64,
    /// Faulting address of a page fault.
    pub cr2: u64,
}

/// Builds the frame for `info` and points the task at its handler.
///
/// # Errors
/// The frame does not fit into writable memory.
pub fn push(
    task: &mut Task,
    action: &KernelAction,
    info: &SigInfo,
    back: Mask,
    trap: Trap,
) -> Result<(), i64> {
    let size = cpu::xsave_size();
    let mut sp = task.ctx.reg(Reg::Rsp) - RED_ZONE;
    let alt = task.signals.altstack;
    if action.flags & libc::SA_ONSTACK as u64 != 0
        && alt.size != 0
        && !alt.holds(task.ctx.reg(Reg::Rsp))
    {
        sp = alt.sp + alt.size;
    }
    let fp = (sp - (size as u64 + 4)) & !63;
    let frame = ((fp - FRAME) & !15) - 8;
    let on_alt = alt.holds(task.ctx.reg(Reg::Rsp)) || sp == alt.sp + alt.size;
    if alt.size != 0 && on_alt && frame < alt.sp {
        return Err(-i64::from(libc::EFAULT));
    }
    task.write(fp, &xstate(&task.ctx.vectors(), size))?;
    let mut bytes = Vec::with_capacity(FRAME as usize);
    let mut put = |v: u64| bytes.extend_from_slice(&v.to_le_bytes());
    put(action.restorer);
    put(UC_FLAGS);
    put(0);
    put(alt.sp);
    put(u64::from(
        altstack_flags(&alt, task.ctx.reg(Reg::Rsp)) as u32
    ));
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
        task.signals.altstack = AltStack {
            flags: libc::SS_DISABLE,
            ..AltStack::default()
        };
    }
    Ok(())
}

/// The flags of sigaltstack(2) as the guest sees them.
#[must_use]
pub fn altstack_flags(alt: &AltStack, sp: u64) -> i32 {
    if alt.size == 0 {
        alt.flags | libc::SS_DISABLE
    } else if alt.holds(sp) {
        alt.flags | libc::SS_ONSTACK
    } else {
        alt.flags
    }
}

/// The extended state with the kernel's software bytes; parts in their initial state zeroed,
/// because what a processor leaves there differs from run to run.
fn xstate(area: &XsaveArea, size: usize) -> Vec<u8> {
    let mut out = area.0[..size].to_vec();
    let bv = area.xstate_bv();
    for (component, from, to) in components(size) {
        if bv >> component & 1 == 0 {
            out[from..to].fill(0);
        }
    }
    if bv & 1 == 0 {
        out[0..24].fill(0);
        out[0..2].copy_from_slice(&0x37f_u16.to_le_bytes());
        out[32..160].fill(0);
    }
    let sw = &mut out[SW_RESERVED..512];
    sw.fill(0);
    sw[0..4].copy_from_slice(&MAGIC1.to_le_bytes());
    sw[4..8].copy_from_slice(&(size as u32 + 4).to_le_bytes());
    sw[8..16].copy_from_slice(&cpu::xcr0().to_le_bytes());
    sw[16..20].copy_from_slice(&(size as u32).to_le_bytes());
    // The kernel shows x87 and SSE as in use always.
    let bv = (bv | 3).to_le_bytes();
    out[512..520].copy_from_slice(&bv);
    out.extend_from_slice(&MAGIC2.to_le_bytes());
    out
}

/// Component number and byte range of everything behind x87.
fn components(size: usize) -> impl Iterator<Item = (u32, usize, usize)> {
    let layout = cpu::xsave_layout();
    let extended = (2..8u32)
        .map(|i| (i, layout.ranges[i as usize].0, layout.ranges[i as usize].1))
        .filter(|&(_, _, to)| to != 0);
    std::iter::once((1, 160, 416))
        .chain(extended)
        .filter(move |&(_, _, to)| to <= size)
}

/// Restores what `push` saved (rt_sigreturn(2)); returns the mask to set.
///
/// # Errors
/// The frame is not readable.
pub fn pop(task: &mut Task) -> Result<Mask, i64> {
    let uc = task.ctx.reg(Reg::Rsp);
    let word = |i: u64| task.read_u64(uc + i);
    let mut gpr = [0; 16];
    for (i, slot) in gpr.iter_mut().enumerate() {
        *slot = word(40 + 8 * i as u64)?;
    }
    let (rip, flags) = (word(168)?, word(176)?);
    if word(184)? & 0xffff | 3 != CS {
        // Such a segment is not for this code, and the way back faults.
        return Err(-i64::from(libc::EFAULT));
    }
    let (fp, mask) = (word(224)?, word(296)?);
    let alt = AltStack {
        sp: word(16)?,
        flags: word(24)? as i32 & !libc::SS_ONSTACK,
        size: word(32)?,
    };
    restore_xstate(task, fp)?;
    for (reg, value) in SIGCONTEXT.into_iter().zip(gpr) {
        task.ctx.set_reg(reg, value);
    }
    task.ctx.rip = rip;
    task.ctx.rflags = (task.ctx.rflags & !USER_FLAGS) | (flags & USER_FLAGS) | 0x202;
    task.trap_flag = TrapFlag::of(flags);
    if !task.signals.altstack.holds(task.ctx.reg(Reg::Rsp)) {
        let off = alt.flags & libc::SS_DISABLE != 0;
        task.signals.altstack = if off { AltStack::default() } else { alt };
    }
    Ok(Mask(
        mask & !(1 << (libc::SIGKILL - 1)) & !(1 << (libc::SIGSTOP - 1)),
    ))
}

fn restore_xstate(task: &mut Task, fp: u64) -> Result<(), i64> {
    if fp == 0 {
        task.ctx.vectors_mut().reset();
        return Ok(());
    }
    let size = cpu::xsave_size();
    let legacy: [u8; 512] = task.read(fp)?;
    let sw = &legacy[SW_RESERVED..];
    let word = |at: usize| u32::from_le_bytes([sw[at], sw[at + 1], sw[at + 2], sw[at + 3]]);
    task.ctx.vectors_mut().reset();
    if word(0) == MAGIC1 && word(16) as usize == size {
        let mut all = vec![0u8; size];
        relive_host::copy::read(relive_host::GuestAddr(fp), &mut all)
            .map_err(|_| -i64::from(libc::EFAULT))?;
        let bv = u64::from_le_bytes(all[512..520].try_into().unwrap_or_default()) & cpu::xcr0();
        all[520..576].fill(0);
        task.ctx.vectors_mut().0[..size].copy_from_slice(&all);
        task.ctx.vectors_mut().set_xstate_bv(bv);
    } else {
        task.ctx.vectors_mut().0[..512].copy_from_slice(&legacy);
        task.ctx.vectors_mut().set_xstate_bv(3);
    }
    task.ctx.vectors_mut().drop_reserved_mxcsr();
    Ok(())
}
