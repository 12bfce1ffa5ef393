//! clone(2) and clone3(2): what is asked for, checked as the kernel checks it, and which of the
//! three ways of making a task it takes. Must never pass a flag on whose effect nobody follows.

use relive_host::{GuestAddr, copy};

use super::{Answer, Call, Reply, refuse};
use crate::failure::Result;
use crate::remarks::{self, Remark};
use crate::task::Task;

/// `CLONE_CLEAR_SIGHAND` of clone3(2): handlers are not inherited.
const CLEAR_SIGHAND: u64 = 1 << 32;
/// The exit signal in the flags of clone(2).
const CSIGNAL: u64 = 0xff;

const VM: u64 = libc::CLONE_VM as u64;
const FS: u64 = libc::CLONE_FS as u64;
const FILES: u64 = libc::CLONE_FILES as u64;
const SIGHAND: u64 = libc::CLONE_SIGHAND as u64;
const PIDFD: u64 = libc::CLONE_PIDFD as u64;
const VFORK: u64 = libc::CLONE_VFORK as u64;
const PARENT: u64 = libc::CLONE_PARENT as u64;
const THREAD: u64 = libc::CLONE_THREAD as u64;
const SYSVSEM: u64 = libc::CLONE_SYSVSEM as u64;
const UNTRACED: u64 = libc::CLONE_UNTRACED as u64;
const DETACHED: u64 = libc::CLONE_DETACHED as u64;
const IO: u64 = libc::CLONE_IO as u64;
/// What the engine does itself for the new task.
const OURS: u64 = (libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_SETTID
    | libc::CLONE_CHILD_CLEARTID) as u64
    | CLEAR_SIGHAND;
/// Without effect: nobody traces, and a bit that the kernel ignores.
const VOID: u64 = UNTRACED | libc::CLONE_PTRACE as u64 | DETACHED;

/// What a new task shares and where its ids go.
#[derive(Clone, Copy, Default)]
pub struct CloneArgs {
    /// CLONE_* bits, without the exit signal.
    pub flags: u64,
    /// Sent to the parent when it ends; 0 = none.
    pub signal: u64,
    /// First stack pointer; 0 = the parent's.
    pub stack: u64,
    /// Where the parent's descriptor of the child goes.
    pub pidfd: u64,
    /// Where its id goes in the parent's memory.
    pub parent_tid: u64,
    /// Where its id goes in its own memory.
    pub child_tid: u64,
    /// Its FS base.
    pub tls: u64,
}

impl CloneArgs {
    /// As fork(2).
    #[must_use]
    pub fn fork() -> Self {
        Self {
            signal: libc::SIGCHLD as u64,
            ..Self::default()
        }
    }

    /// As vfork(2).
    #[must_use]
    pub fn vfork() -> Self {
        Self {
            flags: VM | VFORK,
            ..Self::fork()
        }
    }

    /// Whether a CLONE_* flag is set.
    #[must_use]
    pub fn has(&self, flag: i32) -> bool {
        self.flags & flag as u64 != 0
    }

    /// What the host's own call of clone(2) says besides `CLONE_VM` and `CLONE_VFORK`: all that
    /// the kernel has to know of the new process.
    #[must_use]
    pub fn for_host(&self) -> u64 {
        self.flags & (FS | FILES | SIGHAND | PIDFD | PARENT | SYSVSEM | IO) | self.signal
    }

    /// Whether the child begins without its parent's signal actions.
    #[must_use]
    pub fn clears_actions(&self) -> bool {
        self.flags & CLEAR_SIGHAND != 0
    }
}

/// vfork(2).
pub fn vfork(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    let mode = task.mode();
    mode.vfork(task, call, &CloneArgs::vfork(), answer)
}

/// clone(2).
pub fn clone(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    let [flags, stack, parent_tid, child_tid, tls, _] = call.args;
    let flags = flags & 0xffff_ffff;
    let args = CloneArgs {
        flags: flags & !CSIGNAL,
        signal: flags & CSIGNAL,
        stack,
        // The old call has one argument for both, and takes one of them only.
        pidfd: parent_tid,
        parent_tid,
        child_tid,
        tls,
    };
    if flags & PIDFD != 0 && flags & (libc::CLONE_PARENT_SETTID as u64 | DETACHED) != 0 {
        return Ok(Reply::Value(-i64::from(libc::EINVAL)));
    }
    make(task, call, &args, answer)
}

