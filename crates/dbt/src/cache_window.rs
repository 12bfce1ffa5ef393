//! What lies where in the window of the code cache: emitted code and stubs at its start, the hashed
//! branch tables and the filter of watched memory at its end.

use relive_host::layout::{self, CACHE_START};

/// Bytes at the start of the cache that fragments leave free, for code at fixed addresses.
pub(crate) const FIXED: u32 = 192;

/// Where unused slots of the branch table lead: even ones, odd ones.
pub(crate) const TABLE_MISS: [u64; 2] = [CACHE_START, CACHE_START + 32];

/// Where unused slots of the hashed tables lead: for jumps, for returns.
pub(crate) const HASHED_MISS: [u64; 2] = [CACHE_START + 64, CACHE_START + 96];

/// Where the filter of watched memory lies (see `watched`): the last part of the cache's window.
pub(crate) const FILTER: u64 = layout::CACHE_END - FILTER_BYTES;
/// Its size: 64 Ki entries and what wide accesses read behind them.
pub(crate) const FILTER_BYTES: u64 = (64 << 10) + 4096;

/// Slots of each hashed table: what [`crate::emit::Asm::hash_target`] leaves in rcx is below.
pub(crate) const HASHED_SLOTS: u64 = 1 << 16;
/// Bytes of both.
pub(crate) const HASHED_BYTES: u64 = 2 * HASHED_SLOTS * 8;
/// Where the hashed branch tables lie, before the filter.
pub(crate) const HASHED: u64 = FILTER - HASHED_BYTES;

/// Upper end of the code cache.
pub(crate) const CACHE_USED_END: u64 = HASHED;
