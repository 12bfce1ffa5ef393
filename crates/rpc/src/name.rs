//! Names of processes, entry points, groups, locks and primitives, and the number that stands for
//! one on the wire.

use std::fmt;
use std::sync::Arc;

use crate::bytes::Malformed;

/// Longest name.
pub const NAME_MAX: usize = 128;

/// A name: 1 to 128 printable ASCII characters, without spaces.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    text: Arc<str>,
    id: NameId,
}

impl Name {
    /// Checks `text`.
    pub fn new(text: &str) -> Result<Self, Malformed> {
        if text.is_empty() || text.len() > NAME_MAX {
            return Err(Malformed("a name has 1 to 128 characters"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Malformed("a name has printable ASCII characters only"));
        }
        Ok(Self {
            text: text.into(),
            id: NameId::of(text),
        })
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The number that stands for it.
    pub fn id(&self) -> NameId {
        self.id
    }

    /// Whether it can be the name of a file: no separator, no leading dot.
    pub(crate) fn is_file_name(&self) -> bool {
        !self.text.starts_with('.') && !self.text.contains(['/', '\\'])
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

/// Stands for a [`Name`]: a hash, so that nobody needs to be asked for it. Two names of one process
/// with the same number are refused when the second one is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(u64);

impl NameId {
    /// Bits of the hash that count: six digits of a header, which pays for each.
    pub const BITS: u32 = 36;

    /// The number of a name.
    pub fn of(name: &str) -> Self {
        Self::from_hash(xxhash_rust::xxh3::xxh3_64(name.as_bytes()))
    }

    /// Of a hash, of which tapes have all bits.
    pub const fn from_hash(hash: u64) -> Self {
        Self(hash & ((1 << Self::BITS) - 1))
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for NameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:09x}", self.0)
    }
}
