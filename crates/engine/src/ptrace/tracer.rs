//! ptrace(2) as a tracer calls it: how a task becomes traced; requests to a tracee are in [`super::asks`]. Must never
//! call the kernel's ptrace(2).

use std::sync::atomic::Ordering;

use relive_host::sys;
use rustix::process::{Pid, test_kill_process};

use super::asks::to_tracee;
use super::intake::note_signals;
use super::pokes;
use super::requests::{option, ptrace};
use super::slots::{SLOTS, Slot, Slots, wish};
use super::standing::{LifeStep, state};
use super::stop::traces;
use crate::call::Call;
use crate::failure::Result;
use crate::ids;
use crate::kernel::refuse::refuse;
use crate::sharing::processes::PROCESSES;
use crate::sharing::stopped_thread;
use crate::shm::Shm;
use crate::task::Task;
use crate::traced::Traced;

const EIO: i64 = -(libc::EIO as i64);
const EPERM: i64 = -(libc::EPERM as i64);
const ESRCH: i64 = -(libc::ESRCH as i64);

/// ptrace(2).
///
/// # Errors
/// The turn behind it is lost.
pub fn ptrace(task: &mut Task, call: &Call) -> Result<i64> {
    let Some(shm) = traces(task) else {
        return Ok(refuse(call, libc::EPERM));
    };
    // Slots name threads by the ids that all processes know them by.
    if ids::may_differ() {
        return Ok(refuse(call, libc::EPERM));
    };
    let slots = SLOTS.of(shm);
    let (request, tid) = (call.args[0] as u32, call.args[1] as u32);
    match request {
        ptrace::TRACEME => Ok(trace_me(task, call, shm)),
        ptrace::ATTACH | ptrace::SEIZE => attach(task, call, shm),
        _ => match tracee(task, slots, tid) {
            Some(slot) => to_tracee(task, call, slot),
            None => Ok(ESRCH),
        },
    }
}

