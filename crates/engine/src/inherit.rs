//! The state that a new thread, a new process and a new program inherit: the rules of clone(2), fork(2),
//! vfork(2) and execve(2), as functions from a description to a description. The same in all modes. They
//! must never ask the kernel, and no other code may decide which state is inherited.
//!
//! | of a thread | thread | fork | vfork | exec | page |
//! |---|---|---|---|---|---|
//! | `index`, `slot` | new | 0 | 0; the parent's | kept; as `index` | |
//! | `tid` | new | new | new | the process's | execve(2) |
//! | `ticks` | 0 | kept | kept | kept | |
//! | `steps`, `exact`, `parked` | a new position | same | same | same | |
//! | general registers, `rip` | kept ¹ | kept ¹ | kept ¹ | the image's | clone(2) |
//! | `fs` | kept, or CLONE_SETTLS | same | same | the image's | clone(2) |
//! | `gs`, extended state | kept | kept | kept | initial | fork(2), execve(2) |
//! | DS, ES | kept | kept | kept | initial | |
//! | signal mask | kept | kept | kept | kept | signal(7) |
//! | pending signals | none | none | none | kept | signal(7) |
//! | alternate stack | none | kept | kept with CLONE_VFORK | none; its flags kept | sigaltstack(2) |
//! | interrupted call, mask behind it | none | none | none | none | |
//! | last fault | kept | kept | kept | kept | |
//! | `clear_tid` | CLONE_CHILD_CLEARTID | same | same | none | set_tid_address(2) |
//! | `robust` | none | none | none | none | get_robust_list(2) |
//! | `comm` | kept | kept | kept | the file's | PR_SET_NAME(2const) |
//! | `trap_flag` | clear | kept | kept | clear | |
//! | `forbidden` | kept | kept | kept | the counter kept | PR_SET_TSC(2const), arch_prctl(2) |
//! | `seccomp` | kept | kept | kept | kept | seccomp(2) |
//! | `filters_seen` | kept | 0 | 0 | 0 | seccomp(2) |
//!
//! | of a process | fork, vfork | exec | page |
//! |---|---|---|---|
//! | `index`, `pid` | new | kept | |
//! | `next_thread` | 1 | kept | |
//! | `filters_set`, `filter` | 0, none | 0, none | seccomp(2) |
//! | `actions` | kept ² ³ | ignored ones kept | signal(7), clone(2) |
//! | `streams` | kept ³ | the open ones | fcntl(2) |
//! | `exe`, `environ`, `auxv` | kept | new | proc(5) |
//! | lists of `robust` | none | none | get_robust_list(2) |
//! | `dumpable` | kept ³ | 1 | PR_SET_DUMPABLE(2const) |
//! | `death_signal` | 0 | kept | PR_SET_PDEATHSIG(2const) |
//! | `personality` | kept | kept | personality(2) |
//! | `limits` | kept | kept | getrlimit(2) |
//! | `retained_fds` | kept | kept | |
//!
//! A process beside its parent in the same memory (`CLONE_UNTRACED`) inherits as a vfork child does without
//! `CLONE_VFORK`, but for `index`, `slot` and `ticks`, which are a new thread's, and its `index` as a process, which is
//! its parent's.
//!
//! ¹ At the parent's call, from which it then returns for the first time ([`first_return`]).
//! ² Only the ignored ones with CLONE_CLEAR_SIGHAND.
//! ³ The parent takes back the state that it shares with a vfork child as the child leaves:
//!   [`State::take_back`].

use std::collections::VecDeque;
use std::sync::Arc;

use relive_host::signal::KernelAction;
use relive_host::{GuestAddr, Reg};
use relive_trace::{Kind, Origin, Start, StreamFd, TapeId};

use crate::call::clone_args::CloneArgs;
use crate::call::go_behind;
use crate::failure::{Result, answered};
use crate::forbidden::Forbidden;
use crate::process::Process;
use crate::process::state::{Actions, ProcessState, State};
use crate::sigaction::{SIG_DFL, SIG_IGN};
use crate::streams::Streams;
use crate::tape::Tape;
use crate::task::Task;
use crate::task::plain_task::{NO_ROBUST_LIST, TaskState, ThreadRegisters, comm};
use crate::task::signal_state::{AltStack, TaskSignals};
use crate::trap_flag::TrapFlag;

