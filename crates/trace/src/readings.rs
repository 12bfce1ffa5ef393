//! Clock readings: values that a thread read from clocks and counters between two of its events.
//!
//! One type serves both ends: the recorder points it at its readings, the reader at the
//! encoded form; neither copies or allocates. Which clock a source stands for belongs to the
//! users of this crate.

use std::fmt;

use crate::cursor::{Cursor, Step};
use crate::varint;

/// Number of sources that a reading can have.
pub const SOURCES: usize = 32;

/// One reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Reading {
    /// The clock or counter, below [`SOURCES`].
    pub source: u8,
    /// The main value, coded as a difference to the one before of the same source.
    pub value: u64,
    /// A second value.
    pub extra: u32,
}

/// Readings in order.
#[derive(Clone, Copy)]
pub struct Readings<'a>(ReadingsRepr<'a>);

#[derive(Clone, Copy)]
enum ReadingsRepr<'a> {
    Plain(&'a [Reading]),
    /// Checked by [`Readings::decode`].
    Encoded(&'a [u8]),
}

/// Bit of a group's first byte: its readings have second values.
const EXTRA: u8 = 0x80;

impl<'a> Readings<'a> {
    /// The given readings, to be encoded.
    #[must_use]
    pub const fn new(readings: &'a [Reading]) -> Self {
        Self(ReadingsRepr::Plain(readings))
    }

    /// Hands over the readings in order.
    #[inline]
    pub fn for_each(&self, mut each: impl FnMut(Reading)) {
        match self.0 {
            ReadingsRepr::Plain(readings) => readings.iter().copied().for_each(each),
            ReadingsRepr::Encoded(bytes) => {
                walk(bytes, &mut each).expect("checked when it was decoded")
            }
        }
    }

    /// The readings in order.
    #[must_use]
    pub fn to_vec(&self) -> Vec<Reading> {
        let mut all = Vec::new();
        self.for_each(|reading| all.push(reading));
        all
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self.0 {
            ReadingsRepr::Plain(readings) => readings.is_empty(),
            ReadingsRepr::Encoded(bytes) => bytes.is_empty(),
        }
    }

    /// Appends the encoded form.
    ///
    /// # Panics
    /// A source is not below [`SOURCES`].
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let mut rest = match self.0 {
            ReadingsRepr::Encoded(bytes) => return out.extend_from_slice(bytes),
            ReadingsRepr::Plain(readings) => readings,
        };
        let mut last = [0u64; SOURCES];
        while let Some(first) = rest.first() {
            let alike = |r: &&Reading| r.source == first.source && has_extra(r) == has_extra(first);
            let n = rest.iter().take_while(alike).count();
            let (group, behind) = rest.split_at(n);
            rest = behind;
            let last = &mut last[usize::from(first.source)];
            out.push(first.source | if has_extra(first) { EXTRA } else { 0 });
            varint::put(out, n as u64);
            for reading in group {
                let delta = reading.value.wrapping_sub(*last) as i64;
                varint::put(out, varint::zigzag(delta));
                *last = reading.value;
                if reading.extra != 0 {
                    varint::put(out, reading.extra.into());
                }
            }
        }
    }

    /// Takes an encoded form that [`Readings::decode`] has accepted before.
    pub(crate) fn decoded(bytes: &'a [u8]) -> Self {
        Self(ReadingsRepr::Encoded(bytes))
    }

    /// Takes a whole encoded form; `None` when it is invalid.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        walk(bytes, &mut |_| ()).ok()?;
        Some(Self::decoded(bytes))
    }
}

fn has_extra(reading: &Reading) -> bool {
    reading.extra != 0
}

impl PartialEq for Readings<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.to_vec() == other.to_vec()
    }
}

impl Eq for Readings<'_> {}

impl fmt::Debug for Readings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.to_vec()).finish()
    }
}

/// A head that no group has.
const NO_HEAD: u8 = 0x7f;

/// Reads the encoded form, group by group.
#[inline]
fn walk(bytes: &[u8], each: &mut impl FnMut(Reading)) -> Step<()> {
    let mut cursor = Cursor::new(bytes);
    let mut last = [0u64; SOURCES];
    let mut before = NO_HEAD;
    while !cursor.is_empty() {
        let head = cursor.byte()?;
        let source = head & !EXTRA;
        let Some(value) = last.get_mut(usize::from(source)) else {
            return cursor.corrupt("an unknown source of readings");
        };
        if head == before {
            return cursor.corrupt("two groups of readings that are one");
        }
        before = head;
        let count = cursor.varint()?;
        if count == 0 {
            return cursor.corrupt("an empty group of readings");
        }
        for _ in 0..count {
            *value = value.wrapping_add(cursor.signed()? as u64);
            let mut extra = 0;
            if head & EXTRA != 0 {
                extra = cursor.varint_u32()?;
                if extra == 0 {
                    return cursor.corrupt("an empty second value of a reading");
                }
            }
            each(Reading {
                source,
                value: *value,
                extra,
            });
        }
    }
    Ok(())
}
