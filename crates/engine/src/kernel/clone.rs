//! clone(2) and clone3(2): the request, checked as the kernel checks it, and the way of making a task
//! that it takes. Must never pass on a flag whose effect the engine does not follow.

use relive_host::{GuestAddr, copy};

use super::operation::{Operation, Prepared, follow};
use super::refuse::refuse;
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::{
    CLEAR_SIGHAND, CloneArgs, DETACHED, FILES, FS, IO, NAMESPACES, PARENT, PIDFD, SIGHAND, SYSVSEM,
    THREAD, UNTRACED, VFORK, VM,
};
use crate::call::reply::Reply;
use crate::failure::Result;
use crate::ptrace::newcomers;
use crate::remarks::{self, Remark};
use crate::task::Task;

/// The exit signal in the flags of clone(2).
const CSIGNAL: u64 = 0xff;

/// The flags whose effect the engine itself brings about for the new task.
const OURS: u64 = (libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_SETTID
    | libc::CLONE_CHILD_CLEARTID) as u64
    | CLEAR_SIGHAND;
/// Flags without effect: no process traces the guest, and the kernel ignores one of the bits.
const VOID: u64 = UNTRACED | libc::CLONE_PTRACE as u64 | DETACHED;

/// fork(2).
pub fn fork(task: &mut Task, call: &Call, told: Option<&Answer>) -> Result<Reply> {
    if task.lodges {
        return follow::<ByLodger>(task, call, told);
    }
    make_task(task, call, CloneKind::Copy, &CloneArgs::fork(), told)
}

/// vfork(2).
pub fn vfork(task: &mut Task, call: &Call, told: Option<&Answer>) -> Result<Reply> {
    if task.lodges {
        return follow::<ByLodger>(task, call, told);
    }
    make_task(task, call, CloneKind::Visitor, &CloneArgs::vfork(), told)
}

/// clone(2).
pub fn clone(task: &mut Task, call: &Call, told: Option<&Answer>) -> Result<Reply> {
    make(task, call, from_registers(call), told)
}

/// clone3(2).
pub fn clone3(task: &mut Task, call: &Call, told: Option<&Answer>) -> Result<Reply> {
    let asked = read(call.args[0], call.args[1]).and_then(|bytes| decode(&bytes));
    make(task, call, asked, told)
}

/// The request, or an errno.
type Asked<T> = std::result::Result<T, i32>;

fn from_registers(call: &Call) -> Asked<CloneArgs> {
    let [flags, stack, parent_tid, child_tid, tls, _] = call.args;
    let flags = flags & 0xffff_ffff;
    if flags & PIDFD != 0 && flags & (libc::CLONE_PARENT_SETTID as u64 | DETACHED) != 0 {
        return Err(libc::EINVAL);
    }
    Ok(CloneArgs {
        flags: flags & !CSIGNAL,
        signal: flags & CSIGNAL,
        stack,
        // The old call has one argument for both, and takes one of them only.
        pidfd: parent_tid,
        parent_tid,
        child_tid,
        tls,
    })
}

/// Reads a `struct clone_args` of that size.
fn read(at: u64, size: u64) -> Asked<Vec<u8>> {
    const FIRST: u64 = 64;
    const PAGE: u64 = 4096;
    if size < FIRST {
        return Err(libc::EINVAL);
    }
    if size > PAGE {
        return Err(libc::E2BIG);
    }
    let mut bytes = vec![0; size as usize];
    copy::read(GuestAddr(at), &mut bytes).map_err(|_| libc::EFAULT)?;
    Ok(bytes)
}

/// The request in a `struct clone_args` (clone(2), "The clone3() system call").
fn decode(bytes: &[u8]) -> Asked<CloneArgs> {
    const WORDS: usize = 11;
    let (known, newer) = bytes.split_at(bytes.len().min(8 * WORDS));
    if newer.iter().any(|&b| b != 0) {
        return Err(libc::E2BIG);
    }
    let mut all = [0; 8 * WORDS];
    all[..known.len()].copy_from_slice(known);
    let words = all.as_chunks::<8>().0;
    let w = |i: usize| u64::from_le_bytes(words[i]);
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

/// Whether the kernel refuses this combination of flags and signal (clone(2), "ERRORS").
fn contradicts(flags: u64, signal: u64) -> bool {
    flags & SIGHAND != 0 && flags & VM == 0
        || flags & THREAD != 0 && flags & SIGHAND == 0
        || flags & (SIGHAND | CLEAR_SIGHAND) == SIGHAND | CLEAR_SIGHAND
        || flags & (THREAD | PIDFD) == THREAD | PIDFD
        || signal > 64
}

/// The ways of making a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CloneKind {
    /// A thread of the process.
    Thread,
    /// A process with a copy of the memory.
    Copy,
    /// A process in the memory of its parent, which waits until the child has left it.
    Visitor,
    /// A process that traces its parent, in whose memory it runs beside it.
    Tracer,
    /// No known way.
    Unknown,
}

