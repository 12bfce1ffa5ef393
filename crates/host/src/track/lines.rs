//! The lines of the tracker: accesses that the routine may handle by itself.
//!
//! A tracker that has looked at an access of one thread, and would do no more with the next one like it
//! than to note its time and its place, makes a *line* of it. Lines are of one *generation*: a
//! tracker begins a new one when another thread runs, and whenever a place that lines point to
//! could have become something else's. This module decides nothing, and touches no guest memory.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::access::Tracked;
use super::filter::{self, ENTRY_SHIFT, Era};

/// The state that the routine works with, or null. Process-wide: translated code calls the
/// routine without an argument for it.
pub(super) static NOW: AtomicPtr<Now> = AtomicPtr::new(std::ptr::null_mut());

/// From now on the routine looks into the lines of this state before it calls the tracker.
///
/// # Safety
/// It stays there and is used by this thread alone, until another one is followed.
pub unsafe fn follow(now: *mut Now) {
    NOW.store(now, Ordering::Relaxed);
}

/// Lines for each kind of access.
pub const LINES: usize = 1 << 13;
/// Kinds of accesses that have lines.
const KINDS: usize = 3;
/// Places of instructions that are told apart.
const SITES: usize = 1 << 16;

/// The record that a tracker keeps of an access: the routine writes time, tick, event and place.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// The time of its thread.
    pub time: u32,
    /// Its thread.
    pub thread: u16,
    /// Bytes of the word.
    pub mask: u8,
    /// 1: it writes.
    pub writes: u8,
    /// Ticks of the thread.
    pub tick: u64,
    /// Events of the process.
    pub event: u64,
    /// The instruction, and whatever above its 48 bits.
    pub place: u64,
}

impl Slot {
    /// The instruction.
    #[must_use]
    pub fn pc(&self) -> u64 {
        self.place & Tracked::PC
    }

    /// All but time and position, as one word.
    fn shape(&self) -> u64 {
        u64::from(self.thread) | u64::from(self.mask) << 16 | u64::from(self.writes) << 24
    }
}

/// How an object is held: by a thread that knows all that the object knows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The thread's knowledge then ([`Now::stamp`]), or 0.
    pub stamp: u64,
    /// The thread's time when it released the object last.
    pub time: u32,
}

/// An access that the routine knows.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Line {
    pub(crate) addr: u64,
    /// Generation, and the upper 16 bits of [`Tracked::word`].
    pub(crate) shape: u64,
    /// The slot, or the first object.
    pub(crate) first: u64,
    /// The expected slot, and the address of its entry in the filter; or the second object.
    pub(crate) second: u64,
}

/// The state that the routine works with.
#[repr(C)]
pub struct Now {
    /// The running thread's time.
    pub time: u32,
    /// Stands for all that the running thread knows of others; never 0.
    pub stamp: u64,
    /// Events of the process.
    pub event: u64,
    /// The era of the running thread.
    pub era: Era,
    pub(crate) generation: u64,
    pub(crate) table: *mut Line,
    pub(crate) sites: *mut u8,
}

/// Lines, and the state of the routine.
pub struct Lines {
    now: *mut Now,
    lines: Box<[Line]>,
    sites: Box<[u8]>,
    /// The slot of accesses that need none.
    none: Box<Slot>,
}

const NO_LINE: Line = Line {
    addr: 0,
    shape: 0,
    first: 0,
    second: 0,
};

impl Default for Lines {
    fn default() -> Self {
        let mut lines = vec![NO_LINE; KINDS * LINES].into_boxed_slice();
        let mut sites = vec![0; SITES].into_boxed_slice();
        let now = Now {
            time: 0,
            stamp: 1,
            event: 0,
            era: Era::default(),
            generation: 1 << GENERATION_SHIFT,
            table: lines.as_mut_ptr(),
            sites: sites.as_mut_ptr(),
        };
        let now = Box::into_raw(Box::new(now));
        let none = Box::default();
        Self {
            now,
            lines,
            sites,
            none,
        }
    }
}

/// Where the generation begins in a line's shape.
const GENERATION_SHIFT: u32 = 16;

impl Drop for Lines {
    fn drop(&mut self) {
        let followed = NOW.load(Ordering::Relaxed);
        if followed == self.now {
            // SAFETY: the routine does without.
            unsafe { follow(null_mut()) };
        }
        // SAFETY: made by `default`, and nothing else has it now.
        drop(unsafe { Box::from_raw(self.now) });
    }
}

impl Lines {
    /// The state.
    #[must_use]
    pub fn now(&self) -> &Now {
        // SAFETY: it is there as long as this, and the routine runs in none of its borrows.
        unsafe { &*self.now }
    }

    /// The same, to change it.
    pub fn now_mut(&mut self) -> &mut Now {
        // SAFETY: as above.
        unsafe { &mut *self.now }
    }

    /// The routine looks into these lines from now on.
    ///
    /// # Safety
    /// The thread is the one that tracks, and slots and objects of lines are where they were for as
    /// long as their generation.
    pub unsafe fn follow(&self) {
        // SAFETY: it is there until it is dropped, which ends this.
        unsafe { follow(self.now) };
    }

    /// All lines are forgotten.
    pub fn forget(&mut self) {
        self.now_mut().generation += 1 << GENERATION_SHIFT;
    }

    /// Instructions at this address are always told to the tracker.
    pub fn tell_all_of(&mut self, pc: u64) {
        self.sites[pc as usize % SITES] = 1;
    }

    /// A plain access of 1, 2, 4 or 8 bytes that is made again renews this slot, if that is still
    /// like now.
    pub fn renews(&mut self, addr: u64, size: u64, writes: bool, slot: &mut Slot) {
        let entry = filter::entry(addr, size, writes);
        let shape = slot.shape() | entry << 32;
        let slot = std::ptr::from_mut(slot) as u64;
        self.set(addr, access(size, writes, false), slot, shape);
    }

    /// Nothing comes of a plain read of 1, 2, 4 or 8 bytes that is made again.
    pub fn ignores(&mut self, addr: u64, size: u64) {
        let shape = self.none.shape() | filter::entry(addr, size, false) << 32;
        let slot = &raw mut *self.none as u64;
        self.set(addr, access(size, false, false), slot, shape);
    }

    /// An atomic access that is made again releases these objects (or this one, twice), if they are still held by the
    /// running thread's knowledge of now.
    pub fn releases(&mut self, addr: u64, size: u64, objects: [*mut Held; 2]) {
        let [first, second] = objects.map(|held| held as u64);
        self.set(addr, access(size, true, true), first, second);
    }

    fn set(&mut self, addr: u64, access: Tracked, first: u64, second: u64) {
        let word = access.word();
        let kind = access.kind();
        let entry = (addr >> ENTRY_SHIFT) as usize % LINES;
        let shape = self.now().generation | word >> super::access::SIZE_SHIFT;
        self.lines[kind * LINES + entry] = Line {
            addr,
            shape,
            first,
            second,
        };
    }
}

/// An access like those of lines.
fn access(size: u64, writes: bool, atomic: bool) -> Tracked {
    Tracked {
        pc: 0,
        size,
        writes,
        atomic,
        repeated: false,
        masked: None,
    }
}
