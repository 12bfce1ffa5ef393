//! Making and ending guest threads and processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use relive_host::signal::{Mask, set_mask};
use relive_host::{GuestAddr, Reg, sys};
use relive_trace::{Ending, Kind, Origin, Start, TapeId};

use super::clone::CloneArgs;
use super::{Answer, Call, Reply, fds, go_behind, sharing};
use crate::failure::{Result, die};
use crate::live;
use crate::machine::{Mode, machine};
use crate::process::Process;
use crate::schedule::{self, Schedule};
use crate::tape::{Tape, TapeOut};
use crate::task::{End, Flow, Task};

/// fork(2).
pub fn fork(task: &mut Task, _: &Call, answer: Option<&Answer>) -> Result<Reply> {
    fork_with(task, &CloneArgs::fork(), answer)
}

/// Sets the registers of a new task as its first return from the call.
pub fn first_return(task: &mut Task, stack: u64) {
    go_behind(task, GuestAddr(task.ctx.rip + 2));
    task.ctx.set_reg(Reg::Rax, 0);
    if stack != 0 {
        task.ctx.set_reg(Reg::Rsp, stack);
    }
}

/// Makes a thread of the process.
///
/// # Errors
/// Divergence.
pub fn thread(task: &mut Task, args: &CloneArgs, answer: Option<&Answer>) -> Result<Reply> {
    let process = Arc::clone(&task.process);
    if let Some(a) = answer {
        if a.result > 0 {
            let index = a.child_index();
            process.seen_thread(index);
            let tape = crate::replay::open_tape(TapeId::new(process.index, index))?;
            let child = child_thread(task, args, process, index, a.result as u32, tape);
            crate::replay::add_task(task, child);
        }
        return Ok(Reply::Value(a.result));
    }
    let index = process.new_thread();
    let tape = match (&machine().shm, machine().mode) {
        (Some(shm), Mode::Record) => Tape::Out(TapeOut::create(
            *shm,
            TapeId::new(process.index, index),
            process.pid,
        )?),
        _ => Tape::None,
    };
    let child = child_thread(task, args, process, index, 0, tape);
    let parent = task.id();
    machine().baton.count(1);
    let words = [
        (libc::CLONE_PARENT_SETTID, args.parent_tid),
        (libc::CLONE_CHILD_SETTID, args.child_tid),
    ]
    .map(|(flag, at)| if args.has(flag) { at } else { 0 });
    let tid = match start_host_thread(child, parent, words) {
        Ok(tid) => tid,
        Err(errno) => {
            machine().baton.count(-1);
            return Ok(Reply::Value(-i64::from(errno)));
        }
    };
    // The slice at hand may be that of a thread that was alone.
    crate::live::new_slice(task);
    task.log.extra.extend_from_slice(&index.to_le_bytes());
    words.into_iter().for_each(|at| task.log.wrote(at, 4));
    Ok(Reply::Value(i64::from(tid)))
}

fn child_thread(
    task: &Task,
    args: &CloneArgs,
    process: Arc<Process>,
    index: u32,
    tid: u32,
    tape: Tape,
) -> Box<Task> {
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

/// What a new host thread begins with.
struct Birth {
    task: Box<Task>,
    parent: TapeId,
    /// Guest words that hold its id before it runs; 0 = none.
    words: [u64; 2],
    /// Set to the kernel's thread id by the new thread.
    tid: *const AtomicU32,
}

fn start_host_thread(
    task: Box<Task>,
    parent: TapeId,
    words: [u64; 2],
) -> std::result::Result<u32, i32> {
    const STACK: usize = 512 * 1024;
    let tid = AtomicU32::new(0);
    let birth = Box::into_raw(Box::new(Birth {
        task,
        parent,
        words,
        tid: &raw const tid,
    }));
    let old = set_mask(Mask::all_async());
    // SAFETY: the attributes are initialised before use; `birth` is handed over to the new
    // thread, or taken back when there is none.
    let error = unsafe {
        let mut attr: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attr);
        libc::pthread_attr_setstacksize(&raw mut attr, STACK);
        libc::pthread_attr_setdetachstate(&raw mut attr, libc::PTHREAD_CREATE_DETACHED);
        let mut id = 0;
        let e = libc::pthread_create(&raw mut id, &raw const attr, host_thread, birth.cast());
        libc::pthread_attr_destroy(&raw mut attr);
        e
    };
    set_mask(old);
    if error != 0 {
        // SAFETY: no thread has taken it.
        drop(unsafe { Box::from_raw(birth) });
        return Err(error);
    }
    while tid.load(Ordering::Acquire) == 0 {
        sys::futex_wait(&tid, 0, None);
    }
    Ok(tid.load(Ordering::Acquire))
}

