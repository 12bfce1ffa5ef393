//! wait4(2) and waitid(2) of a process that traces others: the stops and ends of its tracees beside the
//! kernel's news of its children. The kernel knows nothing of tracees.

use std::sync::atomic::Ordering;

use relive_host::signal::set_mask;
use relive_host::sys;
use rustix::process::{Pid, getpgid};

use super::intake::{is_wanted, take_in};
use super::slots::{SLOTS, Slot, Slots};
use super::standing::{LifeStep, state};
use super::stop::traces;
use crate::call::Call;
use crate::failure::{Result, answered};
use crate::kernel::enter::{enter_kernel, interrupted};
use crate::kernel::generic::generic;
use crate::task::Task;

const ECHILD: i64 = -(libc::ECHILD as i64);
const P_ALL: u64 = 0;
const P_PID: u64 = 1;
const P_PGID: u64 = 2;

/// Which tracees a call waits for.
#[derive(Clone, Copy)]
enum Whom {
    All,
    One(u32),
    Group(i32),
    None,
}

/// A call that waits.
struct TracerWait {
    whom: Whom,
    /// The argument with the options.
    options: usize,
    /// waitid(2).
    by_info: bool,
}

impl TracerWait {
    fn of(call: &Call) -> Self {
        let by_info = i64::from(call.nr) == libc::SYS_waitid;
        let group = || getpgid(None).map_or(0, |g| g.as_raw_nonzero().get());
        let whom = if by_info {
            match call.args[0] & 0xffff_ffff {
                P_ALL => Whom::All,
                P_PID => Whom::One(call.args[1] as u32),
                P_PGID if call.int(1) == 0 => Whom::Group(group()),
                P_PGID => Whom::Group(call.int(1)),
                _ => Whom::None,
            }
        } else {
            match call.int(0) {
                -1 => Whom::All,
                0 => Whom::Group(group()),
                pid @ 1.. => Whom::One(pid as u32),
                group => Whom::Group(group.wrapping_neg()),
            }
        };
        Self {
            whom,
            options: if by_info { 3 } else { 2 },
            by_info,
        }
    }

    fn fits(&self, slot: &Slot) -> bool {
        match self.whom {
            Whom::All => true,
            Whom::One(tid) => slot.thread.load(Ordering::Acquire) == tid,
            Whom::Group(group) => {
                let pid = slot.process.load(Ordering::Acquire) as i32;
                let its = getpgid(Pid::from_raw(pid)).ok();
                its.is_some_and(|g| g.as_raw_nonzero().get() == group)
            }
            Whom::None => false,
        }
    }

    /// Whether the caller has tracees that it waits for.
    fn has_tracees(&self, task: &Task, slots: &Slots) -> bool {
        let mut all = slots.of_tracer(task.process.pid);
        all.any(|(_, s)| self.fits(s))
    }

    /// A tracee with news: its id, its status.
    fn news(&self, task: &Task, slots: &'static Slots, options: i32) -> Option<(u32, u32)> {
        for (_, slot) in slots.of_tracer(task.process.pid) {
            if !self.fits(slot) {
                continue;
            }
            let thread = slot.thread.load(Ordering::Acquire);
            let stand = slot.standing.get();
            // Killed, and no child of the tracer's: the kernel tells nobody here. A thread tells its end
            // before it is gone, maybe since the look above.
            if matches!(
                stand.state,
                state::RUNNING | state::STOPPED | state::LISTENING
            ) && slot.is_dead()
                && !is_child(slot)
                && slot.standing.take_from(stand, LifeStep::Vanishes)
            {
                slot.ring();
                return Some((thread, libc::SIGKILL as u32));
            }
            let told = match options & libc::WNOWAIT {
                0 => slot.standing.take(LifeStep::IsTold),
                _ => Some(slot.standing.get()).filter(|s| s.status != 0 || s.state == state::ENDED),
            };
            if let Some(told) = told {
                slot.ring();
                return Some((thread, told.status));
            }
        }
        None
    }
}

/// Whether the tracee's process is a child of its tracer, which is the caller: then the kernel tells its end.
fn is_child(slot: &Slot) -> bool {
    let (pid, thread) = (
        slot.process.load(Ordering::Acquire),
        slot.thread.load(Ordering::Acquire),
    );
    let mut info = [0_u64; 16];
    let options = (libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL) as u64;
    let args = [P_PID, pid.into(), info.as_mut_ptr() as u64, options, 0, 0];
    // SAFETY: asks, into a buffer of ours.
    let asked = unsafe { sys::syscall(libc::SYS_waitid as u64, args) };
    pid == thread && asked == 0
}

