//! Calls by which a program gives up rights, or makes paths lead elsewhere: made as they are, after
//! the host has opened the files that it needs later ([`crate::retained_fds`]).

use std::os::fd::IntoRawFd;
use std::path::Path;
use std::sync::atomic::Ordering;

use relive_trace::FileStore;
use rustix::fs::{Mode, OFlags};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{DumpableBehavior, dumpable_behavior};

use super::generic::generic;
use super::operation::{Operation, Prepared};
use crate::call::Call;
use crate::descriptor_limit::Room;
use crate::failure::Result;
use crate::machine::Machine;
use crate::retained_fds::RetainedFds;
use crate::task::Task;

/// setuid(2) and its like, setgroups(2), capset(2).
pub struct Rights;

impl Operation for Rights {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        perform(task, call, false)
    }
}

/// chroot(2), pivot_root(2), mount(2) and its like.
pub struct PathChange;

impl Operation for PathChange {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        perform(task, call, true)
    }
}

fn perform(task: &mut Task, call: &Call, paths_changed: bool) -> Result<i64> {
    open_ahead(task, paths_changed);
    let result = generic(task, call)?;
    if dumpable_behavior() == Ok(DumpableBehavior::NotDumpable) {
        // Only asked where calls are made: a replay takes the answer from the tape.
        task.process.state().dumpable = 0;
    }
    Ok(result)
}

/// Opens the files that the host needs later, before the program gives up rights, or makes paths lead
/// elsewhere (`paths_changed`). Live only. A file that cannot be opened is left out: either the program never
/// needs it, or the program ends at its next exec, with a message.
pub fn open_ahead(task: &Task, paths_changed: bool) {
    let mut state = task.process.state();
    if let Some(fds) = &mut state.retained_fds {
        fds.paths_changed |= paths_changed;
        return;
    }
    let Some(fds) = open(task.machine(), paths_changed) else {
        return;
    };
    state.retained_fds = Some(fds);
    if task.vforked.is_none() {
        fds.keep();
    }
}

/// Notes that the process, or its children, may get other ids than the supervisor knows. `false`: they could not be
/// told from others.
pub fn ids_may_differ(task: &Task) -> bool {
    let mut state = task.process.state();
    let known = state.retained_fds.as_mut().filter(|fds| fds.proc >= 0);
    // In its parent's memory the two would differ.
    let Some(fds) = known.filter(|_| task.vforked.is_none()) else {
        return false;
    };
    fds.other_ids = true;
    crate::ids::differ(fds.proc);
    true
}

fn open(m: &Machine, paths_changed: bool) -> Option<RetainedFds> {
    let shm = m.shm.or_else(crate::stats::memory);
    let floor = m.memory().translator.fd();
    let _room = Room::for_host(m.mode.traits().keeps);
    let above = |path: &Path, flags: OFlags| {
        let low = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).ok()?;
        Some(fcntl_dupfd_cloexec(&low, floor).ok()?.into_raw_fd())
    };
    let memory = match shm {
        Some(shm) => above(&shm.path(), OFlags::RDWR)?,
        None => -1,
    };
    let copies = shm.filter(|_| m.mode.traits().keeps).map(|shm| {
        let store = FileStore::new(&m.trace);
        // From now on all users can read new copies, and then the old ones too.
        shm.header().users.store(1, Ordering::SeqCst);
        let _ = store.show_all();
        above(store.folder(), OFlags::PATH | OFlags::DIRECTORY)
    });
    let proc = above(Path::new("/proc"), OFlags::PATH | OFlags::DIRECTORY);
    Some(RetainedFds {
        memory,
        copies: copies.flatten().unwrap_or(-1),
        proc: proc.unwrap_or(-1),
        paths_changed,
        other_ids: false,
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::{FromRawFd, OwnedFd};

    use libc::{SYS_capset, SYS_chroot, SYS_mount, SYS_setgroups, SYS_setuid};
    use rustix::io::FdFlags;

    use super::*;
    use crate::descriptor::{flags, is_generated};
    use crate::retained_fds::is_changed;
    use crate::testing::{Guest, machine};

    /// No id: the kernel refuses it.
    const NOBODY: u64 = u32::MAX as u64;
    const EINVAL: i64 = -(libc::EINVAL as i64);
    /// Outside of all guest memory.
    const NOWHERE: u64 = 0x5500_0000;

    #[test]
    fn a_replay_opens_nothing_ahead() {
        let mut guest = Guest::new();
        for nr in [SYS_setuid, SYS_setgroups, SYS_capset, SYS_chroot, SYS_mount] {
            let told = guest.told(nr, &[NOBODY, NOWHERE], -1, &[]);
            assert_eq!(told.ok(), Some(-1));
        }
        assert_eq!(guest.retained(), None);
    }

    #[test]
    fn the_files_are_open_before_rights_are_given_up() {
        let mut guest = Guest::new();
        // The descriptors would be this address space's for ever otherwise.
        guest.is_vforked();
        assert_eq!(guest.live(SYS_setuid, &[NOBODY]).ok(), Some(EINVAL));
        let fds = guest.retained().expect("they are open");
        assert!(!is_changed(), "a vfork child's are its own");
        let floor = machine().memory().translator.fd();
        for fd in [fds.memory, fds.proc] {
            assert!(fd >= floor, "{fd} is none of the guest's");
            assert_eq!(flags(fd), Some(FdFlags::CLOEXEC));
        }
        assert!(fds.shared_memory().is_ok_and(|shm| shm.is_some()));
        assert!(is_generated(fds.proc));
        let nothing_else = (fds.copies, fds.paths_changed, fds.other_ids);
        assert_eq!(nothing_else, (-1, false, false));
        // Once is enough.
        assert_eq!(guest.live(SYS_setuid, &[NOBODY]).ok(), Some(EINVAL));
        assert_eq!(guest.retained(), Some(fds));
        for fd in fds.descriptors() {
            // SAFETY: the guest, which is over, had it for itself.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }

    #[test]
    fn other_paths_are_noted_and_less_rights_are_not() {
        for (nr, args, changed) in [
            (SYS_setuid, [NOBODY, 0], false),
            (SYS_setgroups, [1, NOWHERE], false),
            (SYS_capset, [NOWHERE, 0], false),
            (SYS_chroot, [NOWHERE, 0], true),
            (SYS_mount, [NOWHERE, NOWHERE], true),
        ] {
            let mut guest = Guest::new();
            guest.has_retained(-1);
            let refused = guest.live(nr, &args).is_ok_and(|result| result < 0);
            assert!(refused, "{nr}");
            let fds = guest.retained().expect("they are open");
            assert_eq!(fds.paths_changed, changed, "{nr}");
        }
    }

    #[test]
    fn ids_may_differ_only_where_they_can_be_told_from_others() {
        let mut guest = Guest::new();
        assert!(!ids_may_differ(&guest.task), "nothing is open");
        guest.has_retained(-1);
        assert!(!ids_may_differ(&guest.task), "no /proc is");
        // Only its number is noted.
        guest.has_retained(i32::MAX);
        guest.is_vforked();
        assert!(!ids_may_differ(&guest.task), "they are its parent's too");
        assert!(guest.retained().is_some_and(|fds| !fds.other_ids));
    }
}