extern "C" fn host_thread(birth: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: made by `start_host_thread` for this thread alone.
    let Birth {
        mut task,
        parent,
        words,
        tid,
    } = *unsafe { Box::from_raw(birth.cast::<Birth>()) };
    task.tid = sys::gettid();
    // A bad address is no reason to fail: the kernel ignores it too.
    words
        .into_iter()
        .filter(|&at| at != 0)
        .for_each(|at| task.write(at, &task.tid.to_le_bytes()).unwrap_or(()));
    {
        // SAFETY: the parent waits until this word changes; afterwards it is not touched
        // (waking a futex does not read it).
        let word = unsafe { &*tid };
        word.store(task.tid, Ordering::Release);
        sys::futex_wake(word, 1);
    }
    live::prepare_thread(&mut task);
    if machine().mode == Mode::Record {
        let taken = machine().baton.take(&task);
        schedule::turn(&task, taken.before);
    }
    let start = Start {
        origin: Origin::Thread,
        parent,
        tid: task.tid,
        pid: task.process.pid,
    };
    task.record(Kind::Start(start));
    live::run(task);
    std::ptr::null_mut()
}

/// Behind the child's index in the data of a fork: the child waits for its first turn.
const MEMBER: u8 = 1;

/// Before a fork while recording: a parent with memory that its child will share becomes a
/// member of the group. Says whether the child begins as one.
fn share_with_child(task: &mut Task, child: u32) -> Result<bool> {
    if machine().mode != Mode::Record {
        return Ok(false);
    }
    let (common, files) = {
        let memory = machine().memory();
        let shared = memory.space.iter().filter(|r| r.shared);
        let files: Vec<(u64, bool)> = shared.map(|r| (r.inode, r.common)).collect();
        (files.iter().any(|f| f.1), files)
    };
    if common {
        sharing::join(task)?;
    }
    let member = machine().baton.expect_child(child, !files.is_empty())?;
    for (file, writes) in files.into_iter().filter(|f| f.0 != 0) {
        sharing::note_user(file, child, writes)?;
    }
    Ok(member)
}

/// Makes a process with a copy of the memory.
///
/// # Errors
/// Divergence.
pub fn fork_with(task: &mut Task, args: &CloneArgs, answer: Option<&Answer>) -> Result<Reply> {
    if let Some(a) = answer {
        return replay_fork(task, args, a);
    }
    let shm = machine().shm;
    let index = shm.map_or(0, |s| s.new_process());
    let parent = task.id();
    let member = share_with_child(task, index)?;
    if args.has(libc::CLONE_FILES) {
        fds::share(task);
    }
    let mut memory = machine().memory();
    memory.translator.about_to_fork();
    let frozen = machine().baton.freeze();
    let state = task.process.state();
    let old = set_mask(Mask::all_async());
    let recorder = shm.filter(|_| machine().mode == Mode::Record);
    if let Some(shm) = recorder {
        shm.begin_fork();
    }
    let mut pidfd = -1;
    // One that shares memory with its child takes turns with it, and must be there for that.
    let waits = args.has(libc::CLONE_VFORK) && !member && machine().baton.single();
    let pid = fork_host(args, waits, &mut pidfd);
    drop((state, frozen, memory));
    if pid == 0 {
        crate::stats::begin();
        become_child(task, index, std::process::id());
        if let (Some(shm), Mode::Record) = (shm, machine().mode) {
            let tape =
                TapeOut::create(shm, task.id(), task.process.pid).unwrap_or_else(|e| die(&e));
            task.tape = Tape::Out(tape);
            shm.end_fork();
            *machine().schedule() = Schedule::new(index);
            let baton = &machine().baton;
            baton.start_over(index);
            if member {
                baton.child_is(index, Some(task.tid));
                let taken = baton.first_turn(task);
                schedule::turn(task, taken.before);
            }
        }
        begin_child(task, args, parent);
        set_mask(task.signals.mask.for_host());
        return Ok(Reply::Returned);
    }
    set_mask(old);
    machine().baton.child_is(index, u32::try_from(pid).ok());
    if pid < 0 {
        if let Some(shm) = recorder {
            shm.end_fork();
        }
        return Ok(Reply::Value(pid));
    }
    let pid = pid as i32;
    task.log.extra.extend_from_slice(&index.to_le_bytes());
    if member {
        task.log.extra.push(MEMBER);
    }
    if args.has(libc::CLONE_PARENT_SETTID)
        && task.write(args.parent_tid, &pid.to_le_bytes()).is_ok()
    {
        task.log.wrote(args.parent_tid, 4);
    }
    give_pidfd(task, args, pidfd);
    Ok(Reply::Value(i64::from(pid)))
}

