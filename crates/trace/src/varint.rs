//! Variable-length integers: LEB128 and zig-zag, the writing half.
//!
//! Every integer has exactly one encoding (the shortest), and the reading half
//! ([`crate::cursor`]) refuses all others, so that equal events are equal bytes.

/// Longest encoding of a `u64`.
pub(crate) const MAX_LEN: usize = 10;

/// Appends `value` as unsigned LEB128.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Number of bytes that [`put`] appends.
#[inline]
pub(crate) fn len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Appends a length and the bytes.
#[inline]
pub(crate) fn put_blob(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Folds the sign into bit 0, so that small negative numbers (errno) stay short.
#[inline]
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Inverse of [`zigzag`].
#[inline]
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_predicted() {
        let edges = (0..64).flat_map(|bit| {
            let power = 1u64 << bit;
            [power - 1, power, power + 1]
        });
        for value in edges.chain([u64::MAX]) {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out.len(), len(value), "{value:#x}");
            assert!(out.len() <= MAX_LEN);
        }
    }

    #[test]
    fn zigzag_keeps_small_numbers_small() {
        for value in [0, -1, 1, -64, 63] {
            assert!(zigzag(value) < 128);
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        for value in [i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }
}
