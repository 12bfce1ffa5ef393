//! The memory that a supervisor and all host processes of one tree share: rings (one per
//! tape), the numbers that are global to the tree, the locks around output, and the first
//! failure. A memfd, so that it survives any one process.
//!
//! Everything in it may be read and written by several processes at once: atomics only, and
//! no pointer. A process that dies holding a lock of this module is noticed by the waiters.

mod first_failure;
pub mod layout;
mod output;
mod replaying;
pub mod ring;
mod rings;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use relive_host::sys;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use rustix::process::{Pid, test_kill_process};

use self::layout::{Declared, layout};
use self::ring::{RING_BYTES, RINGS, Ring};
use crate::broker::client;
use crate::confined::is_confined;
use crate::failure::{Failure, FailureClass, Result};

const TEXT: usize = 4096;
const REPLAYING: usize = 65536;
const MAGIC: u64 = 0x314d_4853_5652_4c52;

/// The fixed part of the shared memory.
#[repr(C)]
pub struct Header {
    magic: u64,
    /// The supervisor's descriptor for this memory, by which others find it.
    fd: AtomicU32,
    /// The supervisor's pid, to notice its death.
    pub supervisor: AtomicU32,
    /// Moves when a ring wants to be read.
    pub wake: AtomicU32,
    next_process: AtomicU32,
    /// Forks that were begun (recording).
    forks: AtomicU64,
    /// Those of them whose child has a tape, or which failed.
    births: AtomicU64,
    /// Number of the next output (record: to give out; replay: whose turn it is).
    pub next_order: AtomicU64,
    /// Owner (kernel tid) of the right to write output; 0 = none.
    pub output_lock: AtomicU32,
    /// Highest ring index in use, plus one.
    pub rings_used: AtomicU32,
    /// Events of the whole tree (replay).
    pub events: AtomicU64,
    /// Some process of the tree is, or will be, another user's: copies are for all to read.
    pub users: AtomicU32,
    /// Class of the first failure: 0 none, `u32::MAX` while it is written down.
    failed: AtomicU32,
    text_len: AtomicU32,
    text: [std::sync::atomic::AtomicU8; TEXT],
    /// Host processes of a replay, to end them together.
    replaying: [AtomicU32; REPLAYING],
    rings: [Ring; RINGS],
}

/// The supervisor is gone: the event is lost, and nothing may follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unrecorded;

/// Whether an event has gone to its store, with the value that is known then. Behind a lost event nothing
/// may follow.
pub type Logged<T = ()> = std::result::Result<T, Unrecorded>;

impl From<Unrecorded> for Failure {
    #[cold]
    fn from(_: Unrecorded) -> Self {
        FailureClass::Unrecorded.into()
    }
}

/// A mapping of the shared memory.
#[derive(Clone, Copy)]
pub struct Shm {
    base: *mut u8,
    /// Where the rings' data lie.
    data: *mut u8,
}

// SAFETY: all access goes through atomics or through a ring's exclusive producer/consumer side.
unsafe impl Send for Shm {}
// SAFETY: as above.
unsafe impl Sync for Shm {}

/// Decides where all sections lie. Once in a process, before memory is shared.
pub fn place(sections: &[&dyn Declared]) {
    layout::place(size_of::<Header>(), sections);
}