impl TaskState {
    /// A new thread of the process.
    #[must_use]
    pub fn for_thread(self, args: &CloneArgs, index: u32, tid: u32) -> Self {
        let filters_seen = self.filters_seen;
        let mut child = self.for_child(args, index, tid);
        child.signals.altstack = AltStack::RESET;
        Self {
            slot: index,
            ticks: 0,
            trap_flag: TrapFlag::Off,
            filters_seen,
            ..child
        }
    }

    /// The first thread of a process with a copy of the memory.
    #[must_use]
    pub fn for_fork(self, args: &CloneArgs, tid: u32) -> Self {
        Self {
            slot: 0,
            ..self.for_child(args, 0, tid)
        }
    }

    /// The first thread of a process that uses its parent's memory, in its parent's task.
    #[must_use]
    pub fn for_vfork(self, args: &CloneArgs, tid: u32) -> Self {
        let mut child = self.for_child(args, 0, tid);
        if !args.has(libc::CLONE_VFORK) {
            child.signals.altstack = AltStack::RESET;
        }
        child
    }

    /// The thread of a process that uses its parent's memory beside it: as such a child without `CLONE_VFORK`.
    #[must_use]
    pub fn for_lodger(self, args: &CloneArgs, index: u32, tid: u32) -> Self {
        Self {
            index,
            slot: index,
            ticks: 0,
            ..self.for_vfork(args, tid)
        }
    }

    /// The common part of all new threads, at the call of the parent.
    fn for_child(self, args: &CloneArgs, index: u32, tid: u32) -> Self {
        let mut registers = self.registers;
        if args.has(libc::CLONE_SETTLS) {
            registers.fs = args.tls;
        }
        let clears = args.has(libc::CLONE_CHILD_CLEARTID);
        Self {
            index,
            tid,
            steps: 0,
            exact: true,
            parked: false,
            registers,
            signals: self.signals.for_child(),
            clear_tid: if clears { args.child_tid } else { 0 },
            robust: NO_ROBUST_LIST,
            filters_seen: 0,
            ..self
        }
    }

    /// The thread that goes on with the program of the file at `path`, whose image has the first
    /// registers.
    #[must_use]
    pub fn after_exec(self, pid: u32, path: &[u8]) -> Self {
        Self {
            tid: pid,
            slot: self.index,
            steps: 0,
            exact: true,
            parked: false,
            registers: ThreadRegisters::default(),
            signals: TaskSignals {
                altstack: self.signals.altstack.after_exec(),
                ..self.signals.behind_call()
            },
            clear_tid: 0,
            robust: NO_ROBUST_LIST,
            comm: comm(path.rsplit(|&b| b == b'/').next().unwrap_or(path)),
            trap_flag: TrapFlag::Off,
            forbidden: Forbidden {
                cpuid: false,
                ..self.forbidden
            },
            filters_seen: 0,
            ..self
        }
    }
}

impl TaskSignals {
    /// The signal state of a thread behind a call that no signal has interrupted.
    fn behind_call(self) -> Self {
        Self {
            saved_mask: None,
            restart: None,
            ..self
        }
    }

    /// The signal state of a new thread: pending signals stay with its creator.
    fn for_child(self) -> Self {
        Self {
            held: VecDeque::new(),
            ..self.behind_call()
        }
    }
}

/// The parts of its program that a process shows.
pub struct ProgramView {
    /// The path of its file.
    pub exe: Vec<u8>,
    /// Its environment, as it began.
    pub environ: Vec<u8>,
    /// Its auxiliary vector.
    pub auxv: Vec<u8>,
    /// The streams to which its descriptors lead.
    pub streams: Vec<StreamFd>,
}

impl ProcessState {
    /// A process with a copy of the memory, or in the memory of its parent.
    #[must_use]
    pub fn for_child(self, args: &CloneArgs, index: u32, pid: u32) -> Self {
        let mut state = self.state;
        if args.clears_actions() {
            state.actions = ignored(&state.actions);
        }
        state.robust.clear();
        state.filter = None;
        state.death_signal = 0;
        Self {
            state,
            ..Self::new(index, pid)
        }
    }

    /// The process with a new program.
    #[must_use]
    pub fn after_exec(self, shown: ProgramView) -> Self {
        let streams = shown.streams.iter().map(|s| (s.fd as i32, s.stream));
        let old = self.state;
        Self {
            filters_set: 0,
            state: State {
                actions: ignored(&old.actions),
                streams: Streams::from_pairs(streams),
                exe: shown.exe,
                environ: shown.environ,
                auxv: shown.auxv,
                death_signal: old.death_signal,
                personality: old.personality,
                limits: old.limits,
                retained_fds: old.retained_fds,
                ..State::default()
            },
            ..self
        }
    }
}

