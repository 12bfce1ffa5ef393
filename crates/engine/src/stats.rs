//! Counters of a process tree, for people: the output of `--stats`.
//!
//! They lie in the memory of the supervisor, one slot for each host process, so that nothing
//! has to be sent at an end and a process that is killed loses nothing. Each counter has one
//! writer at a time: while recording the holder of the baton, in replay the one host thread.
//! Where threads run on all cores (`relive run`) counting is atomic. No decision of the engine may
//! ever depend on them.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use relive_dbt::Stats;
use relive_trace::Kind;

use crate::section::{Section, Shareable};
use crate::shm::Shm;

/// The number of host processes that can count at the same time.
const SLOTS: usize = 1024;
/// System calls with numbers up to here are counted one by one, the rest as the last.
const CALLS: usize = 512;

/// Kinds of events, in the order of their counters.
const EVENTS: [&str; 17] = [
    "start",
    "system call",
    "signal",
    "switch",
    "instruction",
    "exec",
    "turn",
    "checksum",
    "end",
    "handover",
    "memory",
    "after",
    "readings of clocks",
    "moments",
    "edges",
    "marks",
    "passings of marks",
];

fn event(kind: &Kind<'_>) -> usize {
    match kind {
        Kind::Start(_) => 0,
        Kind::Syscall(_) => 1,
        Kind::Signal(_) => 2,
        Kind::Switch { .. } => 3,
        Kind::Instr { .. } => 4,
        Kind::Exec(_) => 5,
        Kind::Turn { .. } => 6,
        Kind::Checksum { .. } => 7,
        Kind::End { .. } => 8,
        Kind::Handover { .. } => 9,
        Kind::Memory(_) => 10,
        Kind::After { .. } => 11,
        Kind::Readings { .. } => 12,
        Kind::Moment { .. } => 13,
        Kind::Edge { .. } => 14,
        Kind::Mark { .. } => 15,
        Kind::Behind { .. } => 16,
    }
}

/// The counters of one host process after another.
#[repr(C, align(64))]
pub struct CounterSlot {
    /// Kernel pid of the process that counts here now; 0 = none.
    owner: AtomicU32,
    /// Host processes that began to count here: forks and programs.
    hosts: AtomicU64,
    events: [AtomicU64; EVENTS.len()],
    calls: [AtomicU64; CALLS],
    translator: UnsafeCell<Stats>,
}

/// The counters of the tree.
pub static COUNTERS: Section<Counters> = Section::common();

/// Room for the counters of many host processes.
#[repr(C)]
pub struct Counters {
    /// Whether processes count.
    counting: AtomicU32,
    /// The number of host processes that found no free slot.
    uncounted: AtomicU64,
    slots: [CounterSlot; SLOTS],
}

// SAFETY: all but the translator's counters is atomic, and those have one owner; zeros are a value.
unsafe impl Shareable for Counters {}

impl Counters {
    /// Lets all processes of the tree count.
    pub fn count(&self) {
        self.counting.store(1, Release);
    }

    /// The slot of a process; `None` if counters are off, or all slots are taken.
    fn claim(&self, pid: u32) -> Option<&CounterSlot> {
        if self.counting.load(Acquire) == 0 {
            return None;
        }
        let known = self.slots.iter().find(|slot| slot.belongs_to(pid));
        let slot = known.or_else(|| self.slots.iter().find(|slot| slot.claim(pid)));
        if slot.is_none() {
            self.uncounted.fetch_add(1, Relaxed);
        }
        slot
    }

    /// The sums over all processes; `None` if counters are off.
    #[must_use]
    pub fn totals(&self) -> Option<Totals> {
        let uncounted = self.uncounted.load(Relaxed);
        let asked = self.counting.load(Acquire) != 0;
        asked.then(|| Totals::of(self.slots.iter(), uncounted))
    }
}

/// The slot of this process; null if it does not count.
/// Process-wide: the supervisor finds it by the process's id, and each system call looks whether there is
/// one.
static SLOT: AtomicPtr<CounterSlot> = AtomicPtr::new(std::ptr::null_mut());

/// The supervisor's memory.
/// Process-wide: a program that is only run has no other use of it, and no place for it in its machine.
static SHM: OnceLock<Shm> = OnceLock::new();

/// Whether threads of this process count at the same time. Process-wide: it belongs to the slot.
static TOGETHER: AtomicBool = AtomicBool::new(false);

/// Counts in this process from now on, if its supervisor has turned counters on; `together`: its threads
/// run at the same time. `count_in` lets the translator count.
pub fn attach(shm: Shm, together: bool, count_in: impl FnOnce(NonNull<Stats>)) {
    // Once in a process; a second call has the same memory.
    let _ = SHM.set(shm);
    TOGETHER.store(together, Relaxed);
    begin(count_in);
}

