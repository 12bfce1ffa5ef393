//! The traced threads of a recording as tracers and tracees see them. Lies in the shared memory.
//! See [`Standing`] for the course of their lives.
//!
//! Nothing here may look at guest memory or at a tape.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use relive_host::sys;

use super::standing::{LifeStep, Standing, state};
use crate::section::{Section, Shareable};
use crate::sharing::{dead_process, dead_thread};
use crate::siginfo::SigInfo;

/// The most threads that are traced at the same time.
const MOST: usize = 512;
/// The most threads that wait for a tracee at the same time.
const WAITERS: usize = 4096;
/// Bytes that one request moves.
pub const ROOM: usize = 4096;

/// The course of a request.
mod course {
    pub const NONE: u32 = 0;
    pub const WRITTEN: u32 = 1;
    pub const ASKED: u32 = 2;
    pub const ANSWERED: u32 = 3;
}

/// A tracer's wishes that reach a tracee which runs, as bits.
pub mod wish {
    /// PTRACE_INTERRUPT.
    pub const STOP: u32 = 1;
    /// PTRACE_ATTACH: SIGSTOP for the tracee.
    pub const SIGSTOP: u32 = 2;
    /// It was stopped with its process before.
    pub const GROUP_STOPPED: u32 = 4;
}

/// One traced thread.
#[repr(C)]
pub struct Slot {
    /// Where the tracee stands.
    pub standing: Standing,
    /// Kernel ids of the tracee: of the thread, and of its process.
    pub thread: AtomicU32,
    /// Its process.
    pub process: AtomicU32,
    /// The tracer's process.
    pub tracer: AtomicU32,
    /// The tracer's thread; 0 before it has made a request.
    pub tracer_thread: AtomicU32,
    /// `PTRACE_O_…`
    pub options: AtomicU32,
    /// Attached by PTRACE_SEIZE.
    pub seized: AtomicU32,
    /// See [`wish`].
    pub wishes: AtomicU32,
    /// PTRACE_GETEVENTMSG
    pub message: AtomicU64,
    /// How it goes on: the request of the tracer.
    pub resume: AtomicU32,
    /// And with which signal.
    pub signal: AtomicU32,
    /// Moves with each change that one side waits for.
    bell: AtomicU32,
    course: AtomicU32,
    request: AtomicU32,
    argument: AtomicU64,
    length: AtomicU32,
    result: AtomicI64,
    data: [AtomicU64; ROOM / 8],
}

/// All traced threads, and the threads that wait for one.
#[repr(C)]
pub struct Slots {
    /// The number of slots that have ever been used.
    used: AtomicU32,
    slots: [Slot; MOST],
    /// Process and thread in one word; 0: free.
    waiters: [AtomicU64; WAITERS],
}

/// The traced threads of the recording.
pub static SLOTS: Section<Slots> = Section::new();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for Slots {}

/// A request to a stopped tracee.
#[derive(Clone, Copy)]
pub struct TraceRequest {
    /// The request, see [`super::requests`].
    pub what: u32,
    /// An address, or another number.
    pub argument: u64,
    /// The number of bytes that it moves.
    pub length: usize,
}

impl Slots {
    fn all(&self) -> impl Iterator<Item = (usize, &Slot)> {
        let used = self.used.load(Ordering::Acquire) as usize;
        self.slots[..used.min(MOST)].iter().enumerate()
    }

    /// The slot with this number.
    pub fn at(&self, slot: usize) -> &Slot {
        &self.slots[slot]
    }

    /// Whether any thread has ever been traced.
    pub fn any(&self) -> bool {
        self.used.load(Ordering::Acquire) != 0
    }

    /// Takes a free slot.
    pub fn claim(&self) -> Option<(usize, &Slot)> {
        for (i, slot) in self.slots.iter().enumerate() {
            if slot.standing.take(LifeStep::Claimed).is_some() {
                for word in [
                    &slot.thread,
                    &slot.process,
                    &slot.tracer,
                    &slot.tracer_thread,
                    &slot.options,
                    &slot.seized,
                    &slot.wishes,
                    &slot.resume,
                    &slot.signal,
                    &slot.course,
                ] {
                    word.store(0, Ordering::Relaxed);
                }
                self.used.fetch_max(i as u32 + 1, Ordering::AcqRel);
                return Some((i, slot));
            }
        }
        None
    }

    /// The slot of a thread that is traced.
    pub fn of_thread(&self, thread: u32) -> Option<(usize, &Slot)> {
        self.all().find(|(_, s)| {
            s.thread.load(Ordering::Acquire) == thread
                && !matches!(s.state(), state::FREE | state::ENDED)
        })
    }

    /// The slots of a process.
    pub fn of_process(&self, process: u32) -> impl Iterator<Item = (usize, &Slot)> {
        self.all().filter(move |(_, s)| {
            s.process.load(Ordering::Acquire) == process && s.state() != state::FREE
        })
    }

    /// The slots of the tracees of a process.
    pub fn of_tracer(&self, tracer: u32) -> impl Iterator<Item = (usize, &Slot)> {
        self.all().filter(move |(_, s)| {
            s.tracer.load(Ordering::Acquire) == tracer && s.state() != state::FREE
        })
    }

