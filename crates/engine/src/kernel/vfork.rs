//! vfork(2) and posix_spawn(3): the child runs on the parent's memory until exec or exit,
//! while the parent's thread sleeps. The child takes the parent thread's place in the
//! address space (its baton slot, its context); what is the parent's is put aside.

use std::sync::Arc;

use relive_host::segments::Segments;
use relive_host::signal::{Mask, set_mask};
use relive_host::sys;
use relive_trace::{Kind, Origin, Start, TapeId};

use super::clone::CloneArgs;
use super::{Answer, Call, Reply};
use crate::failure::{Result, die};
use crate::forbidden::Forbidden;
use crate::live;
use crate::machine::{Mode as MachineMode, machine};
use crate::process::Process;
use crate::seccomp::Mode;
use crate::signals::TaskSignals;
use crate::tape::{Tape, TapeOut};
use crate::task::{Flow, Task};

/// What the parent goes on with.
pub struct Parent {
    process: Arc<Process>,
    index: u32,
    tid: u32,
    signals: TaskSignals,
    seccomp: (Option<Mode>, u32),
    forbidden: Forbidden,
    clear_tid: u64,
    robust: (u64, u64),
    tape: Tape,
    registers: Registers,
    /// Which tables the child has in common with it: CLONE_FILES, CLONE_SIGHAND.
    shares: CloneArgs,
    /// It is itself such a child: what its own parent goes on with.
    outer: Option<Box<Parent>>,
    /// Replay: what the tape says of the parent's call.
    answer: Option<(Call, Answer)>,
}

impl Parent {
    /// Its kernel thread id.
    pub fn tid(&self) -> u32 {
        self.tid
    }
}

struct Registers {
    segments: Segments,
    gpr: [u64; 16],
    rflags: u64,
    rip: u64,
    fs: u64,
    gs: u64,
    ticks: u64,
    xsave: Box<relive_host::context::XsaveArea>,
}

impl Registers {
    fn save(task: &Task) -> Self {
        let ctx = &task.ctx;
        Self {
            segments: task.segments,
            gpr: ctx.gpr,
            rflags: ctx.rflags,
            rip: ctx.rip,
            fs: ctx.guest_fs,
            gs: ctx.guest_gs,
            ticks: ctx.ticks(),
            xsave: Box::new(ctx.vectors()),
        }
    }

    fn restore(self, task: &mut Task) {
        task.segments = self.segments;
        let ctx = &mut task.ctx;
        (ctx.gpr, ctx.rflags, ctx.rip, ctx.guest_fs) = (self.gpr, self.rflags, self.rip, self.fs);
        ctx.guest_gs = self.gs;
        *ctx.vectors_mut() = *self.xsave;
        ctx.restart_ticks(self.ticks);
        (ctx.pending, ctx.noted) = (0, 0);
    }
}

/// vfork(2).
pub fn vfork(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    spawn(task, call, &CloneArgs::vfork(), answer)
}

/// A clone(2) that shares memory; the parent waits until the child has left it.
///
/// # Errors
/// Divergence.
pub fn spawn(
    task: &mut Task,
    call: &Call,
    args: &CloneArgs,
    answer: Option<&Answer>,
) -> Result<Reply> {
    if let Some(a) = answer {
        return replay_spawn(task, call, args, a);
    }
    let index = machine().shm.map_or(0, |s| s.new_process());
    let mut pidfd = -1;
    let mut birth = Birth {
        task: std::ptr::from_mut(task),
        index,
        args: *args,
    };
    // The child runs, and threads beside it, before the parent's call is logged.
    task.flush_readings();
    let parent = Box::new(put_aside(task, args, None));
    task.vforked = Some(parent);
    let old = set_mask(Mask::all_async());
    let host_stack = HostStack::new();
    machine().memory().translator.lend(true);
    // SAFETY: the child runs `child` on a stack of its own while this thread sleeps; both
    // `birth` and the stack outlive it.
    let pid = unsafe {
        libc::clone(
            child,
            host_stack.top(),
            libc::CLONE_VM | libc::CLONE_VFORK | args.for_host() as i32,
            (&raw mut birth).cast(),
            &raw mut pidfd,
        )
    };
    let errno = std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EAGAIN);
    drop(host_stack);
    if let Some(parent) = task.vforked.take() {
        take_back(task, *parent);
        live::new_slice(task);
    }
    if machine().mode == MachineMode::Record {
        let taken = machine().baton.regain(task);
        if taken.switched {
            // The child was killed while it slept, without the baton.
            crate::schedule::turn(task, taken.before);
        }
    }
    machine().memory().translator.lend(false);
    set_mask(old);
    if pid < 0 {
        return Ok(Reply::Value(-i64::from(errno)));
    }
    task.log.clear();
    task.log.extra.extend_from_slice(&index.to_le_bytes());
    super::tasks::give_pidfd(task, args, pidfd);
    Ok(Reply::Value(i64::from(pid)))
}

/// What the child begins with; on the parent's stack.
struct Birth {
    task: *mut Task,
    index: u32,
    args: CloneArgs,
}

