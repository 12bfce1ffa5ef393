//! The guest address newtype: guest pointers cannot be mistaken for host ones. It must never be
//! dereferenced directly; [`crate::copy`] reads and writes guest memory.

use std::fmt;

/// An address in the guest's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct GuestAddr(pub u64);

/// The page size of x86-64.
pub const PAGE: u64 = 4096;

impl GuestAddr {
    /// The address `bytes` further up, wrapping as the processor does.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// Rounded down to its page.
    #[must_use]
    pub const fn page(self) -> Self {
        Self(self.0 & !(PAGE - 1))
    }

    /// Rounded up to a page boundary.
    #[must_use]
    pub const fn page_up(self) -> Self {
        Self(self.0.wrapping_add(PAGE - 1) & !(PAGE - 1))
    }

    /// Whether this is address 0.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for GuestAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for GuestAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g:{:#x}", self.0)
    }
}

impl From<u64> for GuestAddr {
    fn from(value: u64) -> Self {
        Self(value)
    }
}
