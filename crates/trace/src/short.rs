//! The numbers of an event on the stack, before they are appended in one piece.
//!
//! Appending byte by byte to a vector checks its capacity each time; events are encoded
//! while a guest thread waits.

/// Enough for any event without its byte strings: a syscall with six long arguments takes
/// 112.
const ROOM: usize = 128;

/// Bytes that a small event fits into, with its tail: see [`Short::wide`].
pub const WIDE: usize = 32;

/// A few bytes of an event, on the stack.
pub struct Short {
    bytes: [u8; ROOM],
    len: usize,
}

impl Default for Short {
    fn default() -> Self {
        Self::new()
    }
}

impl Short {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bytes: [0; ROOM],
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    /// Unsigned LEB128.
    #[inline]
    pub(crate) fn int(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    #[inline]
    pub(crate) fn fixed<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += N;
    }

    /// Empties it.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// The number of bytes, and the first [`WIDE`] with unused ones behind; `None` if there are
    /// more. A copy of a known length is a few instructions.
    #[inline]
    #[must_use]
    pub fn wide(&self) -> Option<(usize, &[u8; WIDE])> {
        Some((self.len, self.bytes.first_chunk()?)).filter(|(len, _)| *len <= WIDE)
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
