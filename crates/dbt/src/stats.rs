//! Counters of a translator. They are for people and must never influence anything.

use std::ops::{Add, Deref, DerefMut};
use std::ptr::NonNull;

use crate::exit::ExitKind;

/// Counts of a [`crate::Translator`] since it was made.
///
/// Plain numbers, so that they may lie in memory that other processes read: all zeros are
/// a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stats {
    /// Fragments translated, without those for stepping.
    pub fragments: u64,
    /// Fragments taken over from an earlier process.
    pub taken_over: u64,
    /// One-instruction fragments translated for stepping.
    pub step_fragments: u64,
    /// Guest instructions translated.
    pub guest_insns: u64,
    /// Bytes emitted: fragments and entries.
    pub hot_bytes: u64,
    /// Bytes emitted: exit stubs.
    pub cold_bytes: u64,
    /// Entries added to existing fragments.
    pub late_entries: u64,
    /// Direct branches linked.
    pub links: u64,
    /// Indirect jumps and calls resolved by the host.
    pub jump_misses: u64,
    /// Returns resolved by the host.
    pub return_misses: u64,
    /// Indirect branches that reached a landing not meant for them.
    pub mismatches: u64,
    /// Indirect branches to where the table is not mapped (each costs a signal).
    pub table_faults: u64,
    /// Landings found to be reached by branches to other targets (each costs a signal).
    pub misled: u64,
    /// Paired calls and returns that found no shadow (each costs a signal).
    pub shadow_faults: u64,
    /// Entries into fragments that were invalidated just before.
    pub stale_entries: u64,
    /// Guest faults.
    pub guest_faults: u64,
    /// Fragments forgotten because guest code changed.
    pub invalidated: u64,
    /// Fragments forgotten for the room that they took.
    pub evicted: u64,
    /// Bytes of forgotten code and exits, free to be used again.
    pub reclaimed_bytes: u64,
    /// Bytes emitted where other code had been before.
    pub reused_bytes: u64,
    /// How often all threads were out of the cache for that.
    pub reclaims: u64,
    /// Flushes of the whole cache.
    pub flushes: u64,
    /// Nanoseconds spent in translation.
    pub translation_ns: u64,
    /// Exits from the cache by reason, without faults; see [`Stats::exits`].
    exits: [u64; REASONS.len()],
}

/// Reasons of exits: kinds of exits that mean the same to a reader share one.
const REASONS: [&str; 15] = [
    "direct branch not linked yet",
    "indirect branch without a slot",
    "indirect branch to another's slot",
    "budget used up",
    "system call",
    "instruction without determined result",
    "pause",
    "trap",
    "instruction that is refused",
    "x87 instruction pointer",
    "single step",
    "breakpoint",
    "watched memory",
    "ordered instruction",
    "line of memory to ask for",
];

fn reason(kind: ExitKind) -> usize {
    match kind {
        ExitKind::Link | ExitKind::LinkTicked | ExitKind::LinkCalled => 0,
        ExitKind::MissEven
        | ExitKind::MissOdd
        | ExitKind::HashedJump
        | ExitKind::HashedReturn
        | ExitKind::Site => 1,
        ExitKind::JumpMismatch | ExitKind::ReturnMismatch | ExitKind::ReturnLost => 2,
        ExitKind::Budget => 3,
        ExitKind::Syscall => 4,
        ExitKind::Instr => 5,
        ExitKind::Pause => 6,
        ExitKind::Int3 | ExitKind::Int1 | ExitKind::Undefined => 7,
        ExitKind::Unsupported => 8,
        ExitKind::Fip | ExitKind::Xsave => 9,
        ExitKind::Step | ExitKind::StepTicked | ExitKind::StepJump | ExitKind::StepReturn => 10,
        ExitKind::Breakpoint => 11,
        ExitKind::Watch => 12,
        ExitKind::Ordered => 13,
        ExitKind::Permission => 14,
    }
}

impl Stats {
    /// Exits from the cache to the host, by reason in words.
    pub fn exits(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let faults = [
            ("fault of the guest", self.guest_faults),
            ("indirect branch outside of the table", self.table_faults),
            ("landing that was not meant", self.misled),
            ("paired call or return without a shadow", self.shadow_faults),
            ("way into forgotten code", self.stale_entries),
        ];
        REASONS.into_iter().zip(self.exits).chain(faults)
    }

    pub(crate) fn count_exit(&mut self, kind: ExitKind) {
        self.exits[reason(kind)] += 1;
    }
}

impl Add for Stats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            fragments: self.fragments + other.fragments,
            taken_over: self.taken_over + other.taken_over,
            step_fragments: self.step_fragments + other.step_fragments,
            guest_insns: self.guest_insns + other.guest_insns,
            hot_bytes: self.hot_bytes + other.hot_bytes,
            cold_bytes: self.cold_bytes + other.cold_bytes,
            late_entries: self.late_entries + other.late_entries,
            links: self.links + other.links,
            jump_misses: self.jump_misses + other.jump_misses,
            return_misses: self.return_misses + other.return_misses,
            mismatches: self.mismatches + other.mismatches,
            table_faults: self.table_faults + other.table_faults,
            misled: self.misled + other.misled,
            shadow_faults: self.shadow_faults + other.shadow_faults,
            stale_entries: self.stale_entries + other.stale_entries,
            guest_faults: self.guest_faults + other.guest_faults,
            invalidated: self.invalidated + other.invalidated,
            evicted: self.evicted + other.evicted,
            reclaimed_bytes: self.reclaimed_bytes + other.reclaimed_bytes,
            reused_bytes: self.reused_bytes + other.reused_bytes,
            reclaims: self.reclaims + other.reclaims,
            flushes: self.flushes + other.flushes,
            translation_ns: self.translation_ns + other.translation_ns,
            exits: std::array::from_fn(|i| self.exits[i] + other.exits[i]),
        }
    }
}

/// The memory in which a translator counts: its own, or a given one.
pub(crate) struct Counters {
    at: NonNull<Stats>,
    /// Owns the memory, if it is its own.
    _own: Option<Box<Stats>>,
}

impl Counters {
    pub(crate) fn own() -> Self {
        let mut own = Box::<Stats>::default();
        Self {
            at: NonNull::from(&mut *own),
            _own: Some(own),
        }
    }

    /// # Safety
    /// As [`crate::Translator::count_in`].
    pub(crate) unsafe fn elsewhere(at: NonNull<Stats>) -> Self {
        Self { at, _own: None }
    }
}

impl Deref for Counters {
    type Target = Stats;

    fn deref(&self) -> &Stats {
        // SAFETY: memory of our own, which lives as long as this, or memory of which the
        // caller of `elsewhere` has promised it; only this translator writes there.
        unsafe { self.at.as_ref() }
    }
}

impl DerefMut for Counters {
    fn deref_mut(&mut self) -> &mut Stats {
        // SAFETY: as above.
        unsafe { self.at.as_mut() }
    }
}

// SAFETY: the pointer is the only way to its memory in this process.
unsafe impl Send for Counters {}
// SAFETY: shared references only read.
unsafe impl Sync for Counters {}
