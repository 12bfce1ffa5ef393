//! Addresses at which a guest has no memory. The kernel refuses them as it would natively.

use relive_host::layout;

/// An address at which no process has memory: below the addresses that mmap(2) gives out.
pub const NOWHERE: u64 = 0x1000;

/// Whether an address lies outside the guest's windows: the host's, or no memory's.
pub fn is_astray(at: u64) -> bool {
    !layout::guest_may_map(at)
}
