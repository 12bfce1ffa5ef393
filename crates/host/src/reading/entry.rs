//! Readings, and their form in a thread's buffer.

/// Indices of the routines. The time stamp counter.
pub const TSC: usize = 0;
/// The time stamp counter with the processor's number.
pub const TSCP: usize = 1;
/// Processor and node.
pub const CPU: usize = 2;
/// A clock of clock_gettime(2).
pub const CLOCK: usize = 3;
/// Number of routines.
pub const ROUTINES: usize = 4;

/// [`Entry::source`] of a clock: this plus its number.
pub const CLOCKS: u32 = 16;

/// The clocks that the vDSO reads, as bits: REALTIME, MONOTONIC, MONOTONIC_RAW, REALTIME_COARSE,
/// MONOTONIC_COARSE, BOOTTIME, TAI. (clock_gettime(2)) Recordings depend on it: another clock here
/// needs another instruction.
pub const READABLE: u32 = 1 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 11;

/// Whether a clock can be read here.
#[must_use]
pub const fn is_readable(clock: u32) -> bool {
    clock < 32 && READABLE >> clock & 1 == 1
}

/// One reading in a thread's buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Counter, processor's number, or seconds.
    pub value: u64,
    /// [`TSC`], [`TSCP`], [`CPU`], or [`CLOCKS`] plus the clock's number.
    pub source: u32,
    /// Processor's number (of TSCP), node, or nanoseconds.
    pub extra: u32,
}

/// The part of a thread's buffer that its routines use: addresses of entries.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// The first reading since the last event.
    pub start: u64,
    /// The next one.
    pub next: u64,
    /// Behind the last reading, or the last one that there is room for.
    pub end: u64,
    /// Ticks of the thread at the reading at `start`.
    pub first: u64,
}
