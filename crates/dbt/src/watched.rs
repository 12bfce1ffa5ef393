//! Watched memory: its ranges, and the filter that checked code looks into.
//!
//! Memory is divided into granules of 8 bytes. The filter has a byte for every 65536th granule: 0
//! where nothing is watched. It is the same for all threads and lies below 2^31, so that checked
//! code addresses it with a displacement. Its errors are unneeded stops, never missed ones.

use relive_host::sys;

use crate::cache_window::{FILTER, FILTER_BYTES};
use crate::stop::Error;

/// Bytes of a granule.
pub(crate) const GRANULE: u64 = 8;
/// Entries of the filter; those behind them repeat the first ones.
const ENTRIES: u64 = 1 << 16;

/// A watched range of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// First address.
    pub addr: u64,
    /// Bytes, at least 1.
    pub len: u64,
    /// Whether reads count.
    pub reads: bool,
    /// Whether writes count.
    pub writes: bool,
}

impl Watched {
    /// Whether an access to `len` bytes at `addr` touches it.
    #[must_use]
    pub fn overlaps(&self, addr: u64, len: u64) -> bool {
        addr < self.addr.saturating_add(self.len) && self.addr < addr.saturating_add(len)
    }
}

/// The set of watched memory.
#[derive(Default)]
pub(crate) struct WatchedMemory {
    ranges: Vec<Watched>,
    mapped: bool,
}

impl WatchedMemory {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether any read is watched.
    pub(crate) fn reads(&self) -> bool {
        self.ranges.iter().any(|w| w.reads)
    }

    /// Whether any write is watched.
    pub(crate) fn writes(&self) -> bool {
        self.ranges.iter().any(|w| w.writes)
    }

    /// Whether an access that is known in full touches anything watched.
    pub(crate) fn touches(&self, addr: u64, len: u64) -> bool {
        self.ranges.iter().any(|w| w.overlaps(addr, len))
    }

    /// Takes over a new set; whether it differs from the old one.
    pub(crate) fn set(&mut self, wanted: &[Watched]) -> Result<bool, Error> {
        if self.ranges == wanted {
            return Ok(false);
        }
        self.ranges = wanted.to_vec();
        if !wanted.is_empty() || self.mapped {
            self.map()?;
        }
        Ok(true)
    }

    /// Maps and fills the filter anew.
    fn map(&mut self) -> Result<(), Error> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let args = [FILTER, FILTER_BYTES, prot as u64, flags as u64, u64::MAX, 0];
        // SAFETY: this part of the cache window is the filter's alone.
        let ret = unsafe { sys::syscall(libc::SYS_mmap as u64, args) };
        Error::check("mapping the filter of watched memory", ret)?;
        self.mapped = true;
        // SAFETY: just mapped, and nothing else refers to it while no thread is in the cache.
        let filter =
            unsafe { std::slice::from_raw_parts_mut(FILTER as *mut u8, FILTER_BYTES as usize) };
        for w in &self.ranges {
            let first = w.addr / GRANULE;
            let last = w.addr.saturating_add(w.len.max(1) - 1) / GRANULE;
            // Granules that share an entry lie `ENTRIES` apart: at most two pieces of the filter.
            let from = (first % ENTRIES) as usize;
            let count = (last - first).min(ENTRIES - 1) as usize + 1;
            let end = (from + count).min(ENTRIES as usize);
            filter[from..end].fill(1);
            filter[..count - (end - from)].fill(1);
        }
        filter.copy_within(..64, ENTRIES as usize);
        Ok(())
    }
}
