//! A vfork child runs in its parent's task: it takes over the context and the place in the schedule,
//! and what is the parent's is put aside here until the child has left. The same in all modes.

use std::sync::Arc;

use relive_host::segments::Segments;

use crate::forbidden::Forbidden;
use crate::kernel::clone::CloneArgs;
use crate::kernel::{Answer, Call};
use crate::process::Process;
use crate::seccomp::Mode;
use crate::signals::TaskSignals;
use crate::tape::Tape;
use crate::task::Task;

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

/// Moves what is the parent's out of the task; `answer` is what a tape says of its call.
pub fn put_aside(task: &mut Task, args: &CloneArgs, answer: Option<(Call, Answer)>) {
    let parent = Parent {
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
    };
    task.vforked = Some(Box::new(parent));
}

/// Gives the task back to the parent, whose registers are those before its call. The call and what
/// a tape says of it; `None` also if the task is no vfork child.
pub fn take_back(task: &mut Task) -> Option<(Call, Answer)> {
    let parent = *task.vforked.take()?;
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
