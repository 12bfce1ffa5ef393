//! The handling of stops of translated code: the same for live runs and replay.

use relive_dbt::{InstrOp, Stop, TrapKind};
use relive_host::context::PLENTY;
use relive_host::{GuestAddr, Reg};

use crate::failure::{Failure, Result};
use crate::flow::Flow;
use crate::instr;
use crate::kernel::syscall;
use crate::siginfo::{SigInfo, fault_addr, fault_info, signo};
use crate::signals::deliver;
use crate::space::EXEC;
use crate::task::Task;
use crate::trap_flag::TrapFlag;

const SEGV_MAPERR: i32 = 1;
const BUS_ADRERR: i32 = 2;
const SEGV_ACCERR: i32 = 2;
const ILL_ILLOPN: i32 = 2;
const TRAP_TRACE: i32 = 2;
const SI_KERNEL: i32 = 128;
/// Processor exceptions.
const TRAP_DB: u64 = 1;
const TRAP_BP: u64 = 3;
const TRAP_OF: u64 = 4;
const TRAP_UD: u64 = 6;
const TRAP_GP: u64 = 13;
const TRAP_PF: u64 = 14;

/// The outcome of one instruction.
pub enum Stepped {
    /// It was executed, and the task goes on.
    Made,
    /// It stopped, and [`handle`] has handled the stop.
    Handled {
        /// It was an instruction that the engine executes: a reading of a clock, for one.
        instruction: bool,
        /// How the task goes on.
        flow: Flow,
    },
}

/// Runs a recording task for one instruction. The end of a slice, or a `pause`, makes no switch here.
///
/// # Errors
/// As [`handle`].
pub fn step(task: &mut Task) -> Result<Stepped> {
    // A thread that waits for its turn has called it during the step before. Whoever steps grants a slice behind the last one.
    if !task.ctx.has_budget() && std::mem::take(&mut task.ctx.wanted) != 0 {
        task.ctx.grant(PLENTY);
    }
    let before = task.ctx.ticks();
    match task.go(true)? {
        Stop::Stepped { .. } if task.ctx.ticks() == before => task.steps += 1,
        Stop::Stepped { .. } | Stop::Budget { .. } | Stop::Pause { .. } => task.at_event(),
        stop => {
            let instruction = matches!(stop, Stop::Instr { .. });
            let flow = handle(task, stop)?;
            return Ok(Stepped::Handled { instruction, flow });
        }
    }
    Ok(Stepped::Made)
}

/// Handles a stop that is no matter of scheduling.
///
/// # Errors
/// Divergence, an unsupported operation, or a fault of the translator.
pub fn handle(task: &mut Task, stop: Stop) -> Result<Flow> {
    match stop {
        Stop::Syscall { next, .. } => syscall::syscall(task, next),
        Stop::Instr { op, next, .. } => {
            let flow = instr::execute(task, op, next)?;
            if task.trap_flag == TrapFlag::On
                && !matches!(op, InstrOp::Popf { .. })
                && task.ctx.rip == next.0
            {
                task.trap_flag = TrapFlag::Due;
            }
            Ok(flow)
        }
        Stop::NoCode { pc, addr } if pc == addr && vsyscall(addr).is_some() => {
            legacy_call(task, vsyscall(addr).unwrap_or(0))
        }
        Stop::Fault { .. } | Stop::Trap { .. } | Stop::NoCode { .. } | Stop::BadTarget { .. } => {
            // Here, while it stands in front of the instruction.
            if matches!(stop, Stop::Trap { .. }) && deliver::makes_again(task)? {
                return Ok(Flow::Continue);
            }
            let exception = Exception::of(task, &stop)
                .ok_or_else(|| Failure::internal("an exception without a signal"))?;
            if let Some(next) = exception.next {
                task.ctx.rip = next.0;
            }
            deliver::fault(task, &exception.info, exception.trap)
        }
        Stop::CacheFull { .. } => {
            let _quiet = task.quiesce(false)?;
            task.machine()
                .memory()
                .translator
                .reclaim()
                .map_err(Failure::setup)?;
            task.inexact();
            Ok(Flow::Continue)
        }
        Stop::Unsupported { pc, what } => Err(Failure::unsupported(format!(
            "{what} at {pc} in thread {}",
            task.id()
        ))),
        Stop::Refused(error) => Err(Failure::setup(error)),
        Stop::Internal(what) => Err(Failure::internal(what)),
        Stop::Permission { .. } => {
            task.inexact();
            task.mode().order().permit(task)
        }
        Stop::Breakpoint { pc } | Stop::Watch { pc } | Stop::Ordered { pc } => {
            Err(Failure::internal(format!("an unexpected stop at {pc}")))
        }
        Stop::Budget { .. } | Stop::Pause { .. } | Stop::Stepped { .. } => {
            task.at_event();
            Ok(Flow::Continue)
        }
    }
}

/// The system call that an entry of the vsyscall page stands for (vsyscall(2), vdso(7)).
fn vsyscall(addr: GuestAddr) -> Option<u64> {
    Some(match addr.0 {
        0xffff_ffff_ff60_0000 => libc::SYS_gettimeofday as u64,
        0xffff_ffff_ff60_0400 => libc::SYS_time as u64,
        0xffff_ffff_ff60_0800 => libc::SYS_getcpu as u64,
        _ => return None,
    })
}

