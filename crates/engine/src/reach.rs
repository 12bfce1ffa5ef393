//! What a host process can no longer come to once its program has become another user, has given
//! up capabilities, or has another root: the shared memory, the trace's copies of files, its own
//! executable. Before the first call that may have such an effect it opens them, and keeps the
//! descriptors from then on, through fork and exec. Other programs have none of this.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use relive_trace::{FileId, FileStore};
use serde::{Deserialize, Serialize};

use crate::descriptor_limit::Room;
use crate::machine::Machine;
use crate::task::Task;

/// The descriptors. A vfork child's are in its own table alone, so each process keeps them in its
/// state, and those of this address space are [`HERE`] too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// The shared memory; −1 where there is none.
    pub memory: RawFd,
    /// The folder of copies; −1 where nothing is recorded.
    pub copies: RawFd,
    /// Paths may lead elsewhere than when the recording began.
    pub moved: bool,
}

static HERE: OnceLock<Reach> = OnceLock::new();

impl Reach {
    /// The descriptors, for the guest not to close.
    pub fn descriptors(self) -> impl Iterator<Item = RawFd> {
        [self.memory, self.copies].into_iter().filter(|&fd| fd >= 0)
    }

    /// Whether they outlive the next exec, which is the host's own.
    pub fn inherit(self, on: bool) {
        for fd in self.descriptors() {
            // SAFETY: changes descriptors of ours.
            unsafe { libc::fcntl(fd, libc::F_SETFD, if on { 0 } else { libc::FD_CLOEXEC }) };
        }
    }

    /// A new program's host takes over what the old one has kept.
    pub fn adopt(self) {
        self.inherit(false);
        let _ = HERE.set(self);
    }
}

/// The program is about to give up rights, or to change what paths lead to (`moved`). Live only.
/// What cannot be opened is left out: then the program can do without, or it ends at its next
/// exec, which says why.
pub fn prepare(task: &Task, moved: bool) {
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
        let _ = HERE.set(reach);
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

/// The folder of copies of the recording, however this process comes to it.
pub fn store(machine: &Machine) -> FileStore {
    let store = FileStore::new(&machine.trace);
    match HERE.get().filter(|reach| reach.copies >= 0) {
        // SAFETY: the descriptor is never closed while the process lives.
        Some(reach) => store.within(unsafe { BorrowedFd::borrow_raw(reach.copies) }),
        None => store,
    }
}

/// Whether paths, and what lies there, may not be what they were when the recording began: what
/// is kept from recording to recording is left alone then.
#[must_use]
pub fn is_changed() -> bool {
    HERE.get().is_some()
}

/// A copy is there: others may have to read it.
pub fn added(store: &FileStore, id: FileId) {
    let shown = crate::shm::shared().is_some_and(|s| s.header().users.load(Ordering::SeqCst) != 0);
    if shown {
        store.show(id);
    }
}
