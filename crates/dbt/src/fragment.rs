//! The record of one fragment, a translated piece of guest code, as it is kept in memory and in
//! files. It holds numbers alone, which mean the same in every process.

use bytemuck::{Pod, Zeroable};

use crate::entry::{ENTRIES, Entry};

/// One fragment, as it is kept, in memory and in files.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Fragment {
    /// Guest address.
    pub(crate) pc: u64,
    /// End of the guest bytes that it was made from; it may depend on others too.
    pub(crate) end: u64,
    /// Cache addresses by [`Entry`], 0 where there is none yet.
    pub(crate) entries: [u32; ENTRIES.len()],
    pub(crate) zero: u32,
    /// First of its marks.
    pub(crate) first_mark: u32,
    /// First of the exits linked to it.
    pub(crate) incoming: u32,
    /// The region that it waits for, or waited for, if it was taken over.
    pub(crate) region: u32,
    pub(crate) marks: u16,
    /// Not 0 while it is in use.
    pub(crate) live: u8,
    /// Not 0 if it was made for single-stepping: leaves to the host after one instruction.
    pub(crate) step: u8,
}

impl Fragment {
    pub(crate) fn entry(&self, kind: Entry) -> Option<u32> {
        let at = self.entries[kind as usize];
        (at != 0).then_some(at)
    }

    pub(crate) fn plain(&self) -> u32 {
        self.entries[Entry::Plain as usize]
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live != 0
    }

    pub(crate) fn is_step(&self) -> bool {
        self.step != 0
    }

    pub(crate) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.pc < end && start < self.end
    }
}
