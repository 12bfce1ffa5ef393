//! Calls by which a program gives up rights, or changes what paths lead to: made as they are,
//! after the host has opened what it needs ([`crate::reach`]).

use std::sync::atomic::Ordering;

use relive_trace::FileStore;

use super::live::generic;
use super::operation::{Operation, Prepared};
use crate::call::Call;
use crate::descriptor_limit::Room;
use crate::failure::Result;
use crate::machine::Machine;
use crate::reach::Reach;
use crate::task::Task;

/// setuid(2) and its like, setgroups(2), capset(2).
pub struct Rights;

impl Operation for Rights {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        Ok(perform(task, call, false))
    }
}

/// chroot(2), pivot_root(2), mount(2) and its like.
pub struct Paths;

impl Operation for Paths {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        Ok(perform(task, call, true))
    }
}

fn perform(task: &mut Task, call: &Call, moved: bool) -> i64 {
    open_ahead(task, moved);
    let result = generic(task, call);
    // SAFETY: only asks.
    if unsafe { libc::prctl(libc::PR_GET_DUMPABLE) } == 0 {
        // Only asked where calls are made: a replay takes the answer from the tape.
        task.process.state().dumpable = 0;
    }
    result
}

/// The program is about to give up rights, or to change what paths lead to (`moved`). Live only.
/// What cannot be opened is left out: then the program can do without, or it ends at its next
/// exec, which says why.
pub fn open_ahead(task: &Task, moved: bool) {
    let mut state = task.process.state();
    if let Some(reach) = &mut state.reach {
        reach.moved |= moved;
        return;
    }
    let Some(reach) = open(task.machine(), moved) else {
        return;
    };
    state.reach = Some(reach);
    if task.vforked.is_none() {
        reach.keep();
    }
}

fn open(m: &Machine, moved: bool) -> Option<Reach> {
    let shm = m.shm.or_else(crate::stats::memory);
    let floor = m.memory().translator.fd();
    let _room = Room::for_host(m.mode.traits().keeps);
    let above = |path: &std::path::Path, flags: i32| {
        let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).ok()?;
        // SAFETY: the path outlives the call; the descriptors are new.
        let fd = unsafe {
            let low = libc::open(path.as_ptr(), flags | libc::O_CLOEXEC);
            let fd = libc::fcntl(low, libc::F_DUPFD_CLOEXEC, floor);
            libc::close(low);
            fd
        };
        (fd >= 0).then_some(fd)
    };
    let memory = match shm {
        Some(shm) => above(&shm.path(), libc::O_RDWR)?,
        None => -1,
    };
    let copies = shm.filter(|_| m.mode.traits().keeps).map(|shm| {
        let store = FileStore::new(&m.trace);
        // From now on new copies can be read by all who come to them, and then the old ones.
        shm.header().users.store(1, Ordering::SeqCst);
        let _ = store.show_all();
        above(store.folder(), libc::O_PATH | libc::O_DIRECTORY)
    });
    Some(Reach {
        memory,
        copies: copies.flatten().unwrap_or(-1),
        moved,
    })
}
