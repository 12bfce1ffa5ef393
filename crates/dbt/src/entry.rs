//! The entries of a fragment: the kinds of branches that reach it. Nothing else is known here.

/// The kinds of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum Entry {
    /// Guest state is in place.
    Plain = 0,
    /// The same, and a tick is counted.
    Ticked = 1,
    /// Through the table with the target in rcx, a tick is counted.
    Jump = 2,
    /// Through the table with the target in rcx.
    Return = 3,
    /// Through the hashed table with the target in the context, a tick is counted.
    HashedJump = 4,
    /// Through the hashed table with the target in the context.
    HashedReturn = 5,
    /// By a paired call, on the shadow stack; a tick is counted.
    Called = 6,
}

/// All kinds of entry.
pub(crate) const ENTRIES: [Entry; 7] = [
    Entry::Plain,
    Entry::Ticked,
    Entry::Jump,
    Entry::Return,
    Entry::HashedJump,
    Entry::HashedReturn,
    Entry::Called,
];

impl Entry {
    /// Whether the branches that come here are tick sites.
    pub(crate) fn is_counted(self) -> bool {
        match self {
            Self::Ticked | Self::Jump | Self::HashedJump | Self::Called => true,
            Self::Plain | Self::Return | Self::HashedReturn => false,
        }
    }
}