impl Shm {
    /// Creates the shared memory; returns it with its descriptor.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn create() -> Result<(Self, OwnedFd)> {
        let no = |what: &str, e: Errno| Failure::setup(format!("cannot {what} shared memory: {e}"));
        let fd = memfd_create(c"relive", MemfdFlags::CLOEXEC).map_err(|e| no("create", e))?;
        ftruncate(&fd, layout().size as u64).map_err(|e| no("size", e))?;
        let shm = Self::map(&fd)?;
        // SAFETY: fresh zeroed memory of the header's size; no other process has it yet.
        unsafe { (*shm.base.cast::<Header>()).magic = MAGIC };
        let number = fd.as_raw_fd() as u32;
        shm.header().fd.store(number, Ordering::Release);
        let own = std::process::id();
        shm.header().supervisor.store(own, Ordering::Release);
        Ok((shm, fd))
    }

    /// A process is about to be forked.
    pub fn begin_fork(&self) {
        self.header().forks.fetch_add(1, Ordering::AcqRel);
    }

    /// The child has a tape, or there will be none.
    pub fn end_fork(&self) {
        self.header().births.fetch_add(1, Ordering::AcqRel);
    }

    /// How many forks have been begun, if all their children have tapes.
    #[must_use]
    pub fn all_born(&self) -> Option<u64> {
        // In this order: births never outrun forks.
        let births = self.header().births.load(Ordering::Acquire);
        let forks = self.header().forks.load(Ordering::Acquire);
        (births == forks).then_some(forks)
    }

    /// Makes the header this process's own: a guided replay is copied, and no copy may see
    /// the changes of another one. The rings are not used in a replay.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn make_private(&self) -> Result<()> {
        // SAFETY: the header is that many bytes of this mapping, which others change with
        // atomic stores only, and which no process changes now: the session has not begun.
        let bytes = unsafe { std::slice::from_raw_parts(self.base, layout().data) }.to_vec();
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: replaces the pages of the header, to which no reference is held, and fills
        // them with their former content.
        unsafe {
            mmap_anonymous(self.base.cast(), bytes.len(), prot, flags)
                .map_err(|e| Failure::setup(format!("cannot make memory private: {e}")))?;
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base, bytes.len());
        }
        Ok(())
    }

    /// Maps existing shared memory.
    ///
    /// # Errors
    /// It cannot be mapped or is not ours.
    pub fn map(fd: &impl AsFd) -> Result<Self> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let (anywhere, size) = (std::ptr::null_mut(), layout().size);
        // SAFETY: a fresh shared mapping anywhere.
        let base = unsafe { mmap(anywhere, size, prot, MapFlags::SHARED, fd, 0) }
            .map_err(|e| Failure::setup(format!("cannot map shared memory: {e}")))?;
        let base = base.cast::<u8>();
        // SAFETY: the data lie within the mapping.
        let data = unsafe { base.add(layout().data) };
        Ok(Self { base, data })
    }

    /// How another process of the tree finds this memory: the supervisor's pid and descriptor.
    #[must_use]
    pub fn descriptor(&self) -> (u32, u32) {
        (
            self.header().supervisor.load(Ordering::Acquire),
            self.header().fd.load(Ordering::Acquire),
        )
    }

    /// Maps the memory of the supervisor with that pid and descriptor.
    ///
    /// # Errors
    /// The supervisor is gone or out of reach.
    pub fn find((pid, fd): (u32, u32)) -> Result<Self> {
        let path = format!("/proc/{pid}/fd/{fd}");
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|e| Failure::setup(format!("cannot reach the recorder's shared memory through {path}: {e}; is /proc mounted and the program not running as another user?")))?;
        Self::inherited(&file)
    }

    /// Maps the memory behind a descriptor that the old program's host has left open.
    ///
    /// # Errors
    /// It is something else.
    pub fn inherited(fd: &(impl AsFd + AsRawFd)) -> Result<Self> {
        let shm = Self::map(fd)?;
        if shm.header().magic == MAGIC {
            Ok(shm)
        } else {
            Err(Failure::setup(format!(
                "descriptor {} is not the recorder's shared memory",
                fd.as_raw_fd()
            )))
        }
    }

    /// The path by which another process of the tree opens this memory.
    #[must_use]
    pub fn path(&self) -> std::path::PathBuf {
        let (pid, fd) = self.descriptor();
        format!("/proc/{pid}/fd/{fd}").into()
    }

    /// The fixed part.
    #[must_use]
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping is at least that large, lives as long as the process, and
        // every field that changes is atomic.
        unsafe { &*self.base.cast::<Header>() }
    }

    /// One ring.
    #[must_use]
    pub fn ring(&self, index: u32) -> &Ring {
        &self.header().rings[index as usize]
    }

    fn data(&self, index: u32) -> *mut u8 {
        // SAFETY: index is below RINGS wherever it comes from `ring`, so this stays inside.
        unsafe { self.data.add(index as usize * RING_BYTES as usize) }
    }

    /// The address of an offset, for sections: it lies inside.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < layout().size, "a section lies within the memory");
        // SAFETY: only sections ask, for the offsets that `place` has given them.
        unsafe { self.base.add(offset) }
    }

    /// Takes the next process index.
    #[must_use]
    pub fn new_process(&self) -> u32 {
        self.header().next_process.fetch_add(1, Ordering::AcqRel)
    }

    /// How many processes have been numbered.
    #[must_use]
    pub fn processes(&self) -> u32 {
        self.header().next_process.load(Ordering::Acquire)
    }

    /// Whether the supervisor lives to store the events that this process logs.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn need_supervisor(&self) -> Logged {
        // A confined process can look at no other one, but whether its supervisor's end of their socket is open.
        let is_there = match is_confined() {
            true => client::need_supervisor().is_ok(),
            false => alive(self.header().supervisor.load(Ordering::Acquire)),
        };
        is_there.then_some(()).ok_or(Unrecorded)
    }

    /// Asks the supervisor to read the rings.
    pub fn wake_supervisor(&self) {
        self.header().wake.fetch_add(1, Ordering::AcqRel);
        sys::futex_wake(&self.header().wake, 1);
    }
}

/// The memory that this process shares with its supervisor.
/// Process-wide: the report of a panic reads it.
static SHARED: OnceLock<Shm> = OnceLock::new();

/// This process shares that memory, from now on.
pub fn share(shm: Shm) {
    // Once in a process; and the first is as good as a second.
    let _ = SHARED.set(shm);
}

/// The memory that this process shares with its supervisor, if it does.
#[must_use]
pub fn shared() -> Option<&'static Shm> {
    SHARED.get()
}

/// Whether a process or thread with this kernel id exists.
#[must_use]
pub fn alive(id: u32) -> bool {
    if let Some(exists) = crate::ids::exists(id) {
        return exists;
    }
    let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) else {
        return false;
    };
    matches!(test_kill_process(id), Ok(()) | Err(Errno::PERM))
}