/// A call of the vsyscall page, which the kernel emulates too: a system call that returns to
/// the caller, and changes no other register.
fn legacy_call(task: &mut Task, nr: u64) -> Result<Flow> {
    let sp = task.ctx.reg(Reg::Rsp);
    let Ok(back) = task.read_u64(sp) else {
        return deliver::fault(
            task,
            &fault_info(libc::SIGSEGV, SEGV_MAPERR, sp),
            (TRAP_PF, 4),
        );
    };
    let (rcx, r11) = (task.ctx.reg(Reg::Rcx), task.ctx.reg(Reg::R11));
    task.ctx.set_reg(Reg::Rax, nr);
    let flow = syscall::syscall(task, GuestAddr(back))?;
    if matches!(flow, Flow::Continue) {
        task.ctx.set_reg(Reg::Rsp, sp + 8);
        task.ctx.set_reg(Reg::Rcx, rcx);
        task.ctx.set_reg(Reg::R11, r11);
    }
    Ok(flow)
}

/// An exception of the processor, as the guest sees it.
pub struct Exception {
    /// The signal's `siginfo_t`.
    pub info: SigInfo,
    /// Number and error code.
    trap: (u64, u64),
    /// Where the thread stands then, if not in front of the instruction.
    next: Option<GuestAddr>,
}

impl Exception {
    /// That of a stop, if it is for one. The task stands in front of the instruction.
    pub fn of(task: &Task, stop: &Stop) -> Option<Self> {
        let before = |info, trap| Self {
            info,
            trap,
            next: None,
        };
        let general = || fault_info(libc::SIGSEGV, SI_KERNEL, 0);
        Some(match *stop {
            Stop::Fault { pc } => fault(task, pc),
            Stop::Trap { pc, next, kind } => match kind {
                TrapKind::Int3 => Self {
                    next: Some(next),
                    ..before(fault_info(libc::SIGTRAP, SI_KERNEL, 0), (TRAP_BP, 0))
                },
                TrapKind::Int1 => Self {
                    next: Some(next),
                    ..before(fault_info(libc::SIGTRAP, 1, next.0), (TRAP_DB, 0))
                },
                TrapKind::Step => {
                    let info = fault_info(libc::SIGTRAP, TRAP_TRACE, next.0);
                    before(info, (TRAP_DB, 0))
                }
                TrapKind::Overflow => Self {
                    next: Some(next),
                    ..before(general(), (TRAP_OF, 0))
                },
                TrapKind::Gate => before(general(), (TRAP_GP, 0x80 << 3 | 2)),
                TrapKind::Undefined => {
                    let info = fault_info(libc::SIGILL, ILL_ILLOPN, pc.0);
                    before(info, (TRAP_UD, 0))
                }
            },
            Stop::NoCode { addr, .. } => {
                let (sig, code) = match task.machine().memory().space.at(addr.0) {
                    // There, and not to be had: behind the end of its file.
                    Some(region) if region.prot & EXEC != 0 => (libc::SIGBUS, BUS_ADRERR),
                    Some(_) => (libc::SIGSEGV, SEGV_ACCERR),
                    None => (libc::SIGSEGV, SEGV_MAPERR),
                };
                // Error code: instruction fetch from user mode.
                before(fault_info(sig, code, addr.0), (TRAP_PF, 0x14))
            }
            Stop::BadTarget { .. } => before(general(), (TRAP_GP, 0)),
            _ => return None,
        })
    }
}

fn fault(task: &Task, pc: GuestAddr) -> Exception {
    let mut info = task.ctx.fault.siginfo;
    let sig = signo(&info);
    if matches!(sig, libc::SIGILL | libc::SIGFPE | libc::SIGTRAP) {
        info[16..24].copy_from_slice(&pc.0.to_le_bytes());
    }
    let mut trap = (task.ctx.fault.trapno, task.ctx.fault.err);
    if sig == libc::SIGSEGV && trap.0 == TRAP_PF {
        settle_page_fault(task, &mut info, &mut trap.1);
    }
    Exception {
        info,
        trap,
        next: None,
    }
}

/// Corrects the code and error code of a guest's page fault by the guest's map. To the kernel the whole
/// window is an inaccessible map; and whether a page is present at this moment depends on earlier
/// accesses, which differ in a replay.
fn settle_page_fault(task: &Task, info: &mut SigInfo, err: &mut u64) {
    /// Bit of the error code: the page was present.
    const PRESENT: u64 = 1;
    let addr = fault_addr(info);
    // The kernel says of its own half that all of it is present.
    if addr < relive_host::layout::FS_END {
        *err &= !PRESENT;
    }
    // Elsewhere a guest has nothing, and the pages that the host has there come and go.
    if !relive_host::layout::guest_may_map_range(addr, addr.saturating_add(1)) {
        return;
    }
    match task.machine().memory().space.at(addr) {
        None => info[8..12].copy_from_slice(&SEGV_MAPERR.to_le_bytes()),
        Some(region) if region.prot != 0 => *err |= PRESENT,
        Some(_) => {}
    }
}
