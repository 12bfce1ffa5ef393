//! ptrace(2) as a tracer calls it, and a tracer's other ways to its tracee's memory. Must never call the
//! kernel's ptrace(2), and never write another process's memory but by the host of a stopped tracee.

use std::sync::atomic::Ordering;

use relive_host::sys;

use super::intake::note_signals;
use super::pokes;
use super::registers::BYTES;
use super::requests::{ask, option, ptrace};
use super::slots::{ROOM, SLOTS, Slot, Slots, TraceRequest, wish};
use super::standing::{LifeStep, state};
use crate::call::Call;
use crate::failure::{Failure, Result, answered};
use crate::ids;
use crate::kernel::refuse::refuse;
use crate::sharing::processes::PROCESSES;
use crate::sharing::stopped_thread;
use crate::shm::Shm;
use crate::task::Task;
use crate::traced::Traced;

/// The outcome of a request: a result, or an errno (negative).
type TraceResult = std::result::Result<i64, i64>;

const EIO: i64 = -(libc::EIO as i64);
const EFAULT: i64 = -(libc::EFAULT as i64);
const EPERM: i64 = -(libc::EPERM as i64);
const ESRCH: i64 = -(libc::ESRCH as i64);
const EINVAL: i64 = -(libc::EINVAL as i64);
/// `offsetof(struct user, u_debugreg)`, and the bytes of the debug registers.
const DEBUG: std::ops::Range<u64> = 848..912;
/// `sizeof(struct user)`
const USER: u64 = 912;
const NT_PRSTATUS: u64 = 1;
const NT_FPREGSET: u64 = 2;
const NT_X86_XSTATE: u64 = 0x202;
const FXSAVE: usize = 512;

/// ptrace(2).
///
/// # Errors
/// The turn behind it is lost.
pub fn ptrace(task: &mut Task, call: &Call) -> Result<i64> {
    let Some(shm) = crate::shm::shared().filter(|_| task.traits().traces) else {
        return Ok(refuse(call, libc::EPERM));
    };
    // Slots name threads by the ids that all processes know them by.
    if ids::may_differ() {
        return Ok(refuse(call, libc::EPERM));
    };
    let slots = SLOTS.of(shm);
    let (request, tid) = (call.args[0] as u32, call.args[1] as u32);
    let asked = match request {
        ptrace::TRACEME => trace_me(task, call, shm),
        ptrace::ATTACH | ptrace::SEIZE => return attach(task, call, shm),
        _ => match tracee(task, slots, tid) {
            Some(slot) => return to_tracee(task, call, slot, request),
            None => Err(ESRCH),
        },
    };
    Ok(asked.unwrap_or_else(|e| e))
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
    let mut all = (0..shm.processes()).filter_map(|p| PROCESSES.of(shm).get(p));
    pid != 0 && all.any(|p| p.pid.load(Ordering::Acquire) == pid)
}

/// The recorded process that a thread belongs to.
fn process_of(shm: &Shm, tid: u32) -> Option<u32> {
    let has = |pid: u32| {
        // SAFETY: asks, and sends nothing.
        pid != 0
            && (unsafe {
                let args = [pid.into(), tid.into(), 0, 0, 0, 0];
                sys::syscall(libc::SYS_tgkill as u64, args)
            }) == 0
    };
    let all = (0..shm.processes()).filter_map(|p| PROCESSES.of(shm).get(p));
    all.map(|p| p.pid.load(Ordering::Acquire)).find(|p| has(*p))
}

fn trace_me(task: &mut Task, call: &Call, shm: &'static Shm) -> TraceResult {
    if task.traced.is_some() {
        return Err(EPERM);
    }
    // SAFETY: asks for an id.
    let parent = unsafe { libc::getppid() } as u32;
    if !is_recorded(shm, parent) {
        return Err(refuse(call, libc::EPERM));
    }
    let (at, slot) = SLOTS.of(shm).claim().ok_or(EIO)?;
    slot.tracer.store(parent, Ordering::Release);
    slot.process.store(task.process.pid, Ordering::Release);
    slot.thread.store(task.tid, Ordering::Release);
    slot.take(LifeStep::Hears);
    task.traced = Some(Box::new(Traced {
        slot: at,
        ..Traced::default()
    }));
    note_signals(task);
    Ok(0)
}

