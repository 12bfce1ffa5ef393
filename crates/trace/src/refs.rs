//! References to bytes that the kernel wrote into guest memory and that lie in the trace's store of
//! input: their guest addresses and their offsets in the store.
//!
//! As [`crate::Writes`] one type serves both ends.

use std::fmt;

use crate::cursor::Cursor;
use crate::varint;

/// Bytes of the store that a system call wrote into guest memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputRef {
    /// Guest address.
    pub address: u64,
    /// Number of bytes, not 0.
    pub length: u64,
    /// Where they begin in the store; the end of the range fits 64 bits.
    pub offset: u64,
}

/// References into the store of input, in order.
#[derive(Clone, Copy)]
pub struct Refs<'a>(RefsRepr<'a>);

#[derive(Clone, Copy)]
enum RefsRepr<'a> {
    Slice(&'a [InputRef]),
    /// Checked by [`Refs::decode`]: `(address, length, offset)…` up to the end.
    Encoded(&'a [u8]),
}

impl<'a> Refs<'a> {
    /// Nothing came from the store.
    pub const NONE: Refs<'static> = Refs(RefsRepr::Slice(&[]));

    /// The given references, to be encoded.
    pub const fn new(refs: &'a [InputRef]) -> Self {
        Self(RefsRepr::Slice(refs))
    }

    /// The references in order.
    pub fn iter(&self) -> RefsIter<'a> {
        RefsIter(match self.0 {
            RefsRepr::Slice(refs) => RefsIterRepr::Slice(refs.iter()),
            RefsRepr::Encoded(bytes) => RefsIterRepr::Encoded(Cursor::new(bytes)),
        })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        match self.0 {
            RefsRepr::Slice(refs) => refs.is_empty(),
            RefsRepr::Encoded(bytes) => bytes.is_empty(),
        }
    }

    /// Number of bytes that [`Refs::put`] appends.
    pub(crate) fn encoded_len(&self) -> usize {
        let number = |r: &InputRef| [r.address, r.length, r.offset].map(varint::len);
        match self.0 {
            RefsRepr::Slice(refs) => refs.iter().flat_map(number).sum(),
            RefsRepr::Encoded(bytes) => bytes.len(),
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self.0 {
            RefsRepr::Slice(refs) => {
                for r in refs {
                    assert!(
                        r.length != 0 && r.offset.checked_add(r.length).is_some(),
                        "a reference to no range"
                    );
                    for number in [r.address, r.length, r.offset] {
                        varint::put(out, number);
                    }
                }
            }
            RefsRepr::Encoded(bytes) => out.extend_from_slice(bytes),
        }
    }

    /// Takes a whole encoded form; `None` when it is invalid.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            let r = next(&mut cursor)?;
            if r.length == 0 || r.offset.checked_add(r.length).is_none() {
                return None;
            }
        }
        Some(Self(RefsRepr::Encoded(bytes)))
    }
}

fn next(cursor: &mut Cursor<'_>) -> Option<InputRef> {
    Some(InputRef {
        address: cursor.varint().ok()?,
        length: cursor.varint().ok()?,
        offset: cursor.varint().ok()?,
    })
}

impl<'a> IntoIterator for &Refs<'a> {
    type Item = InputRef;
    type IntoIter = RefsIter<'a>;

    fn into_iter(self) -> RefsIter<'a> {
        self.iter()
    }
}

impl PartialEq for Refs<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Refs<'_> {}

impl fmt::Debug for Refs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator over [`Refs`].
#[derive(Clone)]
pub struct RefsIter<'a>(RefsIterRepr<'a>);

#[derive(Clone)]
enum RefsIterRepr<'a> {
    Slice(std::slice::Iter<'a, InputRef>),
    Encoded(Cursor<'a>),
}

impl Iterator for RefsIter<'_> {
    type Item = InputRef;

    fn next(&mut self) -> Option<InputRef> {
        match &mut self.0 {
            RefsIterRepr::Slice(refs) => refs.next().copied(),
            RefsIterRepr::Encoded(cursor) if cursor.is_empty() => None,
            RefsIterRepr::Encoded(cursor) => {
                Some(next(cursor).expect("checked when it was decoded"))
            }
        }
    }
}
