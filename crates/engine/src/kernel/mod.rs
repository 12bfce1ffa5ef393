//! System calls: from the guest's `syscall` instruction to its result, live and in replay.
//!
//! The table (`relive_kabi`) describes every call; most need nothing else. Calls that change
//! what the engine itself keeps (memory map, tasks, signals…) have a hook ([`operation`]).
//! Nothing without a row is ever passed to the kernel.

mod advice;
mod buffers;
mod call;
pub mod changed_files;
pub mod clone;
pub mod exec;
mod fds;
mod files;
mod futex;
pub mod hooks;
mod kill;
pub mod leads;
mod limits;
mod live;
mod locks;
mod mapped;
mod memory;
mod misc;
mod moved;
mod namespaces;
pub mod operation;
pub mod output;
pub mod own;
mod own_memory;
mod plain;
mod prctl;
mod robust;
mod segments;
pub mod shown;
pub mod tasks;
mod users;

pub use call::{Answer, Call, Log, Reply, go_behind};
pub use fds::{share as share_descriptors, status};
pub use live::{ERESTART, apply_mask, blocking, enter_kernel, generic, interrupted};
pub use mapped::{identity_at, is_generated, keep};
pub use own_memory::owner;

use relive_host::{GuestAddr, Reg};
use relive_kabi::Restart;
use relive_trace::{Args, Kind, Refs, Syscall, Writes};

use crate::failure::{Failure, Result};
use crate::input::{Split, Way};
use crate::mode::Begun;
use crate::seccomp::Verdict;
use crate::signals::Interrupted;
use crate::task::{Flow, Task};

/// Handles the system call at `task.ctx.rip`; `next` is the instruction behind it.
///
/// # Errors
/// Divergence, or something unsupported.
pub fn syscall(task: &mut Task, next: GuestAddr) -> Result<Flow> {
    let confined = task.seccomp.is_some() || task.filters_seen != task.process.filters_set();
    if !confined && plain::answer(task, next) {
        return Ok(Flow::Continue);
    }
    let call = Call::at(task);
    if confined {
        match crate::seccomp::before(task, &call, next)? {
            Verdict::Allow => {}
            Verdict::Flow(flow) => return Ok(flow),
            Verdict::Errno(errno) => return make(task, &call, next, Some(errno)),
        }
    }
    make(task, &call, next, None)
}

/// Makes a call that the guest's filters allow, or lets it fail as one of them says.
fn make(task: &mut Task, call: &Call, next: GuestAddr, filtered: Option<i32>) -> Result<Flow> {
    let mode = task.mode();
    let told = match mode.begin_call(task, call)? {
        Begun::Live => None,
        Begun::Told(answer) => Some(answer),
        Begun::Flow(flow) => {
            if matches!(flow, Flow::Exec(_)) {
                crate::stats::call(call.nr);
            }
            return Ok(flow);
        }
    };
    let filtered = filtered.or_else(|| match told {
        None => own::refuses(task, call),
        Some(_) => None,
    });
    task.log.clear();
    crate::stats::call(call.nr);
    tracing::debug!(target: "syscall", "{} {call} at tick {}", task.id(), task.ctx.ticks());
    let reply = match (filtered, &told) {
        (Some(errno), _) => Reply::Value(-i64::from(errno)),
        (None, Some(answer)) => outcome(task, call, Some(answer))?,
        (None, None) => {
            let order = mode.order();
            order.change_files(task, call, &mut |task, call| outcome(task, call, None))?
        }
    };
    let result = match reply {
        Reply::Value(v) => v,
        Reply::Flow(flow) => return Ok(flow),
        Reply::Returned => {
            // The call has set the registers itself (rt_sigreturn).
            return Ok(Flow::Continue);
        }
    };
    if call.row.is_some_and(|r| r.maps) {
        mode.order().release_files(task);
    }
    if told.is_none() && filtered.is_none() {
        fds::after(task, call, result);
    }
    mode.end_call(task, call, result, told.as_ref())?;
    resume(task, call, result, next);
    Ok(Flow::Continue)
}

