//! Clock readings: what a thread read from clocks and counters between two of its events.
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
    /// What was read, below [`SOURCES`].
    pub source: u8,
    /// The main value, coded as a difference to the one before of the same source.
    pub value: u64,
    /// A second value.
    pub extra: u32,
}

/// Readings in order.
#[derive(Clone, Copy)]
pub struct Readings<'a>(Repr<'a>);

#[derive(Clone, Copy)]
enum Repr<'a> {
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
        Self(Repr::Plain(readings))
    }

    /// The readings in order.
    #[must_use]
    pub fn iter(&self) -> ReadingsIter<'a> {
        ReadingsIter(match self.0 {
            Repr::Plain(readings) => IterRepr::Plain(readings.iter()),
            Repr::Encoded(bytes) => IterRepr::Encoded(Groups::new(bytes)),
        })
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self.0 {
            Repr::Plain(readings) => readings.is_empty(),
            Repr::Encoded(bytes) => bytes.is_empty(),
        }
    }

    /// Appends the encoded form.
    ///
    /// # Panics
    /// A source is none.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let mut rest = match self.0 {
            Repr::Encoded(bytes) => return out.extend_from_slice(bytes),
            Repr::Plain(readings) => readings,
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

    /// Takes an encoded form that [`Readings::decode`] has taken before.
    pub(crate) fn decoded(bytes: &'a [u8]) -> Self {
        Self(Repr::Encoded(bytes))
    }

    /// Takes a whole encoded form; `None` when it is not one.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut groups = Groups::new(bytes);
        while !groups.is_over() {
            groups.next().ok().flatten()?;
        }
        Some(Self::decoded(bytes))
    }
}

fn has_extra(reading: &Reading) -> bool {
    reading.extra != 0
}

impl<'a> IntoIterator for &Readings<'a> {
    type Item = Reading;
    type IntoIter = ReadingsIter<'a>;

    fn into_iter(self) -> ReadingsIter<'a> {
        self.iter()
    }
}

impl PartialEq for Readings<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Readings<'_> {}

impl fmt::Debug for Readings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator over [`Readings`].
#[derive(Clone)]
pub struct ReadingsIter<'a>(IterRepr<'a>);

#[derive(Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "iterators live on the stack, for a moment"
)]
enum IterRepr<'a> {
    Plain(std::slice::Iter<'a, Reading>),
    Encoded(Groups<'a>),
}

impl Iterator for ReadingsIter<'_> {
    type Item = Reading;

    fn next(&mut self) -> Option<Reading> {
        match &mut self.0 {
            IterRepr::Plain(readings) => readings.next().copied(),
            IterRepr::Encoded(groups) => groups.next().expect("checked when it was decoded"),
        }
    }
}

/// Reads the encoded form: groups of readings that have the same head.
#[derive(Clone)]
struct Groups<'a> {
    cursor: Cursor<'a>,
    /// Head of the present group; a value that no head has before the first.
    head: u8,
    left: u64,
    last: [u64; SOURCES],
}

impl<'a> Groups<'a> {
    const NO_HEAD: u8 = 0x7f;

    fn new(bytes: &'a [u8]) -> Self {
        Self {
            cursor: Cursor::new(bytes),
            head: Self::NO_HEAD,
            left: 0,
            last: [0; SOURCES],
        }
    }

    fn is_over(&self) -> bool {
        self.left == 0 && self.cursor.is_empty()
    }

    fn next(&mut self) -> Step<Option<Reading>> {
        if self.left == 0 {
            if self.cursor.is_empty() {
                return Ok(None);
            }
            let head = self.cursor.byte()?;
            if usize::from(head & !EXTRA) >= SOURCES {
                return self.cursor.corrupt("an unknown source of readings");
            }
            if head == self.head {
                return self.cursor.corrupt("two groups of readings that are one");
            }
            self.head = head;
            self.left = self.cursor.varint()?;
            if self.left == 0 {
                return self.cursor.corrupt("an empty group of readings");
            }
        }
        self.left -= 1;
        let source = self.head & !EXTRA;
        let last = &mut self.last[usize::from(source)];
        *last = last.wrapping_add(self.cursor.signed()? as u64);
        let value = *last;
        let mut extra = 0;
        if self.head & EXTRA != 0 {
            extra = self.cursor.varint_u32()?;
            if extra == 0 {
                return self.cursor.corrupt("an empty second value of a reading");
            }
        }
        Ok(Some(Reading {
            source,
            value,
            extra,
        }))
    }
}