impl State {
    /// Takes over the changes that a child in the memory of its parent has made for both.
    pub fn take_back(&mut self, child: &Self, args: &CloneArgs) {
        self.dumpable = child.dumpable;
        if args.has(libc::CLONE_SIGHAND) {
            self.actions = child.actions;
        }
        if args.has(libc::CLONE_FILES) {
            self.streams = child.streams.clone();
        }
    }
}

/// Signal actions with all but those that ignore their signal reset, as the kernel resets them.
fn ignored(old: &Actions) -> Actions {
    old.map(|action| KernelAction {
        handler: match action.handler {
            SIG_IGN => SIG_IGN,
            _ => SIG_DFL,
        },
        ..KernelAction::default()
    })
}

/// The task of a new thread of the process, which stands behind the call of its parent.
pub fn thread(task: &Task, args: &CloneArgs, index: u32, tid: u32, tape: Tape) -> Box<Task> {
    let process = Arc::clone(&task.process);
    let mut child = Box::new(Task::new(task.machine(), process, index, tid, tape));
    child.set_mode(task.mode());
    child.restore(task.capture().for_thread(args, index, tid));
    first_return(&mut child, args);
    child
}

/// Turns the task that has just been forked into the first thread of its own process.
///
/// # Errors
/// It has more of its parent's memory than it may.
pub fn forked(task: &mut Task, args: &CloneArgs, index: u32, pid: u32) -> Result<()> {
    task.machine().memory().forked()?;
    task.restore(task.capture().for_fork(args, pid));
    task.process = Process::restore(task.process.capture().for_child(args, index, pid));
    task.vforked = None;
    Ok(())
}

/// Turns the task into a vfork child, in its parent's place, with the child's stack and ids.
pub fn vforked(task: &mut Task, args: &CloneArgs, index: u32, pid: u32) {
    task.restore(task.capture().for_vfork(args, pid));
    task.process = Process::restore(task.process.capture().for_child(args, index, pid));
    first_return(task, args);
}

/// The task of a process that uses its parent's memory beside it, and stands behind the call of its parent.
pub fn lodger(task: &Task, args: &CloneArgs, index: u32, pid: u32, tape: Tape) -> Box<Task> {
    let state = task
        .process
        .capture()
        .for_child(args, task.process.index, pid);
    let process = Process::restore(state);
    let mut child = Box::new(Task::new(task.machine(), process, index, pid, tape));
    child.set_mode(task.mode());
    child.restore(task.capture().for_lodger(args, index, pid));
    child.lodges = true;
    first_return(&mut child, args);
    child
}

/// The same has its id.
pub fn lodger_is(task: &mut Task, pid: u32) {
    task.tid = pid;
    task.process = Process::restore(ProcessState {
        pid,
        ..task.process.capture()
    });
}

/// The first return of a new task from its parent's call, with its own stack.
fn first_return(task: &mut Task, args: &CloneArgs) {
    let next = GuestAddr(task.ctx.rip + 2);
    go_behind(&mut task.ctx, next);
    task.ctx.set_reg(Reg::Rax, 0);
    if args.stack != 0 {
        task.ctx.set_reg(Reg::Rsp, args.stack);
    }
}

/// Makes the first event and the first return of a forked child.
///
/// # Errors
/// The event is lost.
pub fn begin_forked(task: &mut Task, args: &CloneArgs, parent: TapeId) -> Result<()> {
    let start = Start {
        origin: Origin::Fork,
        parent,
        tid: task.tid,
        pid: task.process.pid,
    };
    task.record(Kind::Start(start))?;
    first_return(task, args);
    begin_process(task, args)
}

/// Begins a vfork child, behind its first event.
///
/// # Errors
/// A page cannot be opened.
pub fn begin_vforked(task: &mut Task, args: &CloneArgs) -> Result<()> {
    if args.has(libc::CLONE_PARENT_SETTID) {
        let _ = answered(task.write(args.parent_tid, &task.tid.to_le_bytes()))?;
    }
    begin_process(task, args)
}

/// Writes the child's id, and gives the kernel the actions of a new process.
fn begin_process(task: &mut Task, args: &CloneArgs) -> Result<()> {
    if args.has(libc::CLONE_CHILD_SETTID) {
        let _ = answered(task.write(args.child_tid, &task.tid.to_le_bytes()))?;
    }
    if args.clears_actions() {
        task.show_actions();
    }
    Ok(())
}
