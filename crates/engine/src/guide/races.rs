//! Messages about data races and orders of accesses: the hints for a replay that looks for them, and
//! its findings.

use serde::{Deserialize, Serialize};

/// Facts about a program that a replay cannot see by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaceHints {
    /// Addresses of words that threads synchronise by: first address, and bytes.
    pub words: Vec<(u64, u64)>,
    /// Instructions that are accesses of an atomic type.
    pub sites: Vec<u64>,
}

/// One of the two accesses of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RaceAccess {
    /// Index of the thread in the process.
    pub thread: u32,
    /// Events of the process before it.
    pub event: u64,
    /// Ticks of the thread.
    pub tick: u64,
    /// The instruction; of a system call that wrote, the one behind it.
    pub pc: u64,
    /// Its first byte in memory.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// Whether it writes.
    pub writes: bool,
    /// The system call that wrote, if it was no instruction.
    pub call: Option<u32>,
}

/// A pair of places that race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Race {
    /// The access that came first in the recording.
    pub first: RaceAccess,
    /// The one that nothing orders behind it.
    pub second: RaceAccess,
    /// How often this pair was seen.
    pub count: u64,
}

/// A thread's instruction that accesses a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OrderedAccess {
    /// Index of the thread in the process.
    pub thread: u32,
    /// The instruction.
    pub site: u64,
}

/// Accesses of two threads to a word, in the order in which they were made first, that might have been made in
/// the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccessOrder {
    /// Number of the word: an address without its last three bits.
    pub word: u64,
    /// The one that came first.
    pub first: OrderedAccess,
    /// The other one.
    pub second: OrderedAccess,
}

/// The races of a process, or of its part up to where a replay is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Races {
    /// One for each pair of places, in the order in which they were found.
    pub races: Vec<Race>,
    /// There were more pairs than are kept.
    pub more: bool,
    /// Words of which it was seen late that threads synchronise by them.
    pub late: Vec<(u64, u64)>,
    /// Orders of accesses, if those were looked for in place of races.
    pub orders: Vec<AccessOrder>,
    /// Threads that ran.
    pub threads: u32,
    /// Events of the process so far.
    pub events: u64,
    /// Whether the process has come to its end.
    pub ended: bool,
}
