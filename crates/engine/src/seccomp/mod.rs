//! seccomp(2) for the guest: its filters are run here, before each of its calls, and never given
//! to the kernel, which would apply them to the host. The same in recording and replay: what a
//! filter says depends on the call alone.

mod bpf;
mod calls;

pub use calls::{Seccomp, SetMode, get_mode};

use std::sync::Arc;

use relive_host::{GuestAddr, Reg};
use serde::{Deserialize, Serialize};

use crate::failure::Result;
use crate::kernel::call::Call;
use crate::kernel::call::go_behind;
use crate::signals::deliver;
use crate::signals::info::{SigInfo, fault_info};
use crate::task::Task;
use crate::task::flow::Flow;

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// read, write, exit and rt_sigreturn only.
    Strict,
    /// What all filters allow.
    Filter(Filters),
}

/// A filter and those below it, the newest first. Written as a list, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<Program>", try_from = "Vec<Program>")]
pub struct Filters(Arc<Filter>);

#[derive(Debug, PartialEq, Eq)]
struct Filter {
    program: Program,
    older: Option<Filters>,
}

/// The program of one filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Program {
    /// The thread that has set it, as process and thread. Each filter of a thread has more below it
    /// than the one before, so this and their number name it in its process.
    setter: (u32, u32),
    insns: Vec<bpf::Insn>,
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

impl From<Filters> for Vec<Program> {
    fn from(filters: Filters) -> Self {
        let mut all: Self = filters.iter().map(|f| f.program.clone()).collect();
        all.reverse();
        all
    }
}

impl TryFrom<Vec<Program>> for Filters {
    type Error = &'static str;

    fn try_from(programs: Vec<Program>) -> std::result::Result<Self, Self::Error> {
        let above = |older, program| Some(Self::with(program, older));
        let newest = programs.into_iter().fold(None, above);
        newest.ok_or("filters without a program")
    }
}

impl Filters {
    fn with(program: Program, older: Option<Self>) -> Self {
        Self(Arc::new(Filter { program, older }))
    }

    fn iter(&self) -> impl Iterator<Item = &Filter> {
        std::iter::successors(Some(&*self.0), |f| Some(&*f.older.as_ref()?.0))
    }

    /// Whether `other` are these, or below them.
    fn are_above(&self, other: &Self) -> bool {
        let newer = self.iter().count().checked_sub(other.iter().count());
        let same_height = newer.and_then(|n| self.iter().nth(n));
        same_height.is_some_and(|f| f.program.setter == other.0.program.setter)
    }

    /// The answer with the strictest action, the newest filter's value winning among equals.
    fn answer(&self, data: &[u8; bpf::DATA]) -> u32 {
        // The kernel compares actions as signed numbers: killing the process is least.
        let action = |answer: u32| (answer & ACTION) as i32;
        self.iter()
            .map(|f| bpf::run(&f.program.insns, data))
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
            go_behind(&mut task.ctx, next);
            Verdict::Flow(deliver::force(task, &info)?)
        }
        Judgement::Kill { thread } => Verdict::Flow(deliver::kill(task, libc::SIGSYS, thread)?),
        Judgement::Strict => Verdict::Flow(deliver::kill(task, libc::SIGKILL, true)?),
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