impl CloneKind {
    /// The way that a call takes, or its errno.
    fn of(args: &CloneArgs) -> Asked<Self> {
        const SAME_THREADS: u64 = VM | FS | FILES | SIGHAND | THREAD;
        const PROCESS: u64 = FS | FILES | SYSVSEM | IO | PIDFD | PARENT | NAMESPACES;
        // Only the kernel knows the number that the parent has for such a child before it runs.
        const NUMBER: u64 = (libc::CLONE_NEWPID | libc::CLONE_PARENT_SETTID) as u64;
        // The child traces its parent, and waits until the parent is ready: the parent must not wait for it.
        const TRACER: u64 = VM | UNTRACED;
        let shares = args.flags & !(OURS | VOID);
        if contradicts(args.flags, args.signal) {
            return Err(libc::EINVAL);
        }
        if args.has(libc::CLONE_SETTLS) && args.tls >= relive_host::layout::FS_END {
            return Err(libc::EPERM);
        }
        Ok(if shares & !(SYSVSEM | IO) == SAME_THREADS {
            Self::Thread
        } else if args.flags & (TRACER | VFORK) == TRACER {
            Self::Tracer
        } else if args.flags & (VM | NUMBER) == VM | NUMBER {
            Self::Unknown
        } else if shares & !(PROCESS | VFORK | SIGHAND) == VM {
            // Without CLONE_VFORK the parent need not wait for such a child; here it waits.
            Self::Visitor
        } else if shares & !(PROCESS | VFORK) == 0 {
            Self::Copy
        } else {
            Self::Unknown
        })
    }
}

/// Makes a task, which is traced too if the tracer of its creator wants that.
fn make_task(
    task: &mut Task,
    call: &Call,
    way: CloneKind,
    args: &CloneArgs,
    told: Option<&Answer>,
) -> Result<Reply> {
    newcomers::makes(task, args);
    let mode = task.mode();
    let reply = match way {
        CloneKind::Thread => mode.clone_thread(task, args, told),
        CloneKind::Copy => mode.fork(task, args, told),
        _ => mode.vfork(task, call, args, told),
    }?;
    let id = match reply {
        Reply::Value(id) => id,
        _ => 0,
    };
    newcomers::made(task, id, way != CloneKind::Thread);
    Ok(reply)
}

fn make(
    task: &mut Task,
    call: &Call,
    asked: Asked<CloneArgs>,
    told: Option<&Answer>,
) -> Result<Reply> {
    if task.lodges {
        return follow::<ByLodger>(task, call, told);
    }
    let asked = asked.and_then(|args| Ok((CloneKind::of(&args)?, args)));
    match asked {
        Ok((way @ (CloneKind::Thread | CloneKind::Copy | CloneKind::Visitor), args)) => {
            make_task(task, call, way, &args, told)
        }
        Ok((CloneKind::Tracer, args)) => match task.mode().lodger(task, &args, told)? {
            Some(reply) => Ok(reply),
            None => follow::<Tracer>(task, call, told),
        },
        Ok((CloneKind::Unknown, _)) => follow::<Unknown>(task, call, told),
        Err(errno) => Ok(Reply::Value(-i64::from(errno))),
    }
}

/// A task of a process that lodges in another's memory: refused.
struct ByLodger;

impl Operation for ByLodger {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(_: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        Ok(refuse(call, libc::EPERM))
    }
}

/// A clone of [`CloneKind::Tracer`] that the mode does not make: refused.
struct Tracer;

impl Operation for Tracer {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        remarks::note(Remark::Tracer, &task.process.state().exe);
        Ok(refuse(call, libc::EPERM))
    }
}

/// A clone of [`CloneKind::Unknown`]: refused.
struct Unknown;

