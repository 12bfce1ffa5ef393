//! A region of the guest's memory map: plain data.

use std::sync::Arc;

use relive_trace::FileId;
use serde::{Deserialize, Serialize};

/// One region of equal properties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// First address.
    pub start: u64,
    /// Behind the last address.
    pub end: u64,
    /// The guest's protection.
    pub prot: u32,
    /// Whether it was mapped `MAP_SHARED`.
    pub shared: bool,
    /// Shared, and some process may write it: after a fork it is memory of two processes.
    pub common: bool,
    /// Its name in `/proc/self/maps`; empty for anonymous memory.
    #[serde(with = "crate::encoding::text")]
    pub name: Arc<str>,
    /// Offset in the file of `start`.
    pub offset: u64,
    /// Identity of the file (from its device and inode number), 0 without file.
    pub inode: u64,
    /// The trace's copy of the file, if it is a private map of one, where files are kept.
    pub copy: Option<FileId>,
    /// Further properties that the guest has set.
    pub traits: RegionTraits,
}

/// Properties that few regions have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionTraits {
    /// It grows downwards at an access below its start (`MAP_GROWSDOWN`).
    pub grows: bool,
    /// A forked child's share of it.
    pub on_fork: OnFork,
    /// Its pages may not be dropped (mlock(2)).
    pub locked: bool,
    /// The number of a shared memory without a file, which mremap(2) may show at several addresses; 0
    /// for a region that is private or has a file.
    pub unnamed: u64,
}

/// An object that may be mapped at several addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MappedObject {
    /// A file, by its identity.
    File(u64),
    /// Memory without a file, by its number.
    Unnamed(u64),
}

impl Region {
    /// The object that it shows, if that may be mapped elsewhere too.
    pub(super) fn object(&self) -> Option<MappedObject> {
        match (self.shared, self.inode, self.traits.unnamed) {
            (false, ..) | (_, 0, 0) => None,
            (_, 0, number) => Some(MappedObject::Unnamed(number)),
            (_, inode, _) => Some(MappedObject::File(inode)),
        }
    }
}

/// A forked child's share of a region (madvise(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFork {
    /// The same.
    #[default]
    Keep,
    /// Nothing (`MADV_DONTFORK`).
    Drop,
    /// Zeros (`MADV_WIPEONFORK`).
    Wipe,
}