fn attach(task: &mut Task, call: &Call, shm: &'static Shm) -> Result<i64> {
    let tid = call.args[1] as u32;
    let seizes = call.args[0] as u32 == ptrace::SEIZE;
    let options = if seizes { call.args[3] } else { 0 };
    if options & !u64::from(option::ALL) != 0 || seizes && call.args[2] != 0 {
        return Ok(EIO);
    }
    // SAFETY: asks, and sends nothing.
    if tid == 0 || unsafe { libc::kill(tid as i32, 0) } != 0 {
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

fn to_tracee(task: &mut Task, call: &Call, slot: &'static Slot, request: u32) -> Result<i64> {
    let state = slot.state();
    match request {
        ptrace::KILL => {
            let pid = slot.process.load(Ordering::Acquire);
            // SAFETY: kills a tracee, as its tracer asks for.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) };
            return Ok(0);
        }
        ptrace::INTERRUPT if slot.seized.load(Ordering::Acquire) == 0 => return Ok(EIO),
        ptrace::INTERRUPT => {
            slot.wishes.fetch_or(wish::STOP, Ordering::AcqRel);
            let (process, thread) = (
                slot.process.load(Ordering::Acquire),
                slot.thread.load(Ordering::Acquire),
            );
            pokes::poke(process, thread);
            return Ok(0);
        }
        _ if state != state::STOPPED => return Ok(ESRCH),
        _ => {}
    }
    let [_, _, addr, data, ..] = call.args;
    let mut gone = false;
    let mut request_to = |task: &mut Task, what, argument, length: usize, bytes: &mut [u8]| {
        let mut result = None;
        let request = TraceRequest {
            what,
            argument,
            length,
        };
        let mode = task.mode();
        mode.asleep(task, &mut || {
            result = slot.ask(request, bytes);
            0
        })?;
        gone |= result.is_none();
        Ok::<i64, Failure>(result.unwrap_or(ESRCH))
    };
    Ok(match request {
        ptrace::PEEKTEXT | ptrace::PEEKDATA => {
            let mut word = [0; 8];
            match request_to(task, ask::READ, addr, 8, &mut word)? {
                8 => give(task, data, &word)?,
                ESRCH => ESRCH,
                _ => EIO,
            }
        }
        ptrace::POKETEXT | ptrace::POKEDATA => {
            let mut word = data.to_le_bytes();
            request_to(task, ask::WRITE, addr, 8, &mut word)?.min(0)
        }
        ptrace::PEEKUSER if addr % 8 != 0 || addr >= USER => EIO,
        ptrace::PEEKUSER => {
            let mut all = [0; BYTES];
            let n = request_to(task, ask::REGISTERS, 0, 0, &mut all)?;
            let word = all.get(addr as usize..addr as usize + 8).unwrap_or(&[0; 8]);
            let word: [u8; 8] = word.try_into().unwrap_or_default();
            if n < 0 { n } else { give(task, data, &word)? }
        }
        ptrace::POKEUSER if addr % 8 != 0 || addr >= USER => EIO,
        // The registers of the processor are not the tracee's.
        ptrace::POKEUSER if DEBUG.contains(&addr) && data != 0 => refuse(call, libc::EIO),
        ptrace::POKEUSER if addr >= BYTES as u64 => 0,
        ptrace::POKEUSER => {
            let mut all = [0; BYTES];
            match request_to(task, ask::REGISTERS, 0, 0, &mut all)? {
                n if n < 0 => n,
                _ => {
                    all[addr as usize..addr as usize + 8].copy_from_slice(&data.to_le_bytes());
                    request_to(task, ask::SET_REGISTERS, 0, BYTES, &mut all)?
                }
            }
        }
        ptrace::GETREGS => {
            let mut all = [0; BYTES];
            match request_to(task, ask::REGISTERS, 0, 0, &mut all)? {
                n if n < 0 => n,
                _ => give(task, data, &all)?,
            }
        }
        ptrace::SETREGS => match task.read::<BYTES>(data) {
            Ok(mut all) => request_to(task, ask::SET_REGISTERS, 0, BYTES, &mut all)?,
            Err(e) => e,
        },
        ptrace::GETFPREGS => {
            let mut all = [0; ROOM];
            match request_to(task, ask::EXTENDED, 0, 0, &mut all)? {
                n if n < 0 => n,
                _ => give(task, data, &all[..FXSAVE])?,
            }
        }
        ptrace::SETFPREGS => match task.read::<FXSAVE>(data) {
            Ok(mut all) => request_to(task, ask::SET_EXTENDED, 0, FXSAVE, &mut all)?,
            Err(e) => e,
        },
        ptrace::GETREGSET | ptrace::SETREGSET => {
            let (Ok(base), Ok(len)) = (task.read_u64(data), task.read_u64(data.wrapping_add(8)))
            else {
                return Ok(EFAULT);
            };
            let (get, set) = match addr {
                NT_PRSTATUS => (ask::REGISTERS, ask::SET_REGISTERS),
                NT_FPREGSET | NT_X86_XSTATE => (ask::EXTENDED, ask::SET_EXTENDED),
                _ => return Ok(EINVAL),
            };
            if len % 8 != 0 {
                return Ok(EINVAL);
            }
            let mut all = [0; ROOM];
            let n = request_to(task, get, 0, 0, &mut all)?;
            if n < 0 {
                return Ok(n);
            }
            let size = match addr {
                NT_FPREGSET => FXSAVE,
                _ => n as usize,
            };
            let n = size.min(len as usize);
            let done = if request == ptrace::GETREGSET {
                give(task, base, &all[..n])?
            } else if relive_host::copy::read(relive_host::GuestAddr(base), &mut all[..n]).is_err()
            {
                EFAULT
            } else {
                request_to(task, set, 0, size, &mut all[..size])?
            };
            match done {
                0 => give(task, data.wrapping_add(8), &(n as u64).to_le_bytes())?,
                e => e,
            }
        }
        ptrace::SETOPTIONS if data & !u64::from(option::ALL) != 0 => {
            // A seccomp event would be one of the guest's own filters.
            let known = u64::from(option::ALL) | 0x80 | 0x20_0000;
            if data & !known != 0 {
                EINVAL
            } else {
                refuse(call, libc::EINVAL)
            }
        }
        ptrace::SETOPTIONS => {
            slot.options.store(data as u32, Ordering::Release);
            0
        }
        ptrace::GETEVENTMSG => {
            let message = slot.message.load(Ordering::Acquire);
            give(task, data, &message.to_le_bytes())?
        }
        ptrace::GETSIGINFO => {
            let mut info = [0; 128];
            match request_to(task, ask::SIGINFO, 0, 0, &mut info)? {
                n if n < 0 => n,
                _ => give(task, data, &info)?,
            }
        }
        ptrace::SETSIGINFO => match task.read::<128>(data) {
            Ok(mut info) => request_to(task, ask::SET_SIGINFO, 0, 128, &mut info)?,
            Err(e) => e,
        },
        ptrace::GETSIGMASK | ptrace::SETSIGMASK if addr != 8 => EINVAL,
        ptrace::GETSIGMASK => {
            let mut mask = [0; 8];
            match request_to(task, ask::MASK, 0, 0, &mut mask)? {
                n if n < 0 => n,
                _ => give(task, data, &mask)?,
            }
        }
        ptrace::SETSIGMASK => match task.read::<8>(data) {
            Ok(mut mask) => request_to(task, ask::SET_MASK, 0, 8, &mut mask)?,
            Err(e) => e,
        },
        ptrace::GET_SYSCALL_INFO => {
            let mut all = [0; 96];
            match request_to(task, ask::CALL, 0, 0, &mut all)? {
                n if n < 0 => n,
                n => {
                    let shown = (n as usize).min(addr as usize).min(all.len());
                    match give(task, data, &all[..shown])? {
                        0 => n,
                        e => e,
                    }
                }
            }
        }
        ptrace::LISTEN => match slot.take(LifeStep::Listens) {
            true => 0,
            false => ESRCH,
        },
        ptrace::CONT | ptrace::SYSCALL | ptrace::SINGLESTEP | ptrace::DETACH => {
            if data > 64 {
                return Ok(EIO);
            }
            slot.signal.store(data as u32, Ordering::Release);
            slot.resume.store(request, Ordering::Release);
            match slot.take(LifeStep::GoesOn) {
                true => 0,
                false => ESRCH,
            }
        }
        _ => refuse(call, libc::EIO),
    })
}

/// Writes a part of the outcome into the tracer's memory.
fn give(task: &mut Task, at: u64, bytes: &[u8]) -> Result<i64> {
    Ok(match answered(task.give(at, bytes))? {
        Ok(()) => 0,
        Err(e) => e,
    })
}

/// A stopped thread of a process that the calling process traces.
fn stopped(task: &Task, shm: &'static Shm, process: u32) -> Option<&'static Slot> {
    let own = task.process.pid;
    let mut all = SLOTS.of(shm).of_process(process);
    let found =
        all.find(|(_, s)| s.tracer.load(Ordering::Acquire) == own && s.state() == state::STOPPED);
    found.map(|(_, slot)| slot)
}

/// Whether the calling process traces a process, and it is stopped.
#[must_use]
pub fn has_stopped(task: &Task, process: u32) -> bool {
    let shm = crate::shm::shared().filter(|_| task.traits().traces);
    shm.is_some_and(|shm| stopped(task, shm, process).is_some())
}

/// The content of a file in `/proc` that shows the guest of a stopped tracee.
///
/// # Errors
/// The turn behind it is lost.
pub fn file(task: &mut Task, process: u32, file: u64) -> Result<Option<Vec<u8>>> {
    let shm = crate::shm::shared().filter(|_| task.traits().traces);
    let Some(slot) = shm.and_then(|shm| stopped(task, shm, process)) else {
        return Ok(None);
    };
    let mut all = Vec::new();
    loop {
        let request = TraceRequest {
            what: ask::FILE,
            argument: (all.len() as u64) << 8 | file,
            length: 0,
        };
        let mut part = [0; ROOM];
        let mut result = None;
        let mode = task.mode();
        mode.asleep(task, &mut || {
            result = slot.ask(request, &mut part);
            0
        })?;
        match result {
            Some(n @ 1..) => all.extend(&part[..n as usize]),
            Some(_) => return Ok(Some(all)),
            None => return Ok(None),
        }
    }
}

/// Writes to the memory of a stopped tracee of the calling process. `None`: the process is no such one.
///
/// # Errors
/// The turn behind it is lost.
pub fn write_memory(task: &mut Task, process: u32, at: u64, bytes: &[u8]) -> Result<Option<i64>> {
    let Some(shm) = crate::shm::shared().filter(|_| task.traits().traces) else {
        return Ok(None);
    };
    let Some(slot) = stopped(task, shm, process) else {
        return Ok(None);
    };
    let mut done = 0;
    for piece in bytes.chunks(ROOM) {
        let request = TraceRequest {
            what: ask::WRITE,
            argument: at.wrapping_add(done),
            length: piece.len(),
        };
        let mut copy = piece.to_vec();
        let mut result = None;
        let mode = task.mode();
        mode.asleep(task, &mut || {
            result = slot.ask(request, &mut copy);
            0
        })?;
        match result {
            Some(n @ 0..) => done += n as u64,
            _ if done == 0 => return Ok(Some(EIO)),
            _ => break,
        }
    }
    Ok(Some(done as i64))
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
