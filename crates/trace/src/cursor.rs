//! Reading primitives over a byte slice that may end too early or be hostile.
//!
//! A cursor never panics, never allocates, and tells "more bytes are needed" apart from
//! "no further bytes can make this right".

use crate::varint;

/// Longest byte string inside an event: more than one kernel call can transfer
/// (`MAX_RW_COUNT`, read(2) "NOTES"), and a bound on the memory that a damaged length can ask for.
pub const BLOB_MAX: u64 = 1 << 32;

/// Why bytes are not an event (or an image).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes so far are the beginning of something valid: try again with more.
    #[error("more bytes are needed")]
    Incomplete,
    /// No continuation makes these bytes valid.
    #[error("{what} at byte {at}")]
    Corrupt {
        /// Offset from the first byte handed to the decoder.
        at: usize,
        /// Description of the fault.
        what: &'static str,
    },
}

pub(crate) type Step<T> = Result<T, DecodeError>;

/// A position in a byte slice.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn corrupt<T>(&self, what: &'static str) -> Step<T> {
        Err(DecodeError::Corrupt { at: self.at, what })
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Step<u8> {
        let byte = *self.bytes.get(self.at).ok_or(DecodeError::Incomplete)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Step<u64> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(byte.into())
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Step<u64> {
        let mut value = 0u64;
        for index in 0..varint::MAX_LEN {
            let byte = *self
                .bytes
                .get(self.at + index)
                .ok_or(DecodeError::Incomplete)?;
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                if index == varint::MAX_LEN - 1 && byte > 1 {
                    return self.corrupt("an integer of more than 64 bits");
                }
                if index > 0 && byte == 0 {
                    return self.corrupt("an integer that is not in its shortest form");
                }
                self.at += index + 1;
                return Ok(value);
            }
        }
        self.corrupt("an integer of more than ten bytes")
    }

    #[inline]
    pub(crate) fn varint_u32(&mut self) -> Step<u32> {
        let before = self.clone();
        let value = self.varint()?;
        u32::try_from(value).or_else(|_| before.corrupt("an integer of more than 32 bits"))
    }

    #[inline]
    pub(crate) fn signed(&mut self) -> Step<i64> {
        Ok(varint::unzigzag(self.varint()?))
    }

    #[inline]
    pub(crate) fn fixed<const N: usize>(&mut self) -> Step<[u8; N]> {
        let array = self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.first_chunk::<N>())
            .ok_or(DecodeError::Incomplete)?;
        self.at += N;
        Ok(*array)
    }

    /// A length and that many bytes.
    pub(crate) fn blob(&mut self) -> Step<&'a [u8]> {
        let before = self.clone();
        let length = self.varint()?;
        if length > BLOB_MAX {
            return before.corrupt("a byte string longer than any event may carry");
        }
        let end = usize::try_from(length)
            .ok()
            .and_then(|length| self.at.checked_add(length))
            .ok_or(DecodeError::Incomplete)?;
        let blob = self
            .bytes
            .get(self.at..end)
            .ok_or(DecodeError::Incomplete)?;
        self.at = end;
        Ok(blob)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_shortest_form_is_read() {
        assert_eq!(Cursor::new(&[0x7f]).varint(), Ok(127));
        assert_eq!(Cursor::new(&[0x80, 1]).varint(), Ok(128));
        assert_eq!(Cursor::new(&[0x80]).varint(), Err(DecodeError::Incomplete));
        for bad in [
            &[0x80, 0][..],
            &[0xff; 11],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        ] {
            assert!(
                matches!(
                    Cursor::new(bad).varint(),
                    Err(DecodeError::Corrupt { at: 0, .. })
                ),
                "{bad:x?}"
            );
        }
    }

    #[test]
    fn absurd_lengths_are_corrupt_and_plausible_ones_incomplete() {
        let mut bytes = Vec::new();
        varint::put(&mut bytes, BLOB_MAX + 1);
        assert!(matches!(
            Cursor::new(&bytes).blob(),
            Err(DecodeError::Corrupt { .. })
        ));
        bytes.clear();
        varint::put(&mut bytes, BLOB_MAX);
        assert_eq!(Cursor::new(&bytes).blob(), Err(DecodeError::Incomplete));
    }
}