impl Operation for Unknown {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(_: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        Ok(refuse(call, libc::EINVAL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a `struct clone_args`.
    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    fn refused(words: &[u64]) -> Option<i32> {
        decode(&bytes(words)).err()
    }

    #[test]
    fn a_structure_of_any_version_is_understood() {
        let first = [PIDFD, 2, 3, 4, 17, 0x5000, 0x1000, 8];
        let longer = [&first[..], &[0; 5]].concat();
        for words in [&first[..], &longer] {
            let args = decode(&bytes(words)).expect("all of it is known");
            assert_eq!((args.flags, args.signal), (PIDFD, 17));
            assert_eq!((args.pidfd, args.child_tid, args.parent_tid), (2, 3, 4));
            assert_eq!((args.stack, args.tls), (0x6000, 8));
        }
        let newer = [&first[..], &[0, 0, 0, 1]].concat();
        assert_eq!(refused(&newer), Some(libc::E2BIG));
        // The size need not be one of a version.
        let ragged = |len: usize| [&bytes(&longer)[..len], &[1]].concat();
        assert_eq!(decode(&ragged(64)).err(), Some(libc::EINVAL));
        assert_eq!(decode(&ragged(88)).err(), Some(libc::E2BIG));
    }

    #[test]
    fn what_a_structure_may_not_say_is_refused() {
        for words in [
            [1 << 33, 0, 0, 0, 0, 0, 0, 0],
            [DETACHED, 0, 0, 0, 0, 0, 0, 0],
            [17, 0, 0, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 65, 0, 0, 0],
            [PARENT, 0, 0, 0, 17, 0, 0, 0],
            [0, 0, 0, 0, 0, 0x5000, 0, 0],
            [0, 0, 0, 0, 0, 0, 0x1000, 0],
        ] {
            assert_eq!(refused(&words), Some(libc::EINVAL), "{words:x?}");
        }
        for extra in [[1, 0, 0], [0, 1, 0], [0, 0, 1]] {
            let words = [&[0; 8][..], &extra].concat();
            assert_eq!(refused(&words), Some(libc::EINVAL), "{extra:?}");
        }
    }

    #[test]
    fn registers_say_the_same_in_fewer_words() {
        let call = |flags: u64| {
            let args = [flags, 0x6000, 2, 3, 8, 0];
            from_registers(&Call::of(libc::SYS_clone as u32, args))
        };
        let args = call(1 << 63 | FS | libc::SIGCHLD as u64).expect("all of it is known");
        assert_eq!((args.flags, args.signal), (FS, libc::SIGCHLD as u64));
        assert_eq!((args.stack, args.parent_tid), (0x6000, 2));
        assert_eq!((args.child_tid, args.tls), (3, 8));
        let both = PIDFD | libc::CLONE_PARENT_SETTID as u64;
        assert_eq!(call(both).err(), Some(libc::EINVAL));
    }

    #[test]
    fn the_flags_decide_the_way() {
        let way = |flags: u64| {
            let signal = 0;
            CloneKind::of(&CloneArgs {
                flags,
                signal,
                ..CloneArgs::default()
            })
        };
        let thread = VM | FS | FILES | SIGHAND | THREAD;
        assert_eq!(
            way(thread | SYSVSEM | OURS & !CLEAR_SIGHAND),
            Ok(CloneKind::Thread)
        );
        assert_eq!(way(0), Ok(CloneKind::Copy));
        assert_eq!(way(VFORK | FILES), Ok(CloneKind::Copy));
        assert_eq!(way(VM | VFORK), Ok(CloneKind::Visitor));
        assert_eq!(way(VM | SIGHAND), Ok(CloneKind::Visitor));
        assert_eq!(way(VM | UNTRACED), Ok(CloneKind::Tracer));
        assert_eq!(way(VM | VFORK | UNTRACED), Ok(CloneKind::Visitor));
        // A thread with descriptors of its own; a namespace.
        assert_eq!(way(thread & !FILES), Ok(CloneKind::Unknown));
        assert_eq!(
            way(thread | libc::CLONE_NEWNS as u64),
            Ok(CloneKind::Unknown)
        );
        assert_eq!(way(NAMESPACES), Ok(CloneKind::Copy));
        assert_eq!(way(NAMESPACES | VM | VFORK), Ok(CloneKind::Visitor));
        assert_eq!(way(THREAD), Err(libc::EINVAL));
        assert_eq!(way(thread | PIDFD), Err(libc::EINVAL));
        let far = CloneArgs {
            flags: thread | libc::CLONE_SETTLS as u64,
            tls: relive_host::layout::FS_END,
            ..CloneArgs::default()
        };
        assert_eq!(CloneKind::of(&far), Err(libc::EPERM));
    }
}
