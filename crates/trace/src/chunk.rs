//! Chunks: the unit in which tapes are written, compressed and checked.
//!
//! A chunk is a fixed header and a payload, both written at once, so that a crash leaves
//! whole chunks and at most one torn one at the end of the file. The header carries its own
//! checksum: a length is trusted only when the header that holds it is.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::event::TapeId;

/// Most bytes of events in one chunk.
pub const CHUNK_RAW_MAX: usize = 256 << 10;

/// Bytes of a header.
pub(crate) const HEADER_LEN: usize = 48;

/// Payloads are compressed when that shrinks them.
pub(crate) const COMPRESSION_LEVEL: i32 = 1;

const MAGIC: [u8; 4] = *b"RLVC";
const FLAG_ZSTD: u32 = 1;
/// The header's bytes that the payload's checksum covers too.
const SUMMED: usize = 32;
/// The header's bytes that its own checksum covers.
const GUARDED: usize = 40;

/// A chunk's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) tape: TapeId,
    /// 0, 1, 2… on each tape.
    pub(crate) sequence: u64,
    pub(crate) raw_len: u32,
    pub(crate) stored_len: u32,
    pub(crate) zstd: bool,
    /// Over the fields above and the stored payload.
    pub(crate) checksum: u64,
}

impl Header {
    /// The header in front of `payload`.
    pub(crate) fn new(
        tape: TapeId,
        sequence: u64,
        raw_len: usize,
        zstd: bool,
        payload: &[u8],
    ) -> Self {
        assert!((1..=CHUNK_RAW_MAX).contains(&raw_len) && payload.len() <= raw_len);
        let mut header = Self {
            tape,
            sequence,
            raw_len: raw_len as u32,
            stored_len: payload.len() as u32,
            zstd,
            checksum: 0,
        };
        header.checksum = header.sum(payload);
        header
    }

    /// The checksum that this header must carry in front of `payload`.
    pub(crate) fn sum(&self, payload: &[u8]) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(&self.to_bytes()[..SUMMED]);
        hash.update(payload);
        hash.digest()
    }

    pub(crate) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        let flags = if self.zstd { FLAG_ZSTD } else { 0 };
        let fields: [(usize, &[u8]); 8] = [
            (0, &MAGIC),
            (4, &flags.to_le_bytes()),
            (8, &self.tape.process.to_le_bytes()),
            (12, &self.tape.thread.to_le_bytes()),
            (16, &self.sequence.to_le_bytes()),
            (24, &self.raw_len.to_le_bytes()),
            (28, &self.stored_len.to_le_bytes()),
            (32, &self.checksum.to_le_bytes()),
        ];
        for (at, field) in fields {
            bytes[at..at + field.len()].copy_from_slice(field);
        }
        let guard = xxh3_64(&bytes[..GUARDED]);
        bytes[GUARDED..].copy_from_slice(&guard.to_le_bytes());
        bytes
    }

    /// Decodes a header, or says the error in it.
    pub(crate) fn from_bytes(bytes: &[u8; HEADER_LEN]) -> Result<Self, &'static str> {
        fn field<const N: usize>(bytes: &[u8; HEADER_LEN], at: usize) -> [u8; N] {
            let mut field = [0; N];
            field.copy_from_slice(&bytes[at..at + N]);
            field
        }
        let u32_at = |at| u32::from_le_bytes(field(bytes, at));
        let u64_at = |at| u64::from_le_bytes(field(bytes, at));

        if bytes[..4] != MAGIC {
            return Err("no chunk begins there");
        }
        if u64_at(GUARDED) != xxh3_64(&bytes[..GUARDED]) {
            return Err("the checksum of a chunk header is wrong");
        }
        let flags = u32_at(4);
        if flags & !FLAG_ZSTD != 0 {
            return Err("an unknown chunk flag");
        }
        let header = Self {
            tape: TapeId::new(u32_at(8), u32_at(12)),
            sequence: u64_at(16),
            raw_len: u32_at(24),
            stored_len: u32_at(28),
            zstd: flags & FLAG_ZSTD != 0,
            checksum: u64_at(32),
        };
        if header.raw_len == 0 || header.raw_len as usize > CHUNK_RAW_MAX {
            return Err("a chunk of impossible length");
        }
        let shrunk = header.stored_len < header.raw_len;
        if header.stored_len == 0 || header.stored_len > header.raw_len || shrunk != header.zstd {
            return Err("a chunk of impossible stored length");
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_a_header_is_guarded() {
        let header = Header::new(TapeId::schedule(3), 7, 100, true, &[1, 2, 3]);
        let bytes = header.to_bytes();
        assert_eq!(Header::from_bytes(&bytes), Ok(header));
        for bit in 0..HEADER_LEN * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::from_bytes(&flipped).is_err(), "bit {bit}");
        }
    }
}