    /// Notes that a thread of a process is about to wait. `None`: there is no room.
    pub fn waits(&self, process: u32, thread: u32) -> Option<Waiter<'_>> {
        let entry = u64::from(process) << 32 | u64::from(thread);
        let (ok, fail) = (Ordering::SeqCst, Ordering::Relaxed);
        let take = |w: &AtomicU64, there| w.compare_exchange(there, entry, ok, fail).is_ok();
        let free = self.waiters.iter().find(|w| take(w, 0));
        let found = free.or_else(|| {
            // Some have died while they waited.
            self.waiters.iter().find(|w| {
                let there = w.load(Ordering::Relaxed);
                dead_thread(there as u32) && take(w, there)
            })
        });
        found.map(Waiter)
    }

    /// The threads of a process that wait.
    pub fn waiting(&self, process: u32) -> impl Iterator<Item = u32> {
        let entries = self.waiters.iter().map(|w| w.load(Ordering::SeqCst));
        entries
            .filter(move |e| e >> 32 == u64::from(process))
            .map(|e| e as u32)
    }
}

/// A thread's note that it waits.
pub struct Waiter<'a>(&'a AtomicU64);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

impl Slot {
    /// See [`state`].
    pub fn state(&self) -> u32 {
        self.standing.get().state
    }

    /// Takes a step, and wakes the other side. Whether it could be taken.
    pub fn take(&self, turn: LifeStep) -> bool {
        let taken = self.standing.take(turn).is_some();
        self.ring();
        taken
    }

    /// The thread ends with this status; `false`: that has been said, by itself or by the end of its process.
    pub fn ends(&self, thread: u32, status: u32) -> bool {
        self.thread.load(Ordering::Acquire) == thread && self.take(LifeStep::Ends(status))
    }

    /// Wakes the other side.
    pub fn ring(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        sys::futex_wake(&self.bell, u32::MAX >> 1);
    }

    /// Sleeps until the other side rings, a signal comes, or a moment is over; unless `ready`.
    pub fn sleep(&self, ready: impl Fn() -> bool) {
        let seen = self.bell.load(Ordering::SeqCst);
        if !ready() {
            sys::futex_wait(&self.bell, seen, Some(50));
        }
    }

    /// As [`Slot::sleep`], where another slot has to be looked at too.
    pub fn sleep_briefly(&self, ready: impl Fn() -> bool) {
        let seen = self.bell.load(Ordering::SeqCst);
        if !ready() {
            sys::futex_wait(&self.bell, seen, Some(1));
        }
    }

    /// Whether the tracer's process is gone.
    pub fn is_orphan(&self) -> bool {
        dead_process(self.tracer.load(Ordering::Acquire))
    }

    /// Whether the tracee is gone without having said so.
    pub fn is_dead(&self) -> bool {
        let thread = self.thread.load(Ordering::Acquire);
        thread != 0 && dead_thread(thread)
    }

    /// The tracer asks its stopped tracee, and waits for the answer: a result, and bytes in place of
    /// those of the request. `None`: the tracee is gone.
    pub fn ask(&self, request: TraceRequest, bytes: &mut [u8]) -> Option<i64> {
        let (ok, fail) = (Ordering::AcqRel, Ordering::Acquire);
        let claimed = || {
            let (none, written) = (course::NONE, course::WRITTEN);
            self.course
                .compare_exchange(none, written, ok, fail)
                .is_ok()
        };
        while !claimed() {
            self.sleep(|| self.course.load(Ordering::Acquire) == course::NONE);
            if self.is_dead() {
                return None;
            }
        }
        self.request.store(request.what, Ordering::Relaxed);
        self.argument.store(request.argument, Ordering::Relaxed);
        self.length.store(request.length as u32, Ordering::Relaxed);
        self.put(bytes);
        self.course.store(course::ASKED, Ordering::Release);
        self.ring();
        while self.course.load(Ordering::Acquire) != course::ANSWERED {
            self.sleep(|| self.course.load(Ordering::Acquire) == course::ANSWERED);
            if self.is_dead() {
                return None;
            }
        }
        self.get(bytes);
        let result = self.result.load(Ordering::Relaxed);
        self.course.store(course::NONE, Ordering::Release);
        self.ring();
        Some(result)
    }

    /// The request that the tracee has to answer.
    pub fn asked(&self) -> Option<TraceRequest> {
        (self.course.load(Ordering::Acquire) == course::ASKED).then(|| TraceRequest {
            what: self.request.load(Ordering::Relaxed),
            argument: self.argument.load(Ordering::Relaxed),
            length: (self.length.load(Ordering::Relaxed) as usize).min(ROOM),
        })
    }

    /// The tracee has answered.
    pub fn answer(&self, result: i64) {
        self.result.store(result, Ordering::Relaxed);
        self.course.store(course::ANSWERED, Ordering::Release);
        self.ring();
    }

    /// Puts the bytes of a request, or of its answer, there; no more than there is room for.
    pub fn put(&self, bytes: &[u8]) {
        for (word, piece) in self.data.iter().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..piece.len()].copy_from_slice(piece);
            word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
    }

    /// Gets them from there.
    pub fn get(&self, bytes: &mut [u8]) {
        for (word, piece) in self.data.iter().zip(bytes.chunks_mut(8)) {
            let whole = word.load(Ordering::Relaxed).to_le_bytes();
            piece.copy_from_slice(&whole[..piece.len()]);
        }
    }
}

/// A siginfo as kill(2) sends it.
#[must_use]
pub fn sent_by(sig: i32, code: i32, pid: u32) -> SigInfo {
    let mut info = [0; 128];
    let uid = rustix::process::getuid().as_raw();
    for (at, word) in [(0, sig as u32), (8, code as u32), (16, pid), (20, uid)] {
        info[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    info
}
