//! The sites that replays have learnt ([`crate::ordered_sites`]), kept from recording to recording beside the
//! translations: one file of the user's own, replaced as a whole, of bounded size. Its content is checked; a file
//! that is damaged, or a failure, is passed over. Must never change a recording that has begun.

use std::io::Read;

use relive_trace::input_sum;

use crate::ordered_sites::MOST;
use crate::translations::store::{Store, put};

/// Its name.
const NAME: &str = "sites";
/// The first bytes of the file.
const MAGIC: &[u8; 8] = b"RLVSITE1";
const WORD: usize = 8;
/// Most bytes of it.
const MOST_BYTES: usize = (MOST + 2) * WORD;

/// All sites; those that were learnt last come last.
#[must_use]
pub fn all() -> Vec<u64> {
    let read = || {
        let (file, _) = Store::requested()?.open_named(NAME)?;
        let mut bytes = Vec::new();
        let most = MOST_BYTES as u64 + 1;
        file.take(most).read_to_end(&mut bytes).ok()?;
        parse(&bytes)
    };
    read().unwrap_or_default()
}

/// Keeps sites for the recordings to come; the oldest ones make room. How many were not kept before.
pub fn add(new: impl IntoIterator<Item = u64>) -> usize {
    let Some(store) = Store::requested() else {
        return 0;
    };
    let there = all();
    let new: Vec<u64> = new.into_iter().filter(|key| !there.contains(key)).collect();
    if !new.is_empty() {
        let both: Vec<u64> = there.into_iter().chain(new.iter().copied()).collect();
        let kept = &both[both.len().saturating_sub(MOST)..];
        put(&store.folder.join(NAME), &encode(kept));
    }
    new.len()
}

fn encode(sites: &[u64]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    sites.iter().for_each(|key| bytes.extend(key.to_le_bytes()));
    let sum = input_sum(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

fn parse(bytes: &[u8]) -> Option<Vec<u64>> {
    let body = bytes.len().checked_sub(WORD)?;
    let fits = body.is_multiple_of(WORD) && bytes.len() <= MOST_BYTES;
    let (body, sum) = bytes.split_at(body);
    let keys = body.strip_prefix(MAGIC)?;
    let whole = fits && input_sum(body).to_le_bytes() == sum;
    let word = |key: &[u8]| key.try_into().map(u64::from_le_bytes).ok();
    whole.then(|| keys.chunks_exact(WORD).filter_map(word).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_survive_their_file() {
        for sites in [vec![], vec![7, 3, u64::MAX], vec![1; MOST]] {
            assert_eq!(parse(&encode(&sites)), Some(sites));
        }
    }

    #[test]
    fn a_damaged_file_has_none() {
        let whole = encode(&[7, 3]);
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 4;
            assert_eq!(parse(&other), None, "byte {at}");
            assert_eq!(parse(&whole[..at]), None, "{at} bytes");
        }
        assert_eq!(parse(&encode(&vec![1; MOST + 1])), None);
    }
}