extern "C" fn child(birth: *mut libc::c_void) -> i32 {
    // SAFETY: the parent sleeps in clone(2) until this process is gone from its memory.
    let birth = unsafe { &*birth.cast::<Birth>() };
    // SAFETY: as above: the task is used by nobody else.
    let task = unsafe { &mut *birth.task };
    let parent = task.id();
    let pid = std::process::id();
    become_child(task, birth.index, pid, &birth.args);
    if let (Some(shm), MachineMode::Record) = (machine().shm, machine().mode) {
        task.tape = Tape::Out(TapeOut::create(shm, task.id(), pid).unwrap_or_else(|e| die(&e)));
    }
    if machine().mode == MachineMode::Record {
        machine().baton.keep(crate::baton::keepers(task));
    }
    relive_host::signal::install_stack();
    task.record(Kind::Start(Start {
        origin: Origin::Vfork,
        parent,
        tid: pid,
        pid,
    }));
    own_ids(task, &birth.args);
    set_mask(task.signals.mask.for_host());
    live::run_in_place(task)
}

/// Moves what is the parent's out of the task.
fn put_aside(task: &mut Task, args: &CloneArgs, answer: Option<(Call, Answer)>) -> Parent {
    Parent {
        process: Arc::clone(&task.process),
        index: task.index,
        tid: task.tid,
        signals: task.signals.clone(),
        seccomp: (task.seccomp.clone(), task.filters_seen),
        forbidden: task.forbidden,
        clear_tid: task.clear_tid,
        robust: task.robust,
        tape: std::mem::replace(&mut task.tape, Tape::None),
        registers: Registers::save(task),
        shares: *args,
        outer: task.vforked.take(),
        answer,
    }
}

fn take_back(task: &mut Task, parent: Parent) -> Option<(Call, Answer)> {
    {
        let child = task.process.state();
        let mut own = parent.process.state();
        if parent.shares.has(libc::CLONE_SIGHAND) {
            own.actions = child.actions;
        }
        if parent.shares.has(libc::CLONE_FILES) {
            own.streams = child.streams.clone();
            crate::input::forget_many(false);
        }
    }
    (task.process, task.index, task.tid) = (parent.process, parent.index, parent.tid);
    (task.signals, task.clear_tid, task.robust, task.tape) =
        (parent.signals, parent.clear_tid, parent.robust, parent.tape);
    (task.seccomp, task.filters_seen) = parent.seccomp;
    task.forbid(parent.forbidden);
    task.vforked = parent.outer;
    parent.registers.restore(task);
    parent.answer
}

fn become_child(task: &mut Task, index: u32, pid: u32, args: &CloneArgs) {
    let mut state = task.process.state().clone();
    state.robust.clear();
    task.process = Arc::new(Process::new(index, pid, 1, state));
    (task.index, task.tid) = (0, pid);
    task.signals.held.clear();
    task.filters_seen = 0;
    (task.ctx.pending, task.ctx.noted) = (0, 0);
    (task.robust, task.clear_tid) = ((0, 24), 0);
    super::tasks::first_return(task, args.stack);
}

/// Ids and base of a child that has its own now: behind its first event, in both modes.
fn own_ids(task: &mut Task, args: &CloneArgs) {
    if args.has(libc::CLONE_PARENT_SETTID) {
        let _ = task.write(args.parent_tid, &task.tid.to_le_bytes());
    }
    super::tasks::own_ids(task, args);
}

fn replay_spawn(task: &mut Task, call: &Call, args: &CloneArgs, answer: &Answer) -> Result<Reply> {
    if answer.result <= 0 {
        return Ok(Reply::Value(answer.result));
    }
    let index = answer.child_index();
    let parent = put_aside(task, args, Some((*call, answer.clone())));
    task.vforked = Some(Box::new(parent));
    become_child(task, index, answer.result as u32, args);
    task.tape = crate::replay::open_tape(TapeId::new(index, 0))?;
    crate::replay::start_child(task, Origin::Vfork, false)?;
    own_ids(task, args);
    Ok(Reply::Flow(Flow::Continue))
}

/// Replay: the child has left the parent's memory; the parent's call returns. `false` if the
/// task is no vfork child.
///
/// # Errors
/// Divergence.
pub fn resume_parent(task: &mut Task) -> Result<bool> {
    let Some(parent) = task.vforked.take() else {
        return Ok(false);
    };
    if let Some((call, answer)) = take_back(task, *parent) {
        answer.finish(task, &call, answer.result)?;
        super::resume_after(task, &call, answer.result);
    }
    Ok(true)
}

/// A host stack for the child.
struct HostStack {
    base: u64,
}

impl HostStack {
    const SIZE: u64 = 512 * 1024;

    fn new() -> Self {
        let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        // SAFETY: a fresh anonymous mapping.
        let base = unsafe {
            sys::syscall(
                libc::SYS_mmap as u64,
                [0, Self::SIZE, prot, flags, u64::MAX, 0],
            )
        };
        assert!(base > 0, "no memory for a stack");
        Self { base: base as u64 }
    }

    fn top(&self) -> *mut libc::c_void {
        (self.base + Self::SIZE) as *mut libc::c_void
    }
}

impl Drop for HostStack {
    fn drop(&mut self) {
        // SAFETY: the child that used it has left this memory.
        unsafe { sys::syscall(libc::SYS_munmap as u64, [self.base, Self::SIZE, 0, 0, 0, 0]) };
    }
}
