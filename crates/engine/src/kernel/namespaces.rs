//! unshare(2), setns(2), and namespaces of a new process: the kernel's, after the host has opened the files that it
//! needs later ([`users::open_ahead`]), and has noted that the supervisor may know processes by other ids.

use super::generic::generic;
use super::refuse::refuse;
use super::users;
use crate::call::Call;
use crate::call::clone_args::{CloneArgs, FS, NAMESPACES};
use crate::failure::Result;
use crate::task::Task;

const NEW_PIDS: u64 = libc::CLONE_NEWPID as u64;
const NEW_TIME: u64 = 0x80;
/// Flags without effect in a process with one thread.
const OF_THREADS: u64 =
    (libc::CLONE_FILES | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM) as u64;

/// unshare(2).
pub fn unshare(task: &mut Task, call: &Call) -> Result<i64> {
    let flags = call.args[0];
    let alone = task.machine().registry.single() && task.vforked.is_none();
    if flags & OF_THREADS != 0 && !alone {
        return Ok(match flags & OF_THREADS == libc::CLONE_FILES as u64 {
            true => refuse(call, libc::EPERM),
            false => -i64::from(libc::EINVAL),
        });
    }
    match prepare(task, flags) {
        true => generic(task, call),
        false => Ok(refuse(call, libc::EPERM)),
    }
}

/// setns(2). Without a type the descriptor may be one of any namespace.
pub fn setns(task: &mut Task, call: &Call) -> Result<i64> {
    let flags = match call.args[1] as u32 {
        0 => NAMESPACES,
        flags => flags.into(),
    };
    match prepare(task, flags) {
        true => generic(task, call),
        false => Ok(refuse(call, libc::EPERM)),
    }
}

/// Gets the host ready for a process of its own namespaces, or with the folders of its parent: the child may change
/// the root for both. `false`: the host could not go on.
pub fn before_birth(task: &Task, args: &CloneArgs) -> bool {
    let shared = match args.flags & FS {
        0 => 0,
        _ => libc::CLONE_NEWNS as u64,
    };
    prepare(task, args.flags & NAMESPACES | shared)
}

fn prepare(task: &Task, flags: u64) -> bool {
    if flags & (NAMESPACES | NEW_TIME) != 0 {
        users::open_ahead(task, true);
    }
    flags & NEW_PIDS == 0 || users::ids_may_differ(task)
}
