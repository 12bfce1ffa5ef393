//! Integers and strings as bytes, and a reader that refuses everything but the one shortest form.
//!
//! The reader takes bytes from anybody: it never panics, and allocates nothing.

/// The bytes are not as they should be; says which part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// Appends `value` as unsigned LEB128.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length and the bytes.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The distance from `from` to `to`, short where it is small in either direction.
#[inline]
pub(crate) fn distance(from: u64, to: u64) -> u64 {
    let value = to.wrapping_sub(from) as i64;
    ((value << 1) ^ (value >> 63)) as u64
}

/// Inverse of [`distance`]: the place that lies `distance` from `from`.
#[inline]
pub(crate) fn at_distance(from: u64, distance: u64) -> u64 {
    from.wrapping_add(((distance >> 1) as i64 ^ -((distance & 1) as i64)) as u64)
}

/// Takes bytes from the front of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(Malformed("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?.try_into().expect("four bytes were taken");
        Ok(u32::from_le_bytes(bytes))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        let bytes = self.take(8)?.try_into().expect("eight bytes were taken");
        Ok(u64::from_le_bytes(bytes))
    }

    /// Inverse of [`put`].
    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return Err(Malformed("a number is too large"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return match byte == 0 && shift > 0 {
                    true => Err(Malformed("a number is not in its shortest form")),
                    false => Ok(value),
                };
            }
        }
        Err(Malformed("a number is too long"))
    }

    /// Inverse of [`put_bytes`], with a bound.
    pub(crate) fn bytes(&mut self, max: usize) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if len > max {
            return Err(Malformed("a string is too long"));
        }
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form() {
        for value in (0..64).map(|bit| 1u64 << bit).chain([0, 127, u64::MAX]) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert_eq!(Cursor::new(&bytes).varint(), Ok(value));
        }
        for bytes in [&[0x80, 0][..], &[0xff; 10], &[0x80], &[]] {
            Cursor::new(bytes).varint().expect_err("it has no value");
        }
    }

    #[test]
    fn distances_lead_back() {
        for (from, to) in [(0, 0), (5, 4), (0, u64::MAX), (u64::MAX, 0), (7, 1 << 63)] {
            assert_eq!(at_distance(from, distance(from, to)), to);
        }
        assert!(distance(100, 98) < 0x80);
    }
}
