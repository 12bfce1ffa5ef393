//! Where in the store the bytes at hand may lie already: guesses, each to be compared.
//!
//! Nothing here can be wrong, only useless: the table is changed by many processes without
//! any order, and entries are overwritten.

use std::sync::atomic::{AtomicU64, Ordering};

use relive_trace::{INPUT_MAX, input_sum};

use super::store::Store;

/// Bytes at the beginning of a piece that it is found by, if only a part of it is wanted.
const START: usize = 256;
/// Fewer bytes are not worth a reference.
pub(super) const LEAST: usize = 512;
const WAYS: usize = 4;
const SETS: usize = 1 << 14;

/// Hash of some bytes of a piece to the offset where they begin, four of each set.
#[repr(C)]
pub struct Guesses([[AtomicU64; WAYS]; SETS]);

/// Where a task's last references ended: the next bytes it reads mostly follow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursors([u64; 4]);

impl Guesses {
    /// Remembers where bytes begin.
    pub(super) fn remember(&self, bytes: &[u8], offset: u64) {
        for key in [start_key(bytes), whole_key(bytes)].into_iter().flatten() {
            let (set, tag) = self.set(key);
            let mut moved = tag | offset;
            for way in set {
                moved = way.swap(moved, Ordering::Relaxed);
            }
        }
    }

    fn set(&self, key: u64) -> (&[AtomicU64; WAYS], u64) {
        (&self.0[key as usize % SETS], key & !(INPUT_MAX - 1))
    }

    fn offsets(&self, key: Option<u64>) -> impl Iterator<Item = u64> {
        key.into_iter().flat_map(|key| {
            let (set, tag) = self.set(key);
            set.iter()
                .map(|way| way.load(Ordering::Relaxed))
                .filter(move |entry| entry & !(INPUT_MAX - 1) == tag)
                .map(|entry| entry & (INPUT_MAX - 1))
        })
    }
}

/// What a piece is found by that begins as these bytes do.
fn start_key(bytes: &[u8]) -> Option<u64> {
    bytes.get(..START).map(input_sum)
}

/// What a piece is found by that is as long and looks the same in three places.
fn whole_key(bytes: &[u8]) -> Option<u64> {
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

/// Length of the common beginning.
fn common(a: &[u8], b: &[u8]) -> usize {
    let most = a.len().min(b.len());
    let mut n = 0;
    for size in [4096, 64, 1] {
        while n + size <= most && a[n..n + size] == b[n..n + size] {
            n += size;
        }
    }
    n
}

impl Cursors {
    /// Where all of the bytes are, if they are found.
    pub(super) fn whole(&mut self, store: &Store, bytes: &[u8]) -> Option<u64> {
        let is = |offset: &u64| store.at(*offset, bytes.len()) == bytes;
        if let Some(i) = (0..self.0.len()).find(|i| is(&self.0[*i])) {
            let offset = self.0[i];
            self.0[i] += bytes.len() as u64;
            store.expect(self.0[i], bytes.len());
            return Some(offset);
        }
        let guesses = store.guesses();
        let offset = guesses
            .offsets(whole_key(bytes))
            .find(is)
            .or_else(|| guesses.offsets(start_key(bytes)).find(is))?;
        self.goes_on(offset + bytes.len() as u64);
        Some(offset)
    }

    /// Where a beginning of the bytes is, and how much of them; at least [`LEAST`].
    pub(super) fn beginning(&mut self, store: &Store, bytes: &[u8]) -> Option<(u64, usize)> {
        let fits = |offset| common(store.at(offset, bytes.len()), bytes);
        for cursor in &mut self.0 {
            let n = fits(*cursor);
            if n >= LEAST {
                let offset = *cursor;
                *cursor += n as u64;
                return Some((offset, n));
            }
        }
        let (offset, n) = store
            .guesses()
            .offsets(start_key(bytes))
            .map(|offset| (offset, fits(offset)))
            .filter(|(_, n)| *n >= LEAST)
            .max_by_key(|(_, n)| *n)?;
        self.goes_on(offset + n as u64);
        Some((offset, n))
    }

    /// A reference has ended there.
    pub(super) fn goes_on(&mut self, end: u64) {
        self.0.rotate_right(1);
        self.0[0] = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_beginning() {
        let a: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
        for n in [0, 1, 63, 64, 65, 4095, 4096, 4097, 9999] {
            let mut b = a.clone();
            b[n] ^= 1;
            assert_eq!(common(&a, &b), n);
            assert_eq!(common(&a[..n], &a), n);
        }
        assert_eq!(common(&a, &a), a.len());
    }

    #[test]
    fn keys_need_enough_bytes() {
        let bytes = [7; 600];
        assert!(start_key(&bytes[..START - 1]).is_none() && whole_key(&bytes[..255]).is_none());
        assert_eq!(start_key(&bytes[..START]), start_key(&bytes));
        assert_ne!(whole_key(&bytes[..500]), whole_key(&bytes));
    }
}