/// The outcome of a call, from the kernel or from what a tape says, with what the engine makes of it.
///
/// # Errors
/// Divergence, something unsupported.
pub fn outcome(task: &mut Task, call: &Call, told: Option<&Answer>) -> Result<Reply> {
    match hooks::find(call) {
        Some(part) => part.outcome(task, call, told),
        None => as_described(task, call, told),
    }
}

/// The outcome of a call of which the engine keeps nothing: its row says all there is to know.
fn as_described(task: &mut Task, call: &Call, told: Option<&Answer>) -> Result<Reply> {
    Ok(Reply::Value(match told {
        None => live::generic(task, call),
        Some(answer) => {
            live::TemporaryMask::enter(task, call);
            answer.result
        }
    }))
}

/// Writes a part of the outcome into guest memory, and notes it for the tape.
///
/// # Errors
/// EFAULT (negative), as a system call returns it.
pub fn give(task: &mut Task, at: u64, bytes: &[u8]) -> std::result::Result<(), i64> {
    task.write(at, bytes)?;
    task.log.wrote(at, bytes.len() as u64);
    Ok(())
}

/// Logs a call with everything that `task.log` holds.
pub fn log(task: &mut Task, call: &Call, result: i64) {
    let mut log = std::mem::take(&mut task.log);
    let way = Way::of(task, call, log.brought());
    let mut refs = std::mem::take(&mut log.refs);
    let machine = task.machine();
    let behind = |from, to| machine.memory().content(from, to);
    log.with_slices(&behind, |log, slices| {
        let record = |task: &mut Task, writes, refs| {
            task.record(Kind::Syscall(Syscall {
                nr: call.nr,
                args: Args::new(call.used()),
                result,
                switched: log.switched,
                order: log.order,
                stream: log.stream,
                writes,
                refs,
                extra: &log.extra,
            }));
        };
        if way == Way::Value {
            record(task, Writes::new(slices), Refs::NONE);
        } else {
            let split = Split::of(task, way, slices, std::mem::take(&mut refs));
            record(task, Writes::new(&split.values), Refs::new(&split.refs));
            refs = split.refs;
            refs.clear();
        }
    });
    log.refs = refs;
    task.log = log;
}

/// As [`resume`], for a task that stands at its `syscall` instruction.
pub fn resume_after(task: &mut Task, call: &Call, result: i64) {
    let next = GuestAddr(task.ctx.rip + 2);
    resume(task, call, result, next);
}

/// Puts the result into the registers, as the `syscall` instruction leaves them; an
/// interrupted call waits for the decision whether it is made again.
fn resume(task: &mut Task, call: &Call, result: i64, next: GuestAddr) {
    go_behind(task, next);
    if result == ERESTART {
        let restart = call.restart();
        task.signals.restart = Some(Interrupted {
            nr: call.nr,
            always: restart == Restart::Always,
            with_handler: restart == Restart::Handler,
            without_handler: restart != Restart::Never,
        });
    } else {
        task.ctx.set_reg(Reg::Rax, result as u64);
        if let Some(mask) = task.signals.saved_mask.take() {
            task.signals.mask = mask;
            task.mode().host().mask(mask);
        }
    }
}

/// A refusal that is told once.
pub fn refuse(call: &Call, errno: i32) -> i64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static TOLD: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
    let bit = 1 << (call.nr % 64);
    let told = TOLD[(call.nr as usize / 64) % 8].fetch_or(bit, Ordering::Relaxed) & bit != 0;
    if !told {
        let name = relive_kabi::errno_name(errno).unwrap_or("an error");
        tracing::warn!(target: "syscall", "{call} is not supported and fails with {name}");
    }
    -i64::from(errno)
}

/// What a call does that no row describes.
#[must_use]
pub fn unsupported(call: &Call, what: &str) -> Failure {
    Failure::unsupported(format!("{call}: {what}"))
}
