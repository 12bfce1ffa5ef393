//! unshare(2): requests that change no state of the engine are the kernel's. Namespaces of users and
//! processes are refused: the host finds the recorder by its process id, and as the same user.

use super::generic::generic;
use super::refuse::refuse;
use crate::call::Call;
use crate::failure::Result;
use crate::task::Task;

/// Flags that concern the calling thread alone, and nothing that the host itself uses.
const KERNEL: u64 = (libc::CLONE_FS
    | libc::CLONE_SYSVSEM
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWCGROUP) as u64;
/// Flags without effect in a process with one thread.
const OF_THREADS: u64 =
    (libc::CLONE_FILES | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM) as u64;

/// unshare(2).
pub fn unshare(task: &mut Task, call: &Call) -> Result<i64> {
    let flags = call.args[0];
    let alone = task.machine().registry.single() && task.vforked.is_none();
    Ok(if flags & !(KERNEL | OF_THREADS) != 0 {
        let known = (libc::CLONE_NEWUSER | libc::CLONE_NEWPID | 0x80) as u64;
        match flags & !(KERNEL | OF_THREADS | known) {
            0 => refuse(call, libc::EPERM),
            _ => -i64::from(libc::EINVAL),
        }
    } else if flags & OF_THREADS != 0 && !alone {
        match flags & OF_THREADS == libc::CLONE_FILES as u64 {
            true => refuse(call, libc::EPERM),
            false => -i64::from(libc::EINVAL),
        }
    } else {
        generic(task, call)?
    })
}
