//! Non-deterministic instructions: their values come from the processor while recording and
//! from the tape in replay.

use std::arch::x86_64::{__rdtscp, _rdtsc};

use relive_dbt::InstrOp;
use relive_host::reading::{self, CLOCKS};
use relive_host::{GuestAddr, Reg, cpu};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::cpuid;
use crate::failure::Result;
use crate::flow::Flow;
use crate::mode::Reading;
use crate::siginfo::fault_info;
use crate::signals::deliver;
use crate::task::Task;
use crate::trap_flag::TrapFlag;

/// The values of an instruction on this processor, as `InstrOp::apply` takes them.
#[must_use]
pub fn values(task: &Task, op: &InstrOp) -> [u64; 4] {
    match op {
        // SAFETY: reading the time stamp counter is always allowed here.
        InstrOp::Rdtsc => [unsafe { _rdtsc() }, 0, 0, 0],
        InstrOp::Rdtscp => {
            let mut aux = 0;
            // SAFETY: as above; the guest found the instruction usable through cpuid.
            let tsc = unsafe { __rdtscp(&raw mut aux) };
            [tsc, u64::from(aux), 0, 0]
        }
        InstrOp::Cpuid => cpuid(task.ctx.reg(Reg::Rax) as u32, task.ctx.reg(Reg::Rcx) as u32),
        InstrOp::Rdrand { .. } | InstrOp::Rdseed { .. } => {
            let mut b = [0u8; 8];
            let n = getrandom(&mut b, GetRandomFlags::empty());
            [u64::from_le_bytes(b), u64::from(n == Ok(8)), 0, 0]
        }
        InstrOp::Rdpid { .. } | InstrOp::Lsl { .. } => {
            [u64::from(cpuid::this_processor()), 0, 0, 0]
        }
        InstrOp::Xgetbv => [cpu::xcr0(), 0, 0, 0],
        InstrOp::Clock => clock(task.ctx.reg(Reg::Rdi) as u32),
        InstrOp::Cpu => {
            let aux = cpuid::this_processor();
            [u64::from(aux & 0xfff), u64::from(aux >> 12), 0, 0]
        }
        InstrOp::Popf { .. } => [task.read_u64(task.ctx.reg(Reg::Rsp)).unwrap_or(0), 0, 0, 0],
        InstrOp::WrFsBase { .. }
        | InstrOp::WrGsBase { .. }
        | InstrOp::RdGsBase { .. }
        | InstrOp::LoadBase { .. } => [0; 4],
    }
}

fn clock(clock: u32) -> [u64; 4] {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the structure.
    let failed = unsafe { libc::clock_gettime(clock as libc::clockid_t, &raw mut time) };
    assert_eq!(failed, 0, "clock {clock} can be read");
    [time.tv_sec as u64, time.tv_nsec as u64, 0, 0]
}

/// cpuid without the features that the guest must not use: transactional memory, protection keys, waits
/// of user code, FS/GS base instructions, shadow stacks, and state that Relive does not save.
fn cpuid(leaf: u32, sub: u32) -> [u64; 4] {
    let mut v = cpuid::ask(leaf, sub);
    match (leaf, sub) {
        // 7.0: ebx FSGSBASE, SGX, HLE, RTM, (MPX); ecx PKU, OSPKE, WAITPKG, shadow stacks, PKS; edx RTM abort, IBT, AMX, user interrupts
        (7, 0) => {
            v[1] &= !(1 | 1 << 2 | 1 << 4 | 1 << 11 | 1 << 14);
            v[2] &= !(1 << 3 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 31);
            v[3] &= !(1 << 5 | 1 << 11 | 1 << 13 | 1 << 16 | 1 << 20 | 1 << 22 | 1 << 24 | 1 << 25);
        }
        (7, 1) => v[0] &= !(1 << 21),
        // 0xd.0: only the components that a guest thread has; sizes for those
        (0xd, 0) => {
            v[0] &= cpu::XSAVE_MASK as u32;
            v[1] = cpu::xsave_size() as u32;
            v[2] = v[1];
            v[3] = 0;
        }
        // 0xd.1: no supervisor state
        (0xd, 1) => {
            v[0] &= 7;
            v[2] = 0;
            v[3] = 0;
        }
        (0xd, n) if n >= 8 => v = [0; 4],
        // monitorx, rdpru
        (0x8000_0001, _) => v[2] &= !(1 << 29),
        (0x8000_0008, _) => v[1] &= !(1 << 4),
        _ => {}
    }
    v.map(u64::from)
}

