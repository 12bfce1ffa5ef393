//! unshare(2), setns(2), and namespaces of a new process: the kernel's, after the host has opened the files that it
//! needs later ([`rights::open_ahead`]), and has noted that the supervisor may know processes by other ids.

use super::generic::generic;
use super::refuse::refuse;
use super::rights;
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
        rights::open_ahead(task, true);
    }
    flags & NEW_PIDS == 0 || rights::ids_may_differ(task)
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd;

    use libc::{SYS_setns, SYS_unshare};
    use relive_host::sys;
    use rustix::fs::{Mode, OFlags};

    use super::*;
    use crate::testing::{Guest, machine};

    const EINVAL: i64 = -(libc::EINVAL as i64);
    const EPERM: i64 = -(libc::EPERM as i64);
    /// The kernel knows no such flag, and refuses all of them.
    const BAD: u64 = 1;
    const NO_FD: u64 = u32::MAX as u64;
    const NEW_ROOT: u64 = libc::CLONE_NEWNS as u64;
    const NEW_NAME: u64 = libc::CLONE_NEWUTS as u64;
    const DESCRIPTORS: u64 = libc::CLONE_FILES as u64;

    /// The kernel's own answer. A container may have another one than an error of the flags.
    fn native(nr: i64, [first, second]: [u64; 2]) -> i64 {
        // SAFETY: of all that is asked here the kernel does nothing.
        let result = unsafe { sys::syscall(nr as u64, [first, second, 0, 0, 0, 0]) };
        result as i64
    }

    /// The result of a call in a process that has retained a descriptor of `/proc`, or none; and whether
    /// paths and ids may differ then.
    fn outcome(proc: i32, nr: i64, args: &[u64]) -> (i64, bool, bool) {
        let mut guest = Guest::new();
        guest.has_retained(proc);
        let result = guest.live(nr, args).expect("it is supported");
        let fds = guest.retained().expect("they stay open");
        (result, fds.paths_changed, fds.other_ids)
    }

    #[test]
    fn a_replay_opens_nothing_and_has_no_other_ids() {
        let mut guest = Guest::new();
        for nr in [SYS_unshare, SYS_setns] {
            let told = guest.told(nr, &[NEW_PIDS | BAD, NEW_PIDS | BAD], 0, &[]);
            assert_eq!(told.ok(), Some(0));
        }
        assert_eq!(guest.retained(), None);
    }

    #[test]
    fn files_are_opened_before_namespaces_of_any_kind() {
        for (nr, args, opened) in [
            (SYS_unshare, [0, 0], false),
            (SYS_unshare, [FS | BAD, 0], false),
            (SYS_unshare, [NEW_ROOT | BAD, 0], true),
            (SYS_unshare, [NEW_NAME | BAD, 0], true),
            (SYS_unshare, [NEW_TIME | BAD, 0], true),
            (SYS_setns, [NO_FD, NEW_NAME], true),
        ] {
            let expected = (native(nr, args), opened, false);
            assert_eq!(outcome(-1, nr, &args), expected, "{args:x?}");
        }
    }

    #[test]
    fn other_ids_need_the_supervisors_proc() {
        // Without a type the namespace may be one of ids; the kernel reads the lower half of it only.
        let calls = [
            (SYS_unshare, [NEW_PIDS | BAD, 0]),
            (SYS_setns, [NO_FD, NEW_PIDS]),
            (SYS_setns, [NO_FD, 0]),
            (SYS_setns, [NO_FD, 1 << 32]),
        ];
        for (nr, args) in calls {
            assert_eq!(outcome(-1, nr, &args), (EPERM, true, false), "{args:x?}");
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::open("/proc", flags, Mode::empty()).expect("a /proc");
        // Never closed: the ids of other tests may be asked there meanwhile.
        let proc = proc.into_raw_fd();
        let found = calls.map(|(nr, args)| outcome(proc, nr, &args));
        let differ = crate::ids::may_differ();
        crate::ids::differ(-1);
        assert_eq!(
            found,
            calls.map(|(nr, args)| (native(nr, args), true, true))
        );
        assert!(differ);
    }

    #[test]
    fn what_threads_share_is_unshared_by_a_lonely_one_only() {
        let flags = [
            (DESCRIPTORS | BAD, EPERM),
            (libc::CLONE_VM as u64, EINVAL),
            (DESCRIPTORS | libc::CLONE_SIGHAND as u64, EINVAL),
            (NEW_NAME | libc::CLONE_THREAD as u64, EINVAL),
        ];
        let refused = flags.map(|(_, errno)| (errno, false, false));
        machine().registry.begun();
        let found = flags.map(|(flags, _)| outcome(-1, SYS_unshare, &[flags]));
        machine().registry.ended();
        assert_eq!(found, refused, "one of two threads");
        let alone = outcome(-1, SYS_unshare, &[DESCRIPTORS | BAD]).0;
        assert_eq!(alone, native(SYS_unshare, [DESCRIPTORS | BAD, 0]));
        let mut guest = Guest::new();
        guest.is_vforked();
        let vforked = guest.live(SYS_unshare, &[DESCRIPTORS | BAD]);
        assert_eq!(vforked.ok(), Some(EPERM), "its parent's thread is another");
    }

    #[test]
    fn a_child_with_its_parents_folders_may_change_its_root() {
        for (flags, opened) in [
            (0, false),
            (FS, true),
            (NEW_NAME, true),
            (libc::CLONE_VM as u64, false),
        ] {
            let mut guest = Guest::new();
            guest.has_retained(-1);
            let args = CloneArgs {
                flags,
                ..CloneArgs::default()
            };
            assert!(before_birth(&guest.task, &args));
            let fds = guest.retained().expect("they stay open");
            assert_eq!(fds.paths_changed, opened, "{flags:#x}");
        }
        let mut guest = Guest::new();
        guest.has_retained(-1);
        let ids = CloneArgs {
            flags: NEW_PIDS,
            ..CloneArgs::default()
        };
        assert!(!before_birth(&guest.task, &ids));
    }
}
