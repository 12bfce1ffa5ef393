//! seccomp(2) for the guest: its filters are run here, before each of its calls, and never given
//! to the kernel, which would apply them to the host. The same in recording and replay: what a
//! filter says depends on the call alone.

mod bpf;
mod calls;

pub use calls::{get_mode, seccomp, set_mode};

use std::sync::Arc;

use relive_host::{GuestAddr, Reg};

use crate::failure::Result;
use crate::kernel::{self, Call};
use crate::signals::{self, SigInfo, fault_info};
use crate::task::{Flow, Task};

/// `AUDIT_ARCH_X86_64`
const ARCH: u32 = 0xc000_003e;
/// `si_code` of a SIGSYS from a filter.
const SYS_SECCOMP: i32 = 1;

const KILL_PROCESS: u32 = 0x8000_0000;
const KILL_THREAD: u32 = 0;
const TRAP: u32 = 0x0003_0000;
const ERRNO: u32 = 0x0005_0000;
const NOTIFY: u32 = 0x7fc0_0000;
const TRACE: u32 = 0x7ff0_0000;
const LOG: u32 = 0x7ffc_0000;
const ALLOW: u32 = 0x7fff_0000;
const ACTION: u32 = 0xffff_0000;
const VALUE: u32 = 0xffff;
/// The kernel's most for an errno.
const MAX_ERRNO: u32 = 4095;

/// What a thread may call.
#[derive(Clone, Debug)]
pub enum Mode {
    /// read, write, exit and rt_sigreturn only.
    Strict,
    /// What all filters allow; the newest first.
    Filter(Arc<Filter>),
}

/// One filter and those below it.
#[derive(Debug)]
pub struct Filter {
    program: Vec<bpf::Insn>,
    older: Option<Arc<Filter>>,
}

/// What becomes of a call.
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

impl Mode {
    /// For the host of the next program: whether it is strict, and all programs, the oldest
    /// first.
    #[must_use]
    pub fn encode(&self) -> (bool, Vec<Vec<u8>>) {
        let Self::Filter(newest) = self else {
            return (true, Vec::new());
        };
        let bytes = |f: &Filter| f.program.iter().flat_map(|i| i.encode()).collect();
        let mut all: Vec<Vec<u8>> = newest.chain().map(bytes).collect();
        all.reverse();
        (false, all)
    }

    /// The opposite of [`Mode::encode`].
    #[must_use]
    pub fn decode((strict, programs): &(bool, Vec<Vec<u8>>)) -> Option<Self> {
        if *strict {
            return Some(Self::Strict);
        }
        let newest = programs.iter().fold(None, |older, bytes| {
            let insns = bytes.as_chunks::<{ bpf::INSN }>().0;
            let program = insns.iter().map(bpf::Insn::decode).collect();
            Some(Arc::new(Filter { program, older }))
        });
        newest.map(Self::Filter)
    }
}

impl Filter {
    fn chain(&self) -> impl Iterator<Item = &Filter> {
        std::iter::successors(Some(self), |f| f.older.as_deref())
    }

    /// Whether `other` is this one, or below it.
    fn is_above(&self, other: &Filter) -> bool {
        self.chain().any(|f| std::ptr::eq(f, other))
    }

    /// The answer with the strictest action, the newest filter's value winning among equals.
    fn answer(&self, data: &[u8; bpf::DATA]) -> u32 {
        // The kernel compares actions as signed numbers: killing the process is least.
        let action = |answer: u32| (answer & ACTION) as i32;
        self.chain()
            .map(|f| bpf::run(&f.program, data))
            .reduce(|best, next| {
                if action(next) < action(best) {
                    next
                } else {
                    best
                }
            })
            .unwrap_or(ALLOW)
    }
}

/// Looks at the call that a confined thread stands at.
///
/// # Errors
/// Divergence.
pub fn before(task: &mut Task, call: &Call, next: GuestAddr) -> Result<Verdict> {
    let set = task.process.filters_set();
    if task.filters_seen != set {
        task.filters_seen = set;
        let filter = task.process.state().filter.clone();
        filter.into_iter().for_each(|f| calls::take_over(task, f));
    }
    let judgement = match &task.seccomp {
        None => Judgement::Allow,
        Some(mode) => judge(task, mode, call, next),
    };
    Ok(match judgement {
        Judgement::Allow => Verdict::Allow,
        Judgement::Errno(errno) => Verdict::Errno(errno),
        Judgement::Trap(info) => {
            kernel::go_behind(task, next);
            Verdict::Flow(signals::force(task, &info)?)
        }
        Judgement::Kill { thread } => Verdict::Flow(signals::kill(task, libc::SIGSYS, thread)?),
        Judgement::Strict => Verdict::Flow(signals::kill(task, libc::SIGKILL, true)?),
    })
}

/// What the thread's filters say of the call that it stands at.
fn judge(task: &Task, mode: &Mode, call: &Call, next: GuestAddr) -> Judgement {
    let filter = match mode {
        Mode::Strict => {
            return match call.row.is_some_and(|r| r.strict) {
                true => Judgement::Allow,
                false => Judgement::Strict,
            };
        }
        Mode::Filter(filter) => filter,
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
        // Nobody traces, and nobody listens.
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