/// wait4(2), waitid(2).
///
/// # Errors
/// The turn behind it is lost.
pub fn wait(task: &mut Task, call: &Call) -> Result<i64> {
    let Some(shm) = traces(task) else {
        return generic(task, call);
    };
    let slots = SLOTS.of(shm);
    let waiting = TracerWait::of(call);
    let options = call.int(waiting.options);
    if options & libc::WNOHANG != 0 && !waiting.has_tracees(task, slots) {
        return generic(task, call);
    }
    let mut at_once = *call;
    at_once.args[waiting.options] |= libc::WNOHANG as u64;
    // From here on a stop cuts a sleep short.
    let _noted = slots.waits(task.process.pid, task.tid);
    loop {
        if let Some((tid, status)) = waiting.news(task, slots, options) {
            return give(task, call, &waiting, tid, status);
        }
        if !waiting.has_tracees(task, slots) {
            let result = generic(task, call)?;
            if !cut_short(task, result) {
                return Ok(result);
            }
            continue;
        }
        let spans = task.log.spans.len();
        let result = generic(task, &at_once)?;
        let nothing = match waiting.by_info {
            true => result == 0 && !tells(task, call),
            false => result == 0,
        };
        if !nothing && result != ECHILD {
            if let Ok(pid @ 1..) = u32::try_from(result)
                && !waiting.by_info
            {
                ended(slots, pid);
            }
            return Ok(result);
        }
        if options & libc::WNOHANG != 0 {
            return Ok(0);
        }
        task.log.spans.truncate(spans);
        let result = match result {
            ECHILD => {
                let mode = task.mode();
                let nothing = [0, 0, 20, 0, 0, 0];
                let slept = mode.asleep(task, &mut || {
                    enter_kernel(libc::SYS_poll as u32, &nothing, true)
                })?;
                if slept == 0 {
                    continue;
                }
                interrupted(task, call, sys::INTERRUPTED as i64)
            }
            _ => generic(task, call)?,
        };
        if !cut_short(task, result) {
            if let Ok(pid @ 1..) = u32::try_from(result)
                && !waiting.by_info
            {
                ended(slots, pid);
            }
            return Ok(result);
        }
    }
}

/// The kernel has told the end of a process.
fn ended(slots: &Slots, pid: u32) {
    for (_, slot) in slots.of_process(pid) {
        if slot.is_dead() {
            slot.take(LifeStep::Vanishes);
        }
    }
}

/// Whether waitid(2) has told anything.
fn tells(task: &Task, call: &Call) -> bool {
    let pid = task.read::<4>(call.args[2].wrapping_add(16));
    pid.is_ok_and(|pid| pid != [0; 4])
}

/// Whether a call came back only because a tracee has news: no signal is to be delivered.
fn cut_short(task: &mut Task, result: i64) -> bool {
    let eintr = -i64::from(libc::EINTR);
    if result != crate::kernel::resume::ERESTART && result != eintr {
        return false;
    }
    take_in(task);
    set_mask(task.signals.mask.for_host());
    let mask = task.signals.mask;
    let mut held = task.signals.held.iter();
    let free = held.any(|info| !mask.has(crate::siginfo::signo(info)));
    task.looks &= is_wanted(task);
    !free && task.ctx.pending == 0 && !task.looks
}

/// Writes the news where the call wants them.
fn give(task: &mut Task, call: &Call, waiting: &TracerWait, tid: u32, status: u32) -> Result<i64> {
    let mut put = |at: u64, bytes: &[u8]| -> Result<i64> {
        if at == 0 {
            return Ok(0);
        }
        Ok(answered(task.give(at, bytes))?.map_or_else(|e| e, |()| 0))
    };
    if !waiting.by_info {
        let written = put(call.args[1], &status.to_le_bytes())?;
        put(call.args[3], &[0; 144])?;
        return Ok(if written < 0 { written } else { i64::from(tid) });
    }
    let (code, value) = match (status & 0x7f, status >> 8) {
        (0x7f, code) => (libc::CLD_TRAPPED, code),
        (0, code) => (libc::CLD_EXITED, code),
        (sig, _) => (libc::CLD_KILLED, sig),
    };
    let mut info = super::slots::sent_by(libc::SIGCHLD, code, tid);
    info[24..28].copy_from_slice(&value.to_le_bytes());
    put(call.args[2], &info)
}
