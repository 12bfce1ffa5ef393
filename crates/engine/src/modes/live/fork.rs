//! fork(2) by forking the host: the child is a host process with a copy of the memory.

use relive_host::signal::{Mask, set_mask};
use relive_host::sys;
use rustix::thread::get_clear_child_tid_address;

use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::failure::{Result, answered};
use crate::inherit;
use crate::kernel::{fds, namespaces, tasks};
use crate::machine::count_translations;
use crate::mode::Mode;
use crate::task::Task;

/// A mode's part in the fork of a host process.
pub trait Births: Mode {
    /// Before the fork of process `child`. Says whether the child waits for a turn of its own before
    /// it runs.
    ///
    /// # Errors
    /// Something unsupported.
    fn before_fork(&self, _task: &mut Task, _child: u32) -> Result<bool> {
        Ok(false)
    }

    /// Forks by `fork` with nothing of the mode's changing meanwhile.
    fn while_quiet(&self, fork: &mut dyn FnMut()) {
        fork();
    }

    /// In the child, whose task is process `child` by now.
    ///
    /// # Errors
    /// The child can have no tape.
    fn in_child(&self, _task: &mut Task, _child: u32, _waits: bool) -> Result<()> {
        Ok(())
    }

    /// In the parent; `None`: there is no child.
    fn in_parent(&self, _child: u32, _pid: Option<u32>) {}
}

/// Behind the child's index in the data of a fork: the child waits for its first turn.
pub const MEMBER: u8 = 1;

/// Makes a process with a copy of the memory.
///
/// # Errors
/// A failure of the mode, before the fork or in the child.
pub fn fork(task: &mut Task, args: &CloneArgs, births: &dyn Births) -> Result<Reply> {
    if !namespaces::before_birth(task, args) {
        return Ok(Reply::Value(-i64::from(libc::EPERM)));
    }
    let index = task.machine().shm.map_or(0, |s| s.new_process());
    let parent = task.id();
    let member = births.before_fork(task, index)?;
    let shares = args.has(libc::CLONE_FILES);
    if shares {
        fds::share(task);
    }
    let mut memory = task.machine().memory();
    memory.translator.about_to_fork();
    if shares {
        memory.translator.shares_descriptors();
    }
    let state = task.process.state();
    let old = set_mask(Mask::all_async());
    // A parent that shares memory with its child takes turns with it, and must be there for that.
    // So must one whose tracer is told of the child.
    let waits = args.has(libc::CLONE_VFORK)
        && !member
        && task.traced.is_none()
        && task.machine().registry.single();
    let (mut pid, mut pidfd) = (0, -1);
    births.while_quiet(&mut || pid = fork_host(args, waits, &mut pidfd));
    if pid == 0 && shares {
        // The state of its own begins anew in a child.
        memory.translator.shares_descriptors();
    }
    drop((state, memory));
    if pid == 0 {
        crate::stats::begin(count_translations);
        task.machine().registry.start_over(task.member.as_ref());
        inherit::forked(task, args, index, std::process::id())?;
        if let Some(member) = &task.member {
            member.runs_as(task.process.pid, task.tid);
        }
        births.in_child(task, index, member)?;
        inherit::begin_forked(task, args, parent)?;
        set_mask(task.signals.mask.for_host());
        return Ok(Reply::Returned);
    }
    set_mask(old);
    births.in_parent(index, u32::try_from(pid).ok());
    if pid < 0 {
        return Ok(Reply::Value(pid));
    }
    let pid = pid as i32;
    task.log.extra.extend_from_slice(&index.to_le_bytes());
    if member {
        task.log.extra.push(MEMBER);
    }
    if args.has(libc::CLONE_PARENT_SETTID)
        && answered(task.write(args.parent_tid, &pid.to_le_bytes()))?.is_ok()
    {
        task.log.wrote(args.parent_tid, 4);
    }
    tasks::give_pidfd(task, args, pidfd)?;
    Ok(Reply::Value(i64::from(pid)))
}

/// The same where threads run at the same time: all others are at rest meanwhile, and those that have ended are
/// gone.
///
/// # Errors
/// As [`fork`].
pub fn fork_at_rest(task: &mut Task, args: &CloneArgs, births: &dyn Births) -> Result<Reply> {
    let quiet = task.quiesce(true)?;
    if quiet.is_some() {
        task.machine().registry.await_ended();
    }
    fork(task, args, births)
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
    // The word in which the C library keeps the calling thread's id must hold the child's id in the
    // child; the kernel knows its address from the start of the thread.
    let own = get_clear_child_tid_address().ok().flatten();
    let own = own.map_or(0, |word| word.as_ptr() as u64);
    let settid = match own {
        0 => 0,
        _ => libc::CLONE_CHILD_SETTID as u64,
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
