//! What a new task has of its parent: the rules of clone(2), fork(2) and vfork(2), the same in all
//! modes. It makes no task run and asks no kernel.

use std::sync::Arc;

use relive_host::{GuestAddr, Reg};
use relive_trace::{Kind, Origin, Start, TapeId};

use crate::kernel::clone::CloneArgs;
use crate::kernel::go_behind;
use crate::machine::machine;
use crate::process::Process;
use crate::tape::Tape;
use crate::task::Task;

/// The task of a new thread of the process, which stands behind the call of its parent.
pub fn thread(task: &Task, args: &CloneArgs, index: u32, tid: u32, tape: Tape) -> Box<Task> {
    let process = Arc::clone(&task.process);
    let mut child = Box::new(Task::new(process, index, tid, tape));
    child.ctx.gpr = task.ctx.gpr;
    child.ctx.rflags = task.ctx.rflags;
    child.ctx.rip = task.ctx.rip;
    *child.ctx.vectors_mut() = task.ctx.vectors();
    child.ctx.guest_fs = if args.has(libc::CLONE_SETTLS) {
        args.tls
    } else {
        task.ctx.guest_fs
    };
    child.ctx.guest_gs = task.ctx.guest_gs;
    child.signals.mask = task.signals.mask;
    child.signals.trap = task.signals.trap;
    child.comm = task.comm;
    child.forbid(task.forbidden);
    child.seccomp.clone_from(&task.seccomp);
    child.filters_seen = task.filters_seen;
    if args.has(libc::CLONE_CHILD_CLEARTID) {
        child.clear_tid = args.child_tid;
    }
    first_return(&mut child, args.stack);
    child
}

/// Sets the registers of a new task as its first return from the call.
pub fn first_return(task: &mut Task, stack: u64) {
    go_behind(task, GuestAddr(task.ctx.rip + 2));
    task.ctx.set_reg(Reg::Rax, 0);
    if stack != 0 {
        task.ctx.set_reg(Reg::Rsp, stack);
    }
}

/// Turns the task that has just been forked into the first thread of its own process.
pub fn forked(task: &mut Task, index: u32, pid: u32) {
    machine().memory().forked();
    let mut state = task.process.state().clone();
    state.death_signal = 0;
    state.robust.clear();
    task.process = Arc::new(Process::new(index, pid, 1, state));
    (task.index, task.slot, task.tid) = (0, 0, pid);
    fresh(task);
    task.vforked = None;
}

/// The task runs a vfork child now, in its parent's place; stack and ids are the child's.
pub fn vforked(task: &mut Task, index: u32, pid: u32, args: &CloneArgs) {
    let mut state = task.process.state().clone();
    state.robust.clear();
    task.process = Arc::new(Process::new(index, pid, 1, state));
    (task.index, task.tid) = (0, pid);
    fresh(task);
    first_return(task, args.stack);
}

/// No signal is pending for a new process, and its first thread has told the kernel nothing.
fn fresh(task: &mut Task) {
    task.signals.held.clear();
    (task.ctx.pending, task.ctx.noted) = (0, 0);
    (task.robust, task.clear_tid) = ((0, 24), 0);
    task.filters_seen = 0;
}

/// First event and first return of a forked child.
pub fn begin_forked(task: &mut Task, args: &CloneArgs, parent: TapeId) {
    let start = Start {
        origin: Origin::Fork,
        parent,
        tid: task.tid,
        pid: task.process.pid,
    };
    task.record(Kind::Start(start));
    first_return(task, args.stack);
    own_ids(task, args);
}

/// FS base, words for its id and actions of a new process.
pub fn own_ids(task: &mut Task, args: &CloneArgs) {
    if args.has(libc::CLONE_SETTLS) {
        task.ctx.guest_fs = args.tls;
    }
    if args.has(libc::CLONE_CHILD_SETTID) {
        let _ = task.write(args.child_tid, &task.tid.to_le_bytes());
    }
    if args.has(libc::CLONE_CHILD_CLEARTID) {
        task.clear_tid = args.child_tid;
    }
    args.clear_actions(task);
}

/// Behind the first event of a vfork child, which has ids and an FS base of its own.
pub fn begin_vforked(task: &mut Task, args: &CloneArgs) {
    if args.has(libc::CLONE_PARENT_SETTID) {
        let _ = task.write(args.parent_tid, &task.tid.to_le_bytes());
    }
    own_ids(task, args);
}
