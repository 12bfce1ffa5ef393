//! Counters of a translator. They are for people and must never steer anything.

/// What a [`crate::Translator`] has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
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
    /// Entries into fragments that were invalidated just before.
    pub stale_entries: u64,
    /// Guest faults.
    pub guest_faults: u64,
    /// Fragments forgotten because guest code changed.
    pub invalidated: u64,
    /// Flushes of the whole cache.
    pub flushes: u64,
    /// Nanoseconds spent in translation.
    pub translation_ns: u64,
}
