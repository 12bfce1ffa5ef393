//! Bytes that the kernel wrote into guest memory during one event.
//!
//! One type serves both ends: the recorder points it at its slices, the reader at the
//! encoded form; neither copies or allocates.

use std::fmt;

use crate::cursor::Cursor;
use crate::varint;

/// Guest addresses and the bytes written there, in order.
#[derive(Clone, Copy)]
pub struct Writes<'a>(WritesRepr<'a>);

#[derive(Clone, Copy)]
enum WritesRepr<'a> {
    Slices(&'a [(u64, &'a [u8])]),
    /// Checked by [`Writes::decode`]: `(address, length, bytes)…` up to the end.
    Encoded(&'a [u8]),
}

impl<'a> Writes<'a> {
    /// Nothing was written.
    pub const NONE: Writes<'static> = Writes(WritesRepr::Slices(&[]));

    /// The given writes, to be encoded.
    pub const fn new(slices: &'a [(u64, &'a [u8])]) -> Self {
        Self(WritesRepr::Slices(slices))
    }

    /// The writes in order.
    pub fn iter(&self) -> WritesIter<'a> {
        WritesIter(match self.0 {
            WritesRepr::Slices(slices) => WritesIterRepr::Slices(slices.iter()),
            WritesRepr::Encoded(bytes) => WritesIterRepr::Encoded(Cursor::new(bytes)),
        })
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        match self.0 {
            WritesRepr::Slices(slices) => slices.is_empty(),
            WritesRepr::Encoded(bytes) => bytes.is_empty(),
        }
    }

    /// Number of bytes that [`Writes::put`] appends.
    pub(crate) fn encoded_len(&self) -> usize {
        match self.0 {
            WritesRepr::Slices(slices) => slices
                .iter()
                .map(|(address, bytes)| {
                    varint::len(*address) + varint::len(bytes.len() as u64) + bytes.len()
                })
                .sum(),
            WritesRepr::Encoded(bytes) => bytes.len(),
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self.0 {
            WritesRepr::Slices(slices) => {
                for (address, bytes) in slices {
                    varint::put(out, *address);
                    varint::put_blob(out, bytes);
                }
            }
            WritesRepr::Encoded(bytes) => out.extend_from_slice(bytes),
        }
    }

    /// Takes a whole encoded form; `None` when it is invalid.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            cursor.varint().and_then(|_| cursor.blob()).ok()?;
        }
        Some(Self(WritesRepr::Encoded(bytes)))
    }
}

impl<'a> IntoIterator for &Writes<'a> {
    type Item = (u64, &'a [u8]);
    type IntoIter = WritesIter<'a>;

    fn into_iter(self) -> WritesIter<'a> {
        self.iter()
    }
}

impl PartialEq for Writes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Writes<'_> {}

impl fmt::Debug for Writes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator over [`Writes`]: address and bytes.
#[derive(Clone)]
pub struct WritesIter<'a>(WritesIterRepr<'a>);

#[derive(Clone)]
enum WritesIterRepr<'a> {
    Slices(std::slice::Iter<'a, (u64, &'a [u8])>),
    Encoded(Cursor<'a>),
}

impl<'a> Iterator for WritesIter<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            WritesIterRepr::Slices(slices) => slices.next().copied(),
            WritesIterRepr::Encoded(cursor) if cursor.is_empty() => None,
            WritesIterRepr::Encoded(cursor) => {
                let address = cursor.varint();
                let bytes = cursor.blob();
                Some((
                    address.expect("checked when it was decoded"),
                    bytes.expect("checked when it was decoded"),
                ))
            }
        }
    }
}
