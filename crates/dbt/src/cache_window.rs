//! Layout of the window of the code cache: emitted code and stubs at its start, the hashed branch
//! tables and the filter of watched memory at its end.

use relive_host::layout::{self, CACHE_START};

/// Bytes at the start of the cache that fragments leave free for code at fixed addresses.
pub(crate) const FIXED: u32 = 192;

/// Targets of unused slots of the branch table: even ones, odd ones.
pub(crate) const TABLE_MISS: [u64; 2] = [CACHE_START, CACHE_START + 32];

/// Targets of unused slots of the hashed tables: for jumps, for returns.
pub(crate) const HASHED_MISS: [u64; 2] = [CACHE_START + 64, CACHE_START + 96];

/// Address of the filter of watched memory (see `watched`): the last part of the cache's window.
pub(crate) const FILTER: u64 = layout::CACHE_END - FILTER_BYTES;
/// Its size: 64 Ki entries and the bytes behind them that wide accesses read.
pub(crate) const FILTER_BYTES: u64 = (64 << 10) + 4096;

/// Slots of each hashed table; [`crate::emit::Asm::hash_target`] leaves a smaller number in rcx.
pub(crate) const HASHED_SLOTS: u64 = 1 << 16;
/// Bytes of both tables.
pub(crate) const HASHED_BYTES: u64 = 2 * HASHED_SLOTS * 8;
/// Address of the hashed branch tables, before the filter.
pub(crate) const HASHED: u64 = FILTER - HASHED_BYTES;

/// Upper end of the code cache.
pub(crate) const CACHE_USED_END: u64 = HASHED;
