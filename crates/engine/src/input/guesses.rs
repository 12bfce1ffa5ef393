//! Guesses at the places of bytes in the store of input: a table of hashes that all processes of a tree
//! fill.
//!
//! A guess must never be trusted without comparing the bytes: many processes change the table without
//! any order, and entries are overwritten.

use std::sync::atomic::{AtomicU64, Ordering};

use relive_trace::{INPUT_MAX, input_sum};

/// Bytes at the beginning of a piece by whose hash it is found, if only a part of it is needed.
const START: usize = 256;
const WAYS: usize = 4;
const SETS: usize = 1 << 14;

/// Hash of some bytes of a piece to the offset where they begin, four of each set.
#[repr(C)]
pub struct Guesses([[AtomicU64; WAYS]; SETS]);

impl Guesses {
    /// Remembers the offset of bytes.
    pub(super) fn remember(&self, bytes: &[u8], offset: u64) {
        for key in [start_key(bytes), whole_key(bytes)].into_iter().flatten() {
            let (set, tag) = self.set(key);
            let mut entry = tag | offset;
            for way in set {
                entry = way.swap(entry, Ordering::Relaxed);
            }
        }
    }

    fn set(&self, key: u64) -> (&[AtomicU64; WAYS], u64) {
        (&self.0[key as usize % SETS], key & !(INPUT_MAX - 1))
    }

    pub(super) fn offsets(&self, key: Option<u64>) -> impl Iterator<Item = u64> {
        key.into_iter().flat_map(|key| {
            let (set, tag) = self.set(key);
            set.iter()
                .map(|way| way.load(Ordering::Relaxed))
                .filter(move |entry| entry & !(INPUT_MAX - 1) == tag)
                .map(|entry| entry & (INPUT_MAX - 1))
        })
    }
}

/// The key of pieces that begin as these bytes do.
pub(super) fn start_key(bytes: &[u8]) -> Option<u64> {
    bytes.get(..START).map(input_sum)
}

/// The key of pieces that have this length, and the same bytes in three places.
pub(super) fn whole_key(bytes: &[u8]) -> Option<u64> {
    const SAMPLE: usize = 64;
    let n = bytes.len();
    if n < START {
        return None;
    }
    let mut samples = [0; 3 * SAMPLE + 8];
    for (i, at) in [0, n / 2 - SAMPLE / 2, n - SAMPLE].into_iter().enumerate() {
        samples[i * SAMPLE..][..SAMPLE].copy_from_slice(&bytes[at..at + SAMPLE]);
    }
    samples[3 * SAMPLE..].copy_from_slice(&(n as u64).to_le_bytes());
    Some(input_sum(&samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_need_enough_bytes() {
        let bytes = [7; 600];
        assert!(start_key(&bytes[..START - 1]).is_none() && whole_key(&bytes[..255]).is_none());
        assert_eq!(start_key(&bytes[..START]), start_key(&bytes));
        assert_ne!(whole_key(&bytes[..500]), whole_key(&bytes));
    }
}