/// The memory in which this process counts, if it does.
pub fn memory() -> Option<Shm> {
    SHM.get().copied()
}

/// The pid and descriptor by which a program that replaces this one finds that memory.
pub fn descriptor() -> Option<(u32, u32)> {
    SHM.get().map(Shm::descriptor)
}

/// Counts in a slot of its own from now on: in the child of a fork.
pub fn begin(count_in: impl FnOnce(NonNull<Stats>)) {
    SLOT.store(std::ptr::null_mut(), Relaxed);
    let counters = SHM.get().map(|shm| COUNTERS.of(shm));
    let Some(slot) = counters.and_then(|c| c.claim(crate::ids::process())) else {
        return;
    };
    slot.hosts.fetch_add(1, Relaxed);
    let translator = slot.translator.get();
    if let Some(at) = NonNull::new(translator) {
        count_in(at);
    }
    SLOT.store(std::ptr::from_ref(slot).cast_mut(), Release);
}

/// Frees the slot of this process, which ends.
pub fn end() {
    if let Some(slot) = slot() {
        SLOT.store(std::ptr::null_mut(), Relaxed);
        slot.owner.store(0, Release);
    }
}

/// Counts a system call that the guest makes.
pub fn call(nr: u32) {
    if let Some(slot) = slot() {
        count(&slot.calls[(nr as usize).min(CALLS - 1)]);
    }
}

/// Whether this process counts.
#[must_use]
pub fn wanted() -> bool {
    slot().is_some()
}

/// Counts an event that is logged, or in replay consumed.
pub fn logged(kind: &Kind<'_>) {
    if let Some(slot) = slot() {
        count(&slot.events[event(kind)]);
    }
}

fn slot() -> Option<&'static CounterSlot> {
    // SAFETY: null, or a slot in a mapping that is never removed.
    unsafe { SLOT.load(Relaxed).as_ref() }
}

fn count(counter: &AtomicU64) {
    if TOGETHER.load(Relaxed) {
        counter.fetch_add(1, Relaxed);
    } else {
        // One writer at a time, and no locked instruction for it.
        counter.store(counter.load(Relaxed) + 1, Relaxed);
    }
}

impl CounterSlot {
    /// Whether a process counted here before it began a new program.
    fn belongs_to(&self, pid: u32) -> bool {
        self.owner.load(Acquire) == pid
    }

    /// Takes this slot for a process, if it is free.
    fn claim(&self, pid: u32) -> bool {
        self.owner.compare_exchange(0, pid, AcqRel, Relaxed).is_ok()
    }

    fn add_to(&self, totals: &mut Totals) {
        totals.hosts += self.hosts.load(Acquire);
        // SAFETY: plain numbers in mapped memory, of which any values are valid. A process
        // that still runs may be writing one: volatile, so that each is read once.
        totals.translator = totals.translator + unsafe { self.translator.get().read_volatile() };
        for (total, counter) in totals.events.iter_mut().zip(&self.events) {
            *total += counter.load(Relaxed);
        }
        for (total, counter) in totals.calls.iter_mut().zip(&self.calls) {
            *total += counter.load(Relaxed);
        }
    }
}

/// The sums over a whole tree of processes.
#[derive(Clone, Debug)]
pub struct Totals {
    /// Host processes: one for the first program, each exec and each fork.
    pub hosts: u64,
    /// Host processes that could not count because all slots were taken.
    pub uncounted: u64,
    /// Translation.
    pub translator: Stats,
    events: [u64; EVENTS.len()],
    calls: [u64; CALLS],
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            hosts: 0,
            uncounted: 0,
            translator: Stats::default(),
            events: [0; EVENTS.len()],
            calls: [0; CALLS],
        }
    }
}

impl Totals {
    /// Of all slots.
    fn of<'a>(slots: impl Iterator<Item = &'a CounterSlot>, uncounted: u64) -> Self {
        let mut totals = Self {
            uncounted,
            ..Self::default()
        };
        for slot in slots {
            slot.add_to(&mut totals);
        }
        totals
    }

    /// Of two runs together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            hosts: self.hosts + other.hosts,
            uncounted: self.uncounted + other.uncounted,
            translator: self.translator + other.translator,
            events: std::array::from_fn(|i| self.events[i] + other.events[i]),
            calls: std::array::from_fn(|i| self.calls[i] + other.calls[i]),
        }
    }

    /// The number of events of each kind that occurred, with its name.
    pub fn events(&self) -> impl Iterator<Item = (&'static str, u64)> {
        EVENTS.into_iter().zip(self.events).filter(|(_, n)| *n > 0)
    }

    /// System calls by number, without those that were never made.
    pub fn calls(&self) -> impl Iterator<Item = (u32, u64)> {
        let numbered = self.calls.iter().enumerate();
        numbered
            .filter(|(_, n)| **n > 0)
            .map(|(nr, n)| (nr as u32, *n))
    }
}