/// The number of an instruction on the tape, and of its values. Without values there is no event: its
/// outcome depends on registers and memory alone, or it is a reading.
fn row(op: &InstrOp) -> (u8, u8) {
    match op {
        InstrOp::Rdtsc => (1, 1),
        InstrOp::Rdtscp => (2, 2),
        InstrOp::Cpuid => (3, 4),
        InstrOp::Rdrand { .. } => (4, 2),
        InstrOp::Rdseed { .. } => (5, 2),
        // The same number, of the processor and its node.
        InstrOp::Rdpid { .. } | InstrOp::Lsl { .. } => (6, 1),
        InstrOp::Xgetbv => (7, 1),
        InstrOp::WrFsBase { .. }
        | InstrOp::WrGsBase { .. }
        | InstrOp::RdGsBase { .. }
        | InstrOp::LoadBase { .. }
        | InstrOp::Popf { .. }
        | InstrOp::Clock
        | InstrOp::Cpu => (0, 0),
    }
}

/// Whether an instruction reads a clock, which translated code mostly does without a stop.
#[must_use]
pub fn is_reading(op: &InstrOp) -> bool {
    matches!(
        op,
        InstrOp::Rdtsc | InstrOp::Rdtscp | InstrOp::Clock | InstrOp::Cpu
    )
}

/// Whether the tape may have an event for an instruction.
#[must_use]
pub fn logged(op: &InstrOp) -> bool {
    row(op).1 != 0 || is_reading(op)
}

/// The name of an instruction's number on the tape.
#[must_use]
pub fn name(number: u8) -> &'static str {
    [
        "?", "rdtsc", "rdtscp", "cpuid", "rdrand", "rdseed", "rdpid", "xgetbv",
    ]
    .get(usize::from(number))
    .copied()
    .unwrap_or("?")
}

/// Executes `op` for the task.
///
/// # Errors
/// Divergence.
pub fn execute(task: &mut Task, op: InstrOp, next: GuestAddr) -> Result<Flow> {
    if task.forbidden.has(&op) {
        return general_protection(task, 0);
    }
    if matches!(op, InstrOp::Popf { .. }) {
        return pop_flags(task, op, next);
    }
    let (number, n) = row(&op);
    let mode = task.mode();
    if is_reading(&op) && !(number != 0 && mode.reads_by_event(task, number)?) {
        return read(task, op, next);
    }
    let v = match n {
        0 => [0; 4],
        _ => mode.instruction(task, number, n, &mut |task| values(task, &op))?,
    };
    if n == 0 {
        task.inexact();
    }
    match op.apply(&mut task.ctx, next, v) {
        Ok(()) => Ok(Flow::Continue),
        Err(_) => {
            // The selector that was to be loaded.
            let selector = match op {
                InstrOp::LoadBase { reg, .. } => task.ctx.gpr[usize::from(reg)] as u16 & !3,
                _ => 0,
            };
            general_protection(task, selector.into())
        }
    }
}

/// `popf` of a value with the trap flag. The instruction itself traps only if the flag was set before.
fn pop_flags(task: &mut Task, op: InstrOp, next: GuestAddr) -> Result<Flow> {
    let sp = task.ctx.reg(Reg::Rsp);
    let Ok(low) = task.read::<2>(sp) else {
        return general_protection(task, 0);
    };
    let whole = task.read_u64(sp);
    let flags = whole.unwrap_or_else(|_| u16::from_le_bytes(low).into());
    let stepped = task.trap_flag == TrapFlag::On;
    task.inexact();
    match op.apply(&mut task.ctx, next, [flags, 0, 0, 0]) {
        Ok(()) => {
            task.trap_flag = match TrapFlag::of(flags) {
                TrapFlag::On if stepped => TrapFlag::Due,
                flag => flag,
            };
            Ok(Flow::Continue)
        }
        Err(_) => general_protection(task, 0),
    }
}

fn general_protection(task: &mut Task, code: u64) -> Result<Flow> {
    let info = fault_info(libc::SIGSEGV, 128, 0);
    deliver::fault(task, &info, (13, code))
}

/// A reading of a clock that translated code has left to the engine: there was no buffer yet, or it is
/// full, or used up.
fn read(task: &mut Task, op: InstrOp, next: GuestAddr) -> Result<Flow> {
    let clock = task.ctx.reg(Reg::Rdi) as u32;
    let source = match op {
        InstrOp::Rdtsc => reading::TSC as u32,
        InstrOp::Rdtscp => reading::TSCP as u32,
        InstrOp::Cpu => reading::CPU as u32,
        _ => CLOCKS.wrapping_add(clock),
    };
    let mut values = [task.ctx.reg(Reg::Rax), u64::MAX, 0, 0];
    let mut event = false;
    if op != InstrOp::Clock || reading::is_readable(clock) {
        match task
            .mode()
            .reading(task, source, &mut |task| self::values(task, &op))?
        {
            Reading::Values([value, extra], logged) => {
                event = logged;
                values = [value, extra, 0, 0];
            }
            Reading::Over => return Ok(Flow::Park),
        }
    }
    if !event {
        task.inexact();
    }
    match op.apply(&mut task.ctx, next, values) {
        Ok(()) => Ok(Flow::Continue),
        Err(e) => Err(crate::failure::Failure::internal(e)),
    }
}
