//! The memory that a supervisor and all host processes of one tree share: rings (one per
//! tape), the numbers that are global to the tree, the locks around output, and the first
//! failure. A memfd, so that it survives any one process.
//!
//! Everything in it may be read and written by several processes at once: atomics only, and
//! no pointer. A process that dies holding a lock of this module is noticed by the waiters.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use relive_host::sys;
use relive_trace::{Short, TapeId, WIDE};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use rustix::process::{Pid, test_kill_process};

use crate::failure::{self, Failure, Result};

/// How many tapes can be written at the same time.
pub const RINGS: usize = 4096;
/// Bytes in one ring.
pub const RING_BYTES: u64 = 128 * 1024;
const TEXT: usize = 4096;
/// A failure is being written down.
const TELLING: u32 = u32::MAX;
const REPLAYING: usize = 65536;
const MAGIC: u64 = 0x314d_4853_5652_4c52;

/// State of a ring.
pub mod state {
    /// Nobody's.
    pub const FREE: u32 = 0;
    /// A thread writes to it.
    pub const ACTIVE: u32 = 1;
    /// Its thread has written its last event.
    pub const CLOSED: u32 = 2;
    /// Being set up.
    pub const CLAIMED: u32 = 3;
}

/// One single-producer, single-consumer byte ring; its data lies behind the header.
#[repr(C, align(64))]
pub struct Ring {
    /// See [`state`].
    pub state: AtomicU32,
    /// Kernel pid of the writer, to notice its death.
    pub pid: AtomicU32,
    process: AtomicU32,
    thread: AtomicU32,
    /// Bytes ever written.
    pub head: AtomicU64,
    /// Bytes ever read.
    pub tail: AtomicU64,
    /// Moves when the reader has made room.
    pub room: AtomicU32,
    /// Events ever written.
    pub events: AtomicU64,
    /// Ticks of the thread at the last of them.
    pub ticks: AtomicU64,
}

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
    /// Owner (kernel tid) of the right to write output; 0 = nobody.
    pub output_lock: AtomicU32,
    /// Highest ring index in use, plus one.
    pub rings_used: AtomicU32,
    /// Events of the whole tree (replay).
    pub events: AtomicU64,
    /// Some process of the tree is, or will be, another user's: copies are for all to read.
    pub users: AtomicU32,
    /// Class of the first failure: 0 none, [`TELLING`] while it is written down.
    failed: AtomicU32,
    text_len: AtomicU32,
    text: [std::sync::atomic::AtomicU8; TEXT],
    /// Host processes of a replay, to end them together.
    replaying: [AtomicU32; REPLAYING],
    rings: [Ring; RINGS],
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

/// A section of the memory, of any type: [`crate::section`].
pub trait Declared: Sync {
    /// Size and alignment in bytes.
    fn room(&self) -> (usize, usize);
    /// Whether a guided replay has it for itself.
    fn is_own(&self) -> bool;
    /// It lies there from now on.
    fn place(&self, offset: usize);
}

/// Where the parts of the memory lie behind the header and the sections that a guided replay has for
/// itself: the rings' data, the other sections, the end.
#[derive(Debug)]
struct Layout {
    data: usize,
    size: usize,
}

static LAYOUT: OnceLock<Layout> = OnceLock::new();

const PAGE: usize = 4096;

/// Decides where all sections lie. Once in a process, before memory is shared.
pub fn place(sections: &[&dyn Declared]) {
    let mut end = size_of::<Header>();
    let put = |end: &mut usize, own: bool| {
        for section in sections.iter().filter(|s| s.is_own() == own) {
            let (size, align) = section.room();
            *end = end.next_multiple_of(align);
            section.place(*end);
            *end += size;
        }
    };
    put(&mut end, true);
    let data = end.next_multiple_of(PAGE);
    end = data + RINGS * RING_BYTES as usize;
    put(&mut end, false);
    let size = end.next_multiple_of(PAGE);
    LAYOUT
        .set(Layout { data, size })
        .expect("sections are placed once");
}

