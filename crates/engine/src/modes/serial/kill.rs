//! Sending signals while processes are recorded. SIGKILL needs care while they share memory: the last
//! actions of the victim must be on its tape, and the robust locks that it holds must be marked, which
//! the kernel would do behind the tapes.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use relive_host::sys;
use rustix::process::{Pid, getpgid};

use super::Serial;
use crate::call::Call;
use crate::failure::Result;
use crate::ids;
use crate::kernel::enter::blocking;
use crate::kernel::refuse::{refuse, unsupported};
use crate::sharing::group::GROUP;
use crate::sharing::processes::{PROCESSES, ProcessSlot, standing};
use crate::sharing::stopping::await_stops;
use crate::shm::Shm;
use crate::task::Task;
use crate::task::ending;

/// Makes the call that sends a signal.
type MakeCall<'a> = &'a mut dyn FnMut(&mut Task) -> Result<i64>;

impl Serial {
    /// Sends `sig` by `send`, at a moment at which every tape stays complete.
    ///
    /// # Errors
    /// Something unsupported.
    pub(super) fn send(
        &self,
        task: &mut Task,
        call: &Call,
        sig: i32,
        send: MakeCall<'_>,
    ) -> Result<i64> {
        let lodger = self.baton.is_lodger(call.int(0) as u32) && names_a_process(call);
        match (sig, self.baton.is_member()) {
            (libc::SIGKILL, _) if lodger => self.kill_lodger(task, call, send),
            // It must not keep the baton meanwhile, nor get it.
            (_, _) if lodger && stops(sig) => match task.lodges {
                true => blocking(task, call.nr, &call.args),
                false => Ok(refuse(call, libc::EPERM)),
            },
            (libc::SIGKILL, true) => kill(self.shm, true, task, call, send),
            // A thread that stops itself must not keep the baton meanwhile.
            (_, true) if stops(sig) && concerns_itself(task, call) => {
                blocking(task, call.nr, &call.args)
            }
            (_, true) if stops(sig) => stop(self.shm, task, call, sig, send),
            (_, true) => send(task),
            (_, false) => from_outside(self.shm, task, call, sig, send),
        }
    }
}

/// Whether the first argument of a call that sends a signal is a process.
fn names_a_process(call: &Call) -> bool {
    i64::from(call.nr) != libc::SYS_pidfd_send_signal
}

fn stops(sig: i32) -> bool {
    matches!(
        sig,
        libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU
    )
}

/// Sends `sig` by `send`, for a process that is no member of the group.
///
/// # Errors
/// Something unsupported.
pub fn from_outside(
    shm: Shm,
    task: &mut Task,
    call: &Call,
    sig: i32,
    send: MakeCall<'_>,
) -> Result<i64> {
    let stops_others = stops(sig) && call.int(0) != task.process.pid as i32;
    if sig != libc::SIGKILL && !stops_others {
        return send(task);
    }
    // Its victims are found between two turns.
    let tid = ids::thread_of(task.tid);
    GROUP.of(&shm).while_quiet(tid, || match sig {
        libc::SIGKILL => kill(shm, false, task, call, send),
        _ => stop(shm, task, call, sig, send),
    })?
}

/// A signal that stops others, while no other member of the group runs, and before one does again: nobody stops with the group's baton, or its lock.
fn stop(shm: Shm, task: &mut Task, call: &Call, sig: i32, send: MakeCall<'_>) -> Result<i64> {
    let guard = GROUP.of(&shm).hold(ids::thread_of(task.tid));
    let sent = send(task)?;
    let own = ids::process() as i32;
    let victim = match i64::from(call.nr) {
        // Of a thread, or a descriptor, the process is not known.
        libc::SYS_pidfd_send_signal | libc::SYS_tkill => None,
        _ => Some(call.int(0)),
    };
    let is_meant = |pid: i32| {
        let named = |t: i32| t > 0 && ids::of(t as u32) as i32 == pid;
        victim.is_none_or(|t| named(t) || is_in(pid, t))
    };
    if sent >= 0 {
        await_stops(shm, sig, |pid| pid != own && is_meant(pid));
    }
    drop(guard);
    Ok(sent)
}

/// SIGKILL, while no other member of the group runs.
fn kill(shm: Shm, member: bool, task: &mut Task, call: &Call, send: MakeCall<'_>) -> Result<i64> {
    let victims = Victims::of(call);
    let told = tell_visitors(&shm, call, &victims);
    if let (Some(told), Victims::One(_)) = (told, &victims) {
        return Ok(told);
    }
    let own = ids::process();
    if member && matches!(victims, Victims::One(Some(victim)) if victim == own) {
        ending::release_locks(task)?;
    }
    for slot in locked(&shm) {
        let pid = slot.pid.load(Ordering::Acquire);
        match victims {
            _ if pid == own => {}
            Victims::One(victim) if victim != Some(pid) => {}
            Victims::One(_) => return Ok(mark_killed(slot, call)),
            Victims::Group(group) if !is_in(pid as i32, group) => {}
            Victims::Group(_) => {
                return Err(unsupported(
                    call,
                    &format!(
                        "SIGKILL to a group with process {pid}, which holds a robust lock; kill it by its own id"
                    ),
                ));
            }
        }
    }
    let sent = send(task)?;
    // All that it meant may be gone by now.
    Ok(told.map_or(sent, |told| sent.max(told)))
}