/// Tells the parent the descriptor of its child.
pub fn give_pidfd(task: &mut Task, args: &CloneArgs, pidfd: i32) {
    if !args.has(libc::CLONE_PIDFD) {
        return;
    }
    fds::created(task, pidfd);
    if task.write(args.pidfd, &pidfd.to_le_bytes()).is_ok() {
        task.log.wrote(args.pidfd, 4);
    }
}

/// Forks the host; as the kernel answers, in both. With `waits` the parent sleeps until the child
/// executes a program or ends.
fn fork_host(args: &CloneArgs, waits: bool, pidfd: &mut i32) -> i64 {
    let vfork = if waits { libc::CLONE_VFORK as u64 } else { 0 };
    let flags = args.for_host() | vfork;
    if flags == libc::SIGCHLD as u64 {
        // SAFETY: the C library makes its own locks usable in the child; ours
        // are held, by this thread: all that other threads may hold at this moment.
        let pid = unsafe { libc::fork() };
        return match pid {
            0.. => i64::from(pid),
            _ => -i64::from(
                std::io::Error::last_os_error()
                    .raw_os_error()
                    .unwrap_or(libc::EAGAIN),
            ),
        };
    }
    // What the C library notes of the calling thread's id has to be the child's in the child:
    // where it is, the kernel knows from the start of the thread.
    let mut own = 0u64;
    // SAFETY: fills the word.
    let known = unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut own) } == 0 && own != 0;
    let settid = if known {
        libc::CLONE_CHILD_SETTID as u64
    } else {
        0
    };
    // SAFETY: as a fork: the child has a copy of all memory and goes on behind the call on a
    // copy of the stack. No other thread is inside the C library's allocator: they wait for the
    // baton, or sleep in the kernel.
    (unsafe {
        sys::syscall(
            libc::SYS_clone as u64,
            [
                flags | settid,
                0,
                std::ptr::from_mut(pidfd) as u64,
                own,
                0,
                0,
            ],
        )
    }) as i64
}

/// Turns the task that has just been forked into the first thread of its own process.
fn become_child(task: &mut Task, index: u32, pid: u32) {
    machine().memory().forked();
    let mut state = task.process.state().clone();
    state.death_signal = 0;
    state.robust.clear();
    task.process = Arc::new(Process::new(index, pid, 1, state));
    (task.index, task.slot, task.tid) = (0, 0, pid);
    task.signals.held.clear();
    (task.ctx.pending, task.ctx.noted) = (0, 0);
    task.robust = (0, 24);
    task.clear_tid = 0;
    task.filters_seen = 0;
    task.vforked = None;
}

/// First event and first return of a forked child.
fn begin_child(task: &mut Task, args: &CloneArgs, parent: TapeId) {
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

/// What a new process has of its own besides its stack: FS base, words for its id, actions.
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

fn replay_fork(task: &mut Task, args: &CloneArgs, answer: &Answer) -> Result<Reply> {
    if answer.result <= 0 {
        return Ok(Reply::Value(answer.result));
    }
    let index = answer.child_index();
    let parent = task.id();
    if !crate::replay::fork_host(index, answer.result as u32)? {
        return Ok(Reply::Value(answer.result));
    }
    become_child(task, index, answer.result as u32);
    task.tape = crate::replay::open_tape(task.id())?;
    task.parked = false;
    let member = answer.extra.get(4) == Some(&MEMBER);
    crate::replay::start_child(task, Origin::Fork, member)?;
    begin_child(task, args, parent);
    Ok(Reply::Flow(Flow::Continue))
}

/// wait4(2), waitid(2).
///
/// # Errors
/// A process of the replay is gone.
pub fn wait(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    let Some(answer) = answer else {
        return Ok(Reply::Value(super::generic(task, call)));
    };
    if let Some(pid) = ended_child(call, answer) {
        crate::replay::has_ended(pid)?;
    }
    Ok(Reply::Value(answer.result))
}

/// Of which child the guest was told that it has ended; not that it was stopped or goes on.
fn ended_child(call: &Call, answer: &Answer) -> Option<u32> {
    let written = |argument: usize| {
        let mut writes = answer.writes();
        writes.find_map(|(at, bytes)| (at == call.args[argument]).then_some(bytes))
    };
    let word = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(i32::from_le_bytes(bytes))
    };
    if i64::from(call.nr) == libc::SYS_wait4 {
        let pid = u32::try_from(answer.result).ok().filter(|&pid| pid > 0)?;
        let ended = match written(1) {
            Some(status) => {
                let status = word(status, 0)?;
                libc::WIFEXITED(status) || libc::WIFSIGNALED(status)
            }
            None => call.int(2) & (libc::WUNTRACED | libc::WCONTINUED) == 0,
        };
        return ended.then_some(pid);
    }
    let info = written(2)?;
    let (code, pid) = (word(info, 8)?, word(info, 12)?);
    let ended = matches!(code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED);
    (ended && pid > 0).then_some(pid as u32)
}