/// The tracee of the calling thread with this id.
fn tracee(task: &Task, slots: &'static Slots, tid: u32) -> Option<&'static Slot> {
    let (_, slot) = slots.of_thread(tid)?;
    let own = slot.tracer.load(Ordering::Acquire) == task.process.pid;
    let (ok, fail) = (Ordering::AcqRel, Ordering::Acquire);
    let thread = &slot.tracer_thread;
    let taken = own && thread.compare_exchange(0, task.tid, ok, fail).is_ok();
    let mine = taken || thread.load(Ordering::Acquire) == task.tid;
    (own && mine).then_some(slot)
}

/// Whether a process is one of the recording.
fn is_recorded(shm: &Shm, pid: u32) -> bool {
    let mut all = PROCESSES.of(shm).first(shm.processes());
    pid != 0 && all.any(|p| p.pid.load(Ordering::Acquire) == pid)
}

/// The recorded process that a thread belongs to.
fn process_of(shm: &Shm, tid: u32) -> Option<u32> {
    let all = PROCESSES.of(shm).first(shm.processes());
    let mut pids = all.map(|p| p.pid.load(Ordering::Acquire));
    pids.find(|pid| *pid != 0 && sys::has_thread(*pid, tid))
}

fn trace_me(task: &mut Task, call: &Call, shm: &'static Shm) -> i64 {
    if task.traced.is_some() {
        return EPERM;
    }
    let parent = ids::parent();
    if !is_recorded(shm, parent) {
        return refuse(call, libc::EPERM);
    }
    let Some((at, slot)) = SLOTS.of(shm).claim() else {
        return EIO;
    };
    slot.tracer.store(parent, Ordering::Release);
    slot.process.store(task.process.pid, Ordering::Release);
    slot.thread.store(task.tid, Ordering::Release);
    slot.take(LifeStep::Hears);
    task.traced = Some(Box::new(Traced {
        slot: at,
        ..Traced::default()
    }));
    note_signals(task);
    0
}

fn attach(task: &mut Task, call: &Call, shm: &'static Shm) -> Result<i64> {
    let tid = call.args[1] as u32;
    let seizes = call.args[0] as u32 == ptrace::SEIZE;
    let options = if seizes { call.args[3] } else { 0 };
    if options & !u64::from(option::ALL) != 0 || seizes && call.args[2] != 0 {
        return Ok(EIO);
    }
    if Pid::from_raw(tid as i32).is_none_or(|pid| test_kill_process(pid).is_err()) {
        return Ok(ESRCH);
    }
    let slots = SLOTS.of(shm);
    let Some(process) = process_of(shm, tid) else {
        return Ok(refuse(call, libc::EPERM));
    };
    await_release(task, slots, tid)?;
    if process == task.process.pid || slots.of_thread(tid).is_some() || !may_trace(tid) {
        return Ok(EPERM);
    }
    let Some((_, slot)) = slots.claim() else {
        return Ok(EIO);
    };
    slot.tracer.store(task.process.pid, Ordering::Release);
    slot.tracer_thread.store(task.tid, Ordering::Release);
    slot.options.store(options as u32, Ordering::Release);
    slot.seized.store(u32::from(seizes), Ordering::Release);
    slot.process.store(process, Ordering::Release);
    let was_stopped = stopped_thread(tid);
    let wishes = match (seizes, was_stopped) {
        (true, true) => wish::STOP | wish::GROUP_STOPPED,
        (true, false) => 0,
        (false, _) => wish::SIGSTOP,
    };
    slot.wishes.store(wishes, Ordering::Release);
    slot.thread.store(tid, Ordering::Release);
    pokes::poke(process, tid);
    if was_stopped {
        pokes::wake_stopped(process);
    }
    // Its host must know before any signal comes to it.
    sleep_until(task, slot, || slot.state() != state::CLAIMED)
}

/// Waits until a thread whose tracer has let it go, or is gone, has noticed that.
fn await_release(task: &mut Task, slots: &'static Slots, tid: u32) -> Result<()> {
    let Some((_, slot)) = slots.of_thread(tid) else {
        return Ok(());
    };
    let released = || match slot.state() {
        state::RUNNING => slot.resume.load(Ordering::Acquire) == ptrace::DETACH,
        state::STOPPED | state::LISTENING => slot.is_orphan(),
        _ => false,
    };
    let its = || slot.thread.load(Ordering::Acquire) == tid;
    match released() {
        true => sleep_until(task, slot, || !its() || !released()).map(drop),
        false => Ok(()),
    }
}

/// Sleeps until the tracee has done something, two seconds at most.
fn sleep_until(task: &mut Task, slot: &'static Slot, done: impl Fn() -> bool) -> Result<i64> {
    let mode = task.mode();
    mode.asleep(task, &mut || {
        for _ in 0..40 {
            if done() {
                break;
            }
            slot.sleep(&done);
        }
        0
    })
}

/// Whether the kernel would let this process trace that one: it decides the same for reading memory.
fn may_trace(tid: u32) -> bool {
    let mut byte = 0_u8;
    let here = [&raw mut byte as u64, 1];
    let there = [0_u64, 1];
    let args = [
        tid.into(),
        here.as_ptr() as u64,
        1,
        there.as_ptr() as u64,
        1,
        0,
    ];
    // SAFETY: reads nothing: no process has memory there.
    let result = unsafe { sys::syscall(libc::SYS_process_vm_readv as u64, args) };
    result as i64 != EPERM
}

/// Whether SIGSTOP by this call goes to a traced thread, whose host must not stop: then it is sent so that
/// the tracee stops for its tracer.
#[must_use]
pub fn stops_tracee(task: &Task, call: &Call) -> bool {
    let Some(shm) = crate::shm::shared().filter(|shm| SLOTS.of(shm).any()) else {
        return false;
    };
    let target = match i64::from(call.nr) {
        libc::SYS_kill | libc::SYS_tkill | libc::SYS_rt_sigqueueinfo => call.int(0),
        libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => call.int(1),
        _ => return false,
    };
    let Some((_, slot)) = SLOTS.of(shm).of_thread(target as u32) else {
        return false;
    };
    let process = slot.process.load(Ordering::Acquire);
    pokes::stops(process, target as u32, task.process.pid)
}