/// Whom a call means that sends a signal.
enum Victims {
    /// A process, by the supervisor's id; `None`: no process of the caller's namespace.
    One(Option<u32>),
    /// Several, as kill(2) names them: 0, -1, or a group's negative number.
    Group(i32),
}

impl Victims {
    fn of(call: &Call) -> Self {
        match (i64::from(call.nr), call.int(0)) {
            (libc::SYS_pidfd_send_signal, fd) => Self::One(ids::of_descriptor(fd)),
            (_, target) if target > 0 => Self::One(Some(ids::of(target as u32))),
            (_, group) => Self::Group(group),
        }
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

/// The members that hold robust locks.
fn locked(shm: &Shm) -> impl Iterator<Item = &ProcessSlot> {
    let all = PROCESSES.of(shm).first(shm.processes());
    all.filter(|s| {
        s.locked.load(Ordering::Acquire) != 0
            && s.standing.load(Ordering::Acquire) == standing::MEMBER
    })
}

/// Whether kill(2) with this target, which names no single process, means the process.
fn is_in(pid: i32, target: i32) -> bool {
    if ids::may_differ() {
        // The caller has another number for it, or none.
        return target <= 0;
    }
    let group = |pid: i32| getpgid(Pid::from_raw(pid)).ok();
    match target {
        -1 => true,
        0 => group(pid) == group(0),
        t if t < 0 => group(pid).is_some_and(|g| g.as_raw_pid() == -t),
        _ => false,
    }
}

/// Leaves the rest to the process: it marks its locks and ends at its next safe point, for
/// which it is woken.
fn mark_killed(slot: &ProcessSlot, call: &Call) -> i64 {
    let may = send_as(call, 0);
    if may >= 0 {
        slot.killed.store(1, Ordering::Release);
        wake(call);
    }
    may
}

/// Wakes the process that a call means, which has been told that it is killed: one that is stopped, too. It may have ended by
/// itself since.
fn wake(call: &Call) {
    // The host never blocks SIGTRAP.
    for sig in [libc::SIGTRAP, libc::SIGCONT] {
        send_as(call, sig);
    }
}

/// Sends another signal to the process that a call means.
fn send_as(call: &Call, sig: i32) -> i64 {
    let nr = match i64::from(call.nr) {
        libc::SYS_pidfd_send_signal => libc::SYS_pidfd_send_signal,
        _ => libc::SYS_kill,
    };
    // SAFETY: signals a recorded process, as the caller asked for.
    unsafe { sys::syscall(nr as u64, [call.args[0], sig as u64, 0, 0, 0, 0]) as i64 }
}

/// How long those that are in memory of their parents have to end, when their whole group is killed.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two looks.
const LOOK: Duration = Duration::from_micros(200);

/// Tells those that are meant, and are in memory of their parents (vfork(2)), that they have been killed: they end at their next safe
/// point. The result of the call, as far as they go; `None`: none is told.
fn tell_visitors(shm: &Shm, call: &Call, victims: &Victims) -> Option<i64> {
    let own = ids::process();
    let all = PROCESSES.of(shm).first(shm.processes());
    let pid_of = |slot: &ProcessSlot| slot.pid.load(Ordering::Acquire);
    let others: Vec<_> = all
        .filter(|slot| slot.visit.lasts() && pid_of(slot) != own)
        .collect();
    if others.is_empty() {
        return None;
    }
    let victim = match *victims {
        Victims::One(victim) => victim,
        Victims::Group(group) => return tell_group(others, group).then_some(0),
    };
    let slot = others
        .into_iter()
        .find(|slot| Some(pid_of(slot)) == victim)?;
    // Whoever may not kill it tells it nothing.
    let is_told = send_as(call, 0) >= 0 && slot.visit.kill();
    is_told.then(|| {
        wake(call);
        0
    })
}

/// Tells those of a group, and waits until they have ended. Members of the group that shares memory end between two of their turns,
/// without being told. Whether any are told.
fn tell_group(visitors: Vec<&ProcessSlot>, group: i32) -> bool {
    if ids::may_differ() {
        // The caller has other numbers for them, or none.
        return false;
    }
    let mut told: Vec<_> = visitors
        .into_iter()
        .filter(|slot| slot.standing.load(Ordering::Acquire) != standing::MEMBER)
        .filter(|slot| {
            let pid = slot.pid.load(Ordering::Acquire);
            let wake = Call::of(libc::SYS_kill as u32, [pid.into(), 0, 0, 0, 0, 0]);
            let is_told = is_in(pid as i32, group) && send_as(&wake, 0) >= 0 && slot.visit.kill();
            if is_told {
                self::wake(&wake);
            }
            is_told
        })
        .collect();
    let any = !told.is_empty();
    let until = Instant::now() + PATIENCE;
    while !told.is_empty() && Instant::now() < until {
        std::thread::sleep(LOOK);
        told.retain(|slot| slot.visit.lasts());
    }
    any
}
