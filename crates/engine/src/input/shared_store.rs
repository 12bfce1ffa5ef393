//! The store as recording processes share it, and this process's way into it.
//!
//! Bytes are written to the file first, then their pieces are noted, then they count. A
//! process that dies on the way leaves nothing that counts.

use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use relive_trace::{INPUT_MAX, PIECE_MAX, Piece, input_path, input_sum};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::process::Resource;

use super::guesses::Guesses;
use crate::descriptor_limit::Room;
use crate::machine::Machine;
use crate::resource_limits;
use crate::section::{Section, Shareable};
use crate::sharing::lock::Lock;
use crate::shm::Shm;
use crate::task::Task;

/// The most pieces that wait for the supervisor.
const WAITING: usize = 1 << 16;

/// The part of the shared memory that belongs to the store.
#[repr(C)]
pub struct StoreState {
    lock: Lock,
    /// Bytes of the store that may be read.
    length: AtomicU64,
    /// Bytes of the store that are not to be referred to any more.
    floor: AtomicU64,
    /// The number of pieces noted: it alone decides where the store ends.
    pieces: AtomicU64,
    /// The number of pieces that the supervisor has taken.
    taken: AtomicU64,
    /// Some process has a limit on the size of files, or may have.
    limits: AtomicBool,
    waiting: [Waiting; WAITING],
    /// The guessed places of bytes.
    pub(super) guesses: Guesses,
}

#[repr(C)]
struct Waiting {
    end: AtomicU64,
    sum: AtomicU64,
}

/// The state of the store of input that the processes of a recording share.
pub static SHARED: Section<StoreState> = Section::common();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for StoreState {}

impl StoreState {
    /// Appends bytes. Returns their offset, or `None`: they cannot be kept now.
    fn append(&self, shm: &Shm, file: &File, tid: u32, bytes: &[u8]) -> Option<u64> {
        let _lock = self.lock.try_take(tid)?;
        let pieces = self.pieces.load(Ordering::Acquire);
        let more = bytes.len().div_ceil(PIECE_MAX) as u64;
        let waiting = pieces + more - self.taken.load(Ordering::Acquire);
        if waiting > WAITING as u64 / 2 {
            shm.wake_supervisor();
        }
        let start = match pieces {
            0 => 0,
            n => self.slot(n - 1).end.load(Ordering::Relaxed),
        };
        let end = start + bytes.len() as u64;
        // The slot of the last piece is still valid: it is reused only after a next piece.
        let limited = self.limits.load(Ordering::Acquire) && is_limited();
        if waiting >= WAITING as u64 || end > INPUT_MAX || limited {
            return None;
        }
        file.write_all_at(bytes, start).ok()?;
        let mut at = start;
        for (i, part) in bytes.chunks(PIECE_MAX).enumerate() {
            at += part.len() as u64;
            let slot = self.slot(pieces + i as u64);
            slot.end.store(at, Ordering::Relaxed);
            slot.sum.store(input_sum(part), Ordering::Relaxed);
        }
        self.pieces.store(pieces + more, Ordering::Release);
        self.length.store(end, Ordering::Release);
        self.guesses.remember(bytes, start);
        Some(start)
    }

    fn slot(&self, piece: u64) -> &Waiting {
        &self.waiting[piece as usize % WAITING]
    }

    /// From now on every process checks for a limit on the size of files before it appends.
    pub fn look_for_limits(&self) {
        self.limits.store(true, Ordering::Release);
    }

    /// Supervisor: no later event is to refer to bytes that are there by now, if so many are or more.
    pub fn raise_floor(&self, least: u64) {
        let length = self.length.load(Ordering::Acquire);
        if length - self.floor.load(Ordering::Relaxed) >= least {
            self.floor.store(length, Ordering::Release);
        }
    }

    /// No later event of the calling process refers to bytes before this one.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.floor.load(Ordering::Acquire)
    }

    /// Supervisor: takes the pieces noted since the last time.
    pub fn take(&self) -> Vec<Piece> {
        let (from, to) = (
            self.taken.load(Ordering::Relaxed),
            self.pieces.load(Ordering::Acquire),
        );
        let piece = |i| {
            let slot = self.slot(i);
            Piece {
                end: slot.end.load(Ordering::Relaxed),
                sum: slot.sum.load(Ordering::Relaxed),
            }
        };
        let pieces = (from..to).map(piece).collect();
        self.taken.store(to, Ordering::Release);
        pieces
    }
}

