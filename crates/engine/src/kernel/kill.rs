//! Sending signals (kill(2) and its relatives). SIGKILL needs care while processes share memory:
//! what the victim did last must be on its tape, and the robust locks that it holds must be
//! marked, which the kernel would do behind the tapes.

use std::sync::atomic::Ordering;

use relive_host::sys;

use super::{Answer, Call, Reply, blocking, generic, tasks, unsupported};
use crate::failure::Result;
use crate::machine::{Mode, machine};
use crate::sharing::processes::{Slot, standing};
use crate::task::Task;

/// kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal.
pub fn send(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    if let Some(a) = answer {
        return Ok(Reply::Value(a.result));
    }
    let sig = match i64::from(call.nr) {
        libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => call.int(2),
        _ => call.int(1),
    };
    let m = machine();
    let (Some(shm), Mode::Record) = (&m.shm, m.mode) else {
        return Ok(Reply::Value(generic(task, call)));
    };
    let stops = matches!(
        sig,
        libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU
    );
    match (sig, m.baton.is_member()) {
        (libc::SIGKILL, true) => kill(task, call),
        // Whoever stops itself must not keep the baton meanwhile.
        (_, true) if stops && concerns_itself(task, call) => {
            Ok(Reply::Value(blocking(task, call.nr, &call.args)))
        }
        (_, false) if sig == libc::SIGKILL || stops => {
            // Its victims are found between two turns.
            let (group, tid) = (&shm.header().group, task.tid);
            group.while_quiet(tid, || match sig {
                libc::SIGKILL => kill(task, call),
                _ => Ok(Reply::Value(generic(task, call))),
            })
        }
        _ => Ok(Reply::Value(generic(task, call))),
    }
}

/// Whether a call may send its signal to the caller.
fn concerns_itself(task: &Task, call: &Call) -> bool {
    let target = call.int(0);
    match i64::from(call.nr) {
        libc::SYS_pidfd_send_signal => false,
        libc::SYS_tkill => target == task.tid as i32,
        _ => target <= 0 || target == task.process.pid as i32,
    }
}

/// SIGKILL, while no other member of the group runs.
fn kill(task: &mut Task, call: &Call) -> Result<Reply> {
    let target = match i64::from(call.nr) {
        libc::SYS_pidfd_send_signal => None,
        _ => Some(call.int(0)),
    };
    let own = task.process.pid as i32;
    if target == Some(own) && machine().baton.is_member() {
        tasks::release_locks(task);
    }
    for slot in locked() {
        let pid = slot.pid.load(Ordering::Acquire) as i32;
        if target == Some(pid) && pid != own {
            return Ok(Reply::Value(doom(slot, pid)));
        }
        if pid != own && target.is_none_or(|t| is_in(pid, t)) {
            return Err(unsupported(
                call,
                &format!(
                    "SIGKILL to a group with process {pid}, which holds a robust lock; kill it by its own id"
                ),
            ));
        }
    }
    Ok(Reply::Value(generic(task, call)))
}

/// The members that hold robust locks.
fn locked() -> impl Iterator<Item = &'static Slot> {
    let shm = machine().shm.as_ref();
    let all =
        (0..shm.map_or(0, |s| s.processes())).filter_map(move |p| shm?.header().processes.get(p));
    all.filter(|s| {
        s.locked.load(Ordering::Acquire) != 0
            && s.standing.load(Ordering::Acquire) == standing::MEMBER
    })
}

/// Whether kill(2) with this target, which names no single process, means the process.
fn is_in(pid: i32, target: i32) -> bool {
    // SAFETY: only asks.
    let group = |pid: i32| unsafe { libc::getpgid(pid) };
    match target {
        -1 => true,
        0 => group(pid) == group(0),
        t if t < 0 => group(pid) == -t,
        _ => false,
    }
}

/// Leaves the rest to the process: it marks its locks and ends at its next safe point, for
/// which it is woken.
fn doom(slot: &Slot, pid: i32) -> i64 {
    slot.doomed.store(1, Ordering::Release);
    // One that is stopped dies too. The host never blocks SIGTRAP.
    for sig in [libc::SIGTRAP, libc::SIGCONT] {
        // SAFETY: signals a recorded process, as the caller asked for.
        let got =
            unsafe { sys::syscall(libc::SYS_kill as u64, [pid as u64, sig as u64, 0, 0, 0, 0]) };
        if got < 0 {
            slot.doomed.store(0, Ordering::Release);
            return got as i64;
        }
    }
    0
}
