//! The verdict on a call of a confined thread.

use relive_host::{GuestAddr, Reg};

use crate::call::{Call, go_behind};
use crate::failure::Result;
use crate::flow::Flow;
use crate::seccomp::bpf;
use crate::seccomp::filter::{
    ACTION, ALLOW, Confined, ERRNO, Filters, KILL_THREAD, LOG, MAX_ERRNO, NOTIFY, TRACE, TRAP,
    VALUE,
};
use crate::siginfo::{SigInfo, fault_info};
use crate::signals::deliver;
use crate::task::Task;

/// `AUDIT_ARCH_X86_64`
const ARCH: u32 = 0xc000_003e;
/// `si_code` of a SIGSYS from a filter.
const SYS_SECCOMP: i32 = 1;

/// The verdict on a call.
#[derive(Debug)]
pub enum Verdict {
    /// It is made.
    Allow,
    /// It fails.
    Errno(i32),
    /// It is not made; this comes instead.
    Flow(Flow),
}

enum Judgement {
    Allow,
    Errno(i32),
    /// SIGSYS with this.
    Trap(SigInfo),
    /// The end of the process, or of one thread of several.
    Kill {
        thread: bool,
    },
    /// The end of the thread, as if killed.
    Strict,
}

/// The verdict on the call at which a thread stands.
///
/// # Errors
/// Divergence.
pub fn before(task: &mut Task, call: &Call, next: GuestAddr) -> Result<Verdict> {
    let set = task.process.filters_set();
    if task.filters_seen != set {
        task.filters_seen = set;
        let filter = task.process.state().filter.clone();
        filter.into_iter().for_each(|f| take_over(task, f));
    }
    let judgement = match &task.seccomp {
        None => Judgement::Allow,
        Some(confined) => judge(task, confined, call, next),
    };
    Ok(match judgement {
        Judgement::Allow => Verdict::Allow,
        Judgement::Errno(errno) => Verdict::Errno(errno),
        Judgement::Trap(info) => {
            task.mode().order().permit_frame(task)?;
            go_behind(&mut task.ctx, next);
            Verdict::Flow(deliver::force(task, &info)?)
        }
        Judgement::Kill { thread } => Verdict::Flow(deliver::kill(task, libc::SIGSYS, thread)?),
        Judgement::Strict => Verdict::Flow(deliver::kill(task, libc::SIGKILL, true)?),
    })
}

/// The answer of the thread's filters to the call at which it stands.
fn judge(task: &Task, confined: &Confined, call: &Call, next: GuestAddr) -> Judgement {
    let filter = match confined {
        Confined::Strict => {
            return match call.row.is_some_and(|r| r.strict) {
                true => Judgement::Allow,
                false => Judgement::Strict,
            };
        }
        Confined::Filter(filter) => filter,
    };
    let mut data = [0; bpf::DATA];
    let nr = task.ctx.reg(Reg::Rax) as u32;
    data[..4].copy_from_slice(&nr.to_le_bytes());
    data[4..8].copy_from_slice(&ARCH.to_le_bytes());
    data[8..16].copy_from_slice(&next.0.to_le_bytes());
    for (slot, arg) in data[16..].chunks_exact_mut(8).zip(call.args) {
        slot.copy_from_slice(&arg.to_le_bytes());
    }
    let answer = filter.answer(&data);
    match answer & ACTION {
        ALLOW | LOG => Judgement::Allow,
        ERRNO => Judgement::Errno((answer & VALUE).min(MAX_ERRNO) as i32),
        TRAP => Judgement::Trap(trap_info(nr, next, answer & VALUE)),
        // The guest has no tracer, and the filter no listener.
        TRACE | NOTIFY => Judgement::Errno(libc::ENOSYS),
        KILL_THREAD => Judgement::Kill { thread: true },
        _ => Judgement::Kill { thread: false },
    }
}

/// `si_call_addr`, `si_syscall` and `si_arch` of seccomp(2).
fn trap_info(nr: u32, next: GuestAddr, value: u32) -> SigInfo {
    let mut info = fault_info(libc::SIGSYS, SYS_SECCOMP, next.0);
    info[4..8].copy_from_slice(&value.to_le_bytes());
    info[24..28].copy_from_slice(&nr.to_le_bytes());
    info[28..32].copy_from_slice(&ARCH.to_le_bytes());
    info
}

/// Takes over a filter that another thread has set for all threads, if this thread has no other
/// confinement (seccomp(2), `SECCOMP_FILTER_FLAG_TSYNC`).
fn take_over(task: &mut Task, new: Filters) {
    let fits = match &task.seccomp {
        None => true,
        Some(Confined::Strict) => false,
        Some(Confined::Filter(own)) => new.are_above(own),
    };
    if fits {
        task.seccomp = Some(Confined::Filter(new));
    }
}