/// Whether the guest has a limit on the size of files: the kernel would send a signal for a write beyond
/// it.
fn is_limited() -> bool {
    resource_limits::soft(Resource::Fsize) != libc::RLIM_INFINITY
}

/// The store, open in this process.
pub(super) struct InputStore {
    file: File,
    /// The file, mapped as far as it can ever reach.
    base: *const u8,
    shm: &'static Shm,
}

// SAFETY: the mapping is only read, and only where bytes do not change any more.
unsafe impl Send for InputStore {}
// SAFETY: as above.
unsafe impl Sync for InputStore {}

/// The store of this recording. Process-wide: it is mapped for as long as the process lives, and no
/// descriptor of it may be made twice.
static STORE: OnceLock<Option<InputStore>> = OnceLock::new();

/// The store of this recording, opened when it is first needed; `None`: it cannot be used.
pub(super) fn open(task: &Task) -> Option<&'static InputStore> {
    if STORE.get().is_none() && task.vforked.is_some() {
        // The descriptor would be the child's alone, and the parent would take it for its own.
        return None;
    }
    STORE
        .get_or_init(|| InputStore::open(task.machine()))
        .as_ref()
}

/// The host's descriptor of the store, once it has one.
#[must_use]
pub fn own() -> Option<RawFd> {
    STORE.get()?.as_ref().map(|store| store.file.as_raw_fd())
}

impl InputStore {
    fn open(machine: &'static Machine) -> Option<Self> {
        if crate::retained_fds::is_changed() {
            // Its name may lead elsewhere.
            return None;
        }
        let _room = Room::for_host(true);
        let file = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(input_path(&machine.trace))
            .ok()?;
        let floor = machine.memory().translator.fd();
        let shm = machine.shm.as_ref()?;
        if is_limited() {
            SHARED.of(shm).look_for_limits();
        }
        Self::over(shm, file, floor)
    }

    /// The store in a file, open at a number above `floor`.
    fn over(shm: &'static Shm, file: File, floor: RawFd) -> Option<Self> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        let (anywhere, length) = (std::ptr::null_mut(), INPUT_MAX as usize);
        // SAFETY: a fresh map of a file of ours, for reading.
        let base = unsafe { mmap(anywhere, length, ProtFlags::READ, flags, &file, 0) }.ok()?;
        Some(Self {
            file: fcntl_dupfd_cloexec(&file, floor).ok()?.into(),
            base: base.cast(),
            shm,
        })
    }

    fn shared(&self) -> &StoreState {
        SHARED.of(self.shm)
    }

    pub(super) fn guesses(&self) -> &Guesses {
        &self.shared().guesses
    }

    /// The bytes from an offset on, at most `most`.
    pub(super) fn at(&self, offset: u64, most: usize) -> &[u8] {
        let length = self.shared().length.load(Ordering::Acquire);
        if offset < self.shared().floor() {
            return &[];
        }
        let n = length.saturating_sub(offset).min(most as u64) as usize;
        if n == 0 {
            return &[];
        }
        // SAFETY: the file reaches as far as `length` and is never changed below it and above the floor; the
        // mapping covers every length and is never removed.
        unsafe { std::slice::from_raw_parts(self.base.add(offset as usize), n) }
    }

    /// Prefetches bytes that are likely to be compared soon, while the guest and the kernel run: those of
    /// a large file lie in no cache any more.
    pub(super) fn expect(&self, offset: u64, length: usize) {
        const LINE: usize = 64;
        for line in self.at(offset, length.min(4096)).chunks(LINE) {
            // SAFETY: a hint, which needs no valid address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
        }
    }

    /// Appends bytes. Returns their offset, or `None`: they cannot be kept now.
    pub(super) fn append(&self, tid: u32, bytes: &[u8]) -> Option<u64> {
        self.shared().append(self.shm, &self.file, tid, bytes)
    }
}

#[cfg(test)]
mod tests;
