//! Finds bytes at hand in the store: at the task's cursors, and at the guessed places. Must never return a
//! place without comparing its bytes.

use super::guesses::{start_key, whole_key};
use super::shared_store::InputStore;
use crate::task::cursors::Cursors;

/// Fewer bytes are not worth a reference.
pub(super) const LEAST: usize = 512;

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
    /// The offset of all of the bytes, if they are found.
    pub(super) fn whole(&mut self, store: &InputStore, bytes: &[u8]) -> Option<u64> {
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

    /// The offset of a beginning of the bytes, and its length; at least [`LEAST`].
    pub(super) fn beginning(&mut self, store: &InputStore, bytes: &[u8]) -> Option<(u64, usize)> {
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
}
