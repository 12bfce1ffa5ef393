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
