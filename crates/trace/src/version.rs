//! Versions of the trace format.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The format that this crate writes. The major number changes when an older reader would
/// misread a trace; the minor number when something was added.
pub const FORMAT: Version = Version {
    major: 1,
    minor: 12,
};

/// The format of an excerpt. A reader of [`FORMAT`] alone would take it for a recording from the beginning.
pub const EXCERPT_FORMAT: Version = Version { major: 2, minor: 1 };

/// A version of the trace format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// Readers refuse any other than their own.
    pub major: u32,
    /// Readers accept any.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