/// clone3(2).
pub fn clone3(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    match decode(call.args[0], call.args[1]) {
        Ok(args) => make(task, call, &args, answer),
        Err(errno) => Ok(Reply::Value(-i64::from(errno))),
    }
}

/// Reads `struct clone_args` (clone(2), "The clone3() system call").
fn decode(at: u64, size: u64) -> std::result::Result<CloneArgs, i32> {
    const FIRST: usize = 64;
    const WORDS: usize = 11;
    const PAGE: u64 = 4096;
    if size < FIRST as u64 {
        return Err(libc::EINVAL);
    }
    if size > PAGE {
        return Err(libc::E2BIG);
    }
    let mut bytes = vec![0; size as usize];
    copy::read(GuestAddr(at), &mut bytes).map_err(|_| libc::EFAULT)?;
    bytes.resize(bytes.len().max(8 * WORDS), 0);
    if bytes[8 * WORDS..].iter().any(|&b| b != 0) {
        return Err(libc::E2BIG);
    }
    let w = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap_or_default());
    let [
        flags,
        pidfd,
        child_tid,
        parent_tid,
        signal,
        stack,
        stack_size,
        tls,
    ] = std::array::from_fn(w);
    let (set_tid, set_tid_size, cgroup) = (w(8), w(9), w(10));
    let known = 0xffff_ffff | CLEAR_SIGHAND;
    let (no_stack, no_size) = (stack == 0, stack_size == 0);
    if flags & !known != 0
        || flags & (DETACHED | CSIGNAL) != 0
        || signal > 64
        || flags & (THREAD | PARENT) != 0 && signal != 0
        || no_stack != no_size
        || (set_tid, set_tid_size, cgroup) != (0, 0, 0)
    {
        return Err(libc::EINVAL);
    }
    Ok(CloneArgs {
        flags,
        signal,
        stack: stack.wrapping_add(stack_size),
        pidfd,
        parent_tid,
        child_tid,
        tls,
    })
}

/// What the kernel refuses whatever it is asked for (clone(2), "ERRORS").
fn contradicts(flags: u64, signal: u64) -> bool {
    flags & SIGHAND != 0 && flags & VM == 0
        || flags & THREAD != 0 && flags & SIGHAND == 0
        || flags & (SIGHAND | CLEAR_SIGHAND) == SIGHAND | CLEAR_SIGHAND
        || flags & (THREAD | PIDFD) == THREAD | PIDFD
        || signal > 64
}

fn make(task: &mut Task, call: &Call, args: &CloneArgs, answer: Option<&Answer>) -> Result<Reply> {
    const SAME_THREADS: u64 = VM | FS | FILES | SIGHAND | THREAD;
    let shares = args.flags & !(OURS | VOID);
    if contradicts(args.flags, args.signal) {
        return Ok(Reply::Value(-i64::from(libc::EINVAL)));
    }
    if args.has(libc::CLONE_SETTLS) && args.tls >= relive_host::layout::FS_END {
        return Ok(Reply::Value(-i64::from(libc::EPERM)));
    }
    if shares & !(SYSVSEM | IO) == SAME_THREADS {
        return task.mode().clone_thread(task, args, answer);
    }
    // It is going to trace its parent, and waits until that is ready for it: as it is waited for
    // here, that would be for ever.
    const TRACER: u64 = VM | UNTRACED;
    if args.flags & (TRACER | VFORK) == TRACER {
        return Ok(Reply::Value(match answer {
            Some(a) => a.result,
            None => {
                remarks::note(Remark::Tracer, &task.process.state().exe);
                refuse(call, libc::EPERM)
            }
        }));
    }
    // A process that shares its parent's memory without being waited for is waited for here.
    const PROCESS: u64 = FS | FILES | SYSVSEM | IO | PIDFD | PARENT;
    if shares & !(PROCESS | VFORK | SIGHAND) == VM {
        return task.mode().vfork(task, call, args, answer);
    }
    if shares & !(PROCESS | VFORK) == 0 {
        return task.mode().fork(task, args, answer);
    }
    Ok(Reply::Value(
        answer.map_or_else(|| refuse(call, libc::EINVAL), |a| a.result),
    ))
}