fn layout() -> &'static Layout {
    LAYOUT
        .get()
        .expect("sections are placed before memory is shared")
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
        // SAFETY: fresh zeroed memory of the header's size; nobody else has it yet.
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
    /// what another one has done. The rings are not used in a replay.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn make_private(&self) -> Result<()> {
        // SAFETY: the header is that many bytes of this mapping, which others change with
        // atomic stores only, and which nobody changes now: the session has not begun.
        let bytes = unsafe { std::slice::from_raw_parts(self.base, layout().data) }.to_vec();
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: replaces the pages of the header, to which no reference is held, and fills
        // them with what they held.
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

    /// By what name another process of the tree opens this memory.
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
        // SAFETY: only sections ask, for what `place` has given them.
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

    /// Claims a free ring for a tape.
    ///
    /// # Errors
    /// All rings are in use.
    pub fn claim(&self, tape: TapeId, pid: u32) -> Result<u32> {
        for i in 0..RINGS as u32 {
            let ring = self.ring(i);
            if ring.state.load(Ordering::Relaxed) == state::FREE
                && ring
                    .state
                    .compare_exchange(
                        state::FREE,
                        state::CLAIMED,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    )
                    .is_ok()
            {
                ring.pid.store(pid, Ordering::Relaxed);
                ring.process.store(tape.process, Ordering::Relaxed);
                ring.thread.store(tape.thread, Ordering::Relaxed);
                ring.head.store(0, Ordering::Relaxed);
                ring.tail.store(0, Ordering::Relaxed);
                ring.events.store(0, Ordering::Relaxed);
                ring.ticks.store(0, Ordering::Relaxed);
                self.header().rings_used.fetch_max(i + 1, Ordering::AcqRel);
                ring.state.store(state::ACTIVE, Ordering::Release);
                return Ok(i);
            }
        }
        Err(Failure::unsupported(format!(
            "more than {RINGS} threads at once in the recorded processes"
        )))
    }

    /// The tape that a ring belongs to.
    #[must_use]
    pub fn tape(&self, index: u32) -> TapeId {
        let r = self.ring(index);
        TapeId {
            process: r.process.load(Ordering::Relaxed),
            thread: r.thread.load(Ordering::Relaxed),
        }
    }

    /// Appends an event to a ring; waits while there is no room. An event that a ring has room for
    /// comes into it as a whole: of a process that is killed in here nothing is seen of it.
    pub fn push(&self, index: u32, mut bytes: &[u8]) {
        let ring = self.ring(index);
        while !bytes.is_empty() {
            let head = ring.head.load(Ordering::Relaxed);
            let used = head - ring.tail.load(Ordering::Acquire);
            let n = match bytes.len() as u64 {
                whole @ ..=RING_BYTES => whole,
                _ => RING_BYTES / 2,
            };
            if used + n > RING_BYTES {
                self.wait_for_room(ring, n);
                continue;
            }
            let (part, rest) = bytes.split_at(n as usize);
            let at = head % RING_BYTES;
            let (first, second) = part.split_at(n.min(RING_BYTES - at) as usize);
            for (piece, at) in [(first, at), (second, 0)] {
                // SAFETY: the n bytes from `head` on, of which these are a part up to the end of
                // the ring's data or from its start, are free: only this producer writes there,
                // and the consumer has passed them.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        piece.as_ptr(),
                        self.data(index).add(at as usize),
                        piece.len(),
                    );
                }
            }
            ring.head.store(head + n, Ordering::Release);
            bytes = rest;
            if used <= RING_BYTES / 2 && used + n > RING_BYTES / 2 {
                self.wake_supervisor();
            }
        }
    }

    /// The same for a small event.
    #[inline]
    pub fn push_short(&self, index: u32, short: &Short) {
        let ring = self.ring(index);
        let head = ring.head.load(Ordering::Relaxed);
        let used = head - ring.tail.load(Ordering::Acquire);
        let (at, wide) = (head % RING_BYTES, WIDE as u64);
        let fits = used + wide <= RING_BYTES && at + wide <= RING_BYTES;
        let Some((n, bytes)) = short.wide().filter(|_| fits) else {
            return self.push(index, short.as_slice());
        };
        // SAFETY: [at, at+WIDE) is inside the ring's data and free: only this producer writes
        // there, and the consumer has passed it. It reads no further than `head` says.
        unsafe {
            self.data(index)
                .add(at as usize)
                .cast::<[u8; WIDE]>()
                .write_unaligned(*bytes)
        };
        let n = n as u64;
        ring.head.store(head + n, Ordering::Release);
        if used <= RING_BYTES / 2 && used + n > RING_BYTES / 2 {
            self.wake_supervisor();
        }
    }

    /// Takes out what is in a ring, in at most two pieces.
    pub fn pull(&self, index: u32, mut take: impl FnMut(&[u8])) -> u64 {
        let ring = self.ring(index);
        let (tail, head) = (
            ring.tail.load(Ordering::Relaxed),
            ring.head.load(Ordering::Acquire),
        );
        let mut at = tail;
        while at < head {
            let from = at % RING_BYTES;
            let n = (head - at).min(RING_BYTES - from);
            // SAFETY: [tail, head) was published by the producer, which does not touch it
            // until `tail` has moved.
            take(unsafe {
                std::slice::from_raw_parts(self.data(index).add(from as usize), n as usize)
            });
            at += n;
        }
        if head != tail {
            ring.tail.store(head, Ordering::Release);
            ring.room.fetch_add(1, Ordering::AcqRel);
            if head - tail > RING_BYTES / 2 {
                sys::futex_wake(&ring.room, 1);
            }
        }
        head - tail
    }

    fn wait_for_room(&self, ring: &Ring, wanted: u64) {
        let seen = ring.room.load(Ordering::Acquire);
        self.wake_supervisor();
        let used = ring.head.load(Ordering::Relaxed) - ring.tail.load(Ordering::Acquire);
        if used + wanted <= RING_BYTES {
            return;
        }
        sys::futex_wait(&ring.room, seen, Some(50));
        self.need_supervisor();
    }

    /// Ends this process if the supervisor is gone: nobody would store what it logs.
    pub fn need_supervisor(&self) {
        if !alive(self.header().supervisor.load(Ordering::Acquire)) {
            failure::die_unrecorded();
        }
    }

    /// Asks the supervisor to read the rings.
    pub fn wake_supervisor(&self) {
        self.header().wake.fetch_add(1, Ordering::AcqRel);
        sys::futex_wake(&self.header().wake, 1);
    }

    /// Notes a host process of a replay.
    pub fn register(&self, pid: u32) {
        let free = |slot: &&AtomicU32| {
            slot.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        let _ = self.header().replaying.iter().find(free);
    }

    /// A host process of a replay is about to end: its number may soon be another's.
    pub fn unregister(&self, pid: u32) {
        let mut slots = self.header().replaying.iter();
        if let Some(own) = slots.find(|slot| slot.load(Ordering::Acquire) == pid) {
            own.store(0, Ordering::Release);
        }
    }

    /// Host processes of the replay.
    pub fn registered(&self) -> impl Iterator<Item = u32> {
        let slots = self.header().replaying.iter();
        slots.map(|p| p.load(Ordering::Acquire)).filter(|&p| p != 0)
    }

    /// Keeps the first failure of the tree.
    pub fn fail(&self, failure: &Failure) {
        let h = self.header();
        if h.failed
            .compare_exchange(0, TELLING, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            let (class, text) = failure.parts();
            let n = text.len().min(TEXT);
            for (slot, b) in h.text.iter().zip(&text.as_bytes()[..n]) {
                slot.store(*b, Ordering::Relaxed);
            }
            h.text_len.store(n as u32, Ordering::Relaxed);
            h.failed.store(class, Ordering::Release);
        }
        self.wake_supervisor();
    }

    /// The first failure, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let h = self.header();
        let class = match h.failed.load(Ordering::Acquire) {
            0 | TELLING => return None,
            class => class,
        };
        // A replay that was taken over may write anything here.
        let n = (h.text_len.load(Ordering::Relaxed) as usize).min(TEXT);
        let bytes: Vec<u8> = h.text[..n]
            .iter()
            .map(|b| b.load(Ordering::Relaxed))
            .collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Some(Failure::of_parts(class, text))
    }

    /// Tries to take the right to write output; waits up to 50 ms. An owner that has died
    /// loses it.
    #[must_use]
    pub fn lock_output(&self, tid: u32) -> bool {
        let lock = &self.header().output_lock;
        match lock.compare_exchange(0, tid, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(owner) => {
                sys::futex_wait(lock, owner, Some(50));
                !alive(owner)
                    && lock
                        .compare_exchange(owner, tid, Ordering::AcqRel, Ordering::Acquire)
                        .is_ok()
            }
        }
    }

    /// Gives it back, with the number of this output.
    pub fn unlock_output(&self, wrote: bool) -> Option<u64> {
        let h = self.header();
        let order = wrote.then(|| h.next_order.fetch_add(1, Ordering::AcqRel));
        h.output_lock.store(0, Ordering::Release);
        sys::futex_wake(&h.output_lock, 1);
        order
    }
}

/// The memory that this process shares with its supervisor.
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
    let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) else {
        return false;
    };
    matches!(test_kill_process(id), Ok(()) | Err(Errno::PERM))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever is killed while it pushes leaves whole events only.
    #[test]
    fn events_come_into_a_ring_as_a_whole() {
        const EVENT: u64 = 1000;
        const EVENTS: u64 = 5000;
        crate::sections::place();
        let (shm, _fd) = Shm::create().expect("shared memory");
        let tape = TapeId {
            process: 0,
            thread: 0,
        };
        let ring = shm.claim(tape, std::process::id()).expect("a ring");
        let (mut seen, mut parts) = (0, 0);
        std::thread::scope(|threads| {
            threads.spawn(|| (0..EVENTS).for_each(|i| shm.push(ring, &[i as u8; EVENT as usize])));
            while seen < EVENTS * EVENT {
                let n = shm.pull(ring, |_| ());
                parts += u64::from(n % EVENT != 0);
                seen += n;
            }
        });
        assert_eq!((seen, parts), (EVENTS * EVENT, 0));
    }
}