/// exit(2): ends the calling thread.
pub fn exit(task: &mut Task, call: &Call, _: Option<&Answer>) -> Result<Reply> {
    if task.vforked.is_some() {
        return exit_group(task, call, None);
    }
    task.record(Kind::End {
        how: Ending::ThreadExit,
        code: call.int(0),
        steps: 0,
    });
    leave(task);
    Ok(Reply::Flow(Flow::ThreadEnd(call.int(0) & 0xff)))
}

/// What the kernel does for a thread that ends: robust locks, the cleared thread id.
pub fn leave(task: &mut Task) {
    for at in super::robust::release(task, task.robust.0, task.tid) {
        wake(task, at);
    }
    task.process.state().robust.remove(&task.index);
    clear_id(task);
}

fn clear_id(task: &Task) {
    if task.clear_tid != 0 && task.write(task.clear_tid, &[0; 4]).is_ok() {
        wake(task, task.clear_tid);
    }
}

fn wake(task: &Task, at: u64) {
    if task.live() {
        // SAFETY: wakes a waiter on a guest word; both keyings are tried because the
        // kernel's own exit path uses shared ones.
        unsafe {
            sys::syscall(
                libc::SYS_futex as u64,
                [at, libc::FUTEX_WAKE as u64, 1, 0, 0, 0],
            );
            sys::syscall(
                libc::SYS_futex as u64,
                [
                    at,
                    (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64,
                    1,
                    0,
                    0,
                    0,
                ],
            );
        }
    }
}

/// What the kernel does for all threads of a process that ends: robust locks, which may be in
/// memory shared with other processes.
pub fn release_locks(task: &Task) {
    let lists: Vec<(u64, u32)> = task.process.state().robust.values().copied().collect();
    for (head, tid) in lists {
        for at in super::robust::release(task, head, tid) {
            wake(task, at);
        }
    }
}

/// Whether a thread of the process holds a robust lock.
pub fn holds_locks(task: &Task) -> bool {
    let state = task.process.state();
    let mut heads = state.robust.values();
    heads.any(|&(head, _)| super::robust::holds(task, head))
}

/// exit_group(2).
pub fn exit_group(task: &mut Task, call: &Call, _: Option<&Answer>) -> Result<Reply> {
    let code = call.int(0) & 0xff;
    if task.vforked.is_some() {
        // Others see its memory still.
        clear_id(task);
    }
    release_locks(task);
    task.record(Kind::End {
        how: Ending::ProcessExit,
        code,
        steps: 0,
    });
    Ok(Reply::Flow(Flow::ProcessEnd(End::Code(code))))
}

/// set_tid_address(2).
pub fn set_tid_address(task: &mut Task, call: &Call, _: Option<&Answer>) -> Result<Reply> {
    task.clear_tid = call.args[0];
    Ok(Reply::Value(i64::from(task.tid)))
}

/// set_robust_list(2).
pub fn set_robust_list(task: &mut Task, call: &Call, _: Option<&Answer>) -> Result<Reply> {
    if call.args[1] != 24 {
        return Ok(Reply::Value(-i64::from(libc::EINVAL)));
    }
    task.robust = (call.args[0], call.args[1]);
    if machine().mode == Mode::Run {
        // The kernel marks the locks of a thread that is killed.
        // SAFETY: the kernel reads the list when this thread ends, and takes no bad one amiss.
        unsafe { sys::syscall(u64::from(call.nr), call.args) };
    }
    let mut state = task.process.state();
    state.robust.insert(task.index, (task.robust.0, task.tid));
    Ok(Reply::Value(0))
}

/// get_robust_list(2), of the calling thread only.
pub fn get_robust_list(task: &mut Task, call: &Call, _: Option<&Answer>) -> Result<Reply> {
    if call.int(0) != 0 && call.int(0) != task.tid as i32 {
        return Ok(Reply::Value(-i64::from(libc::EPERM)));
    }
    let (head, len) = task.robust;
    for (at, value) in [(call.args[1], head), (call.args[2], len)] {
        if let Err(e) = task.write(at, &value.to_le_bytes()) {
            return Ok(Reply::Value(e));
        }
        task.log.wrote(at, 8);
    }
    Ok(Reply::Value(0))
}

/// sched_yield(2): others first.
pub fn sched_yield(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    if let Some(a) = answer {
        return Ok(Reply::Value(a.result));
    }
    let m = machine();
    if m.mode == Mode::Record {
        if m.baton.wanted() {
            m.baton.spinning(task.slot);
            task.flush_readings();
            m.baton.release(task);
            super::live::take_back(task);
        } else {
            // Whoever is about to want the baton may lack a processor to say so.
            std::thread::yield_now();
        }
        return Ok(Reply::Value(0));
    }
    Ok(Reply::Value(super::blocking(task, call.nr, &call.args)))
}
