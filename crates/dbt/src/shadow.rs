//! Shadow stacks: memory at a fixed distance below guest stacks ([`SHADOW_BELOW`]), which holds the
//! host's return addresses of paired calls (`mangle/pairs.rs`).
//!
//! Shadow pages are mapped one by one, where a stack was seen. They hold only landings of paired
//! calls, or [`SHADOW_MISS`]. All of the guest's memory lies where its shadows cannot be guest
//! memory (`layout::may_have_shadow`), or there are no paired calls ([`Shadow::forbid`]): so a call
//! with a stack pointer of any value writes a shadow or faults.

use std::collections::BTreeSet;

use relive_host::addr::PAGE;
use relive_host::layout::{self, SHADOW_BELOW, SHADOW_MISS};
use relive_host::{sys, window};

use crate::fragments::Hot;

/// The shadows of a process.
#[derive(Default)]
pub(crate) struct Shadow {
    /// Pages that are mapped.
    pages: BTreeSet<u64>,
    forbidden: bool,
}

impl Shadow {
    /// Makes the page at `at` a shadow. Returns whether it is one now.
    pub(crate) fn provide(&mut self, at: u64) -> bool {
        let stack = at.wrapping_add(SHADOW_BELOW);
        if self.forbidden || !layout::may_have_shadow(stack, stack.saturating_add(PAGE)) {
            return false;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let args = [at, PAGE, prot as u64, flags as u64, u64::MAX, 0];
        // SAFETY: while shadows are not forbidden, no guest memory lies there; a shadow that was
        // there is replaced by one without landings.
        let ret = unsafe { sys::syscall(libc::SYS_mmap as u64, args) };
        if ret < 0 {
            return false;
        }
        // SAFETY: the page has just been mapped, and no reference to it exists.
        let slots = unsafe { std::slice::from_raw_parts_mut(at as *mut u64, PAGE as usize / 8) };
        slots.fill(SHADOW_MISS);
        self.pages.insert(at);
        true
    }

    /// Removes all shadows. No thread may be in the cache.
    pub(crate) fn clear(&mut self) {
        for page in std::mem::take(&mut self.pages) {
            // SAFETY: a page of ours; a call or return that finds none asks the host.
            unsafe { window::release(page, PAGE) };
        }
    }

    /// Removes the landings in these ranges of the cache: returns to them find none. No thread may
    /// be in the cache.
    pub(crate) fn forget(&mut self, gone: &[Hot]) {
        for &page in &self.pages {
            // SAFETY: a page of ours, which only emitted code writes to, and none is being executed.
            let slots =
                unsafe { std::slice::from_raw_parts_mut(page as *mut u64, PAGE as usize / 8) };
            for slot in slots {
                let at = u32::try_from(*slot).unwrap_or(0);
                if gone.iter().any(|range| range.contains(&at)) {
                    *slot = SHADOW_MISS;
                }
            }
        }
    }

    /// All return addresses that lie in the cache.
    #[cfg(test)]
    pub(crate) fn landings(&self) -> Vec<u32> {
        let slots = self.pages.iter().flat_map(|&page| {
            // SAFETY: a page of ours, and no code is being executed.
            unsafe { std::slice::from_raw_parts(page as *const u64, PAGE as usize / 8) }
        });
        slots.filter_map(|slot| u32::try_from(*slot).ok()).collect()
    }

    /// From now on there are no shadows.
    pub(crate) fn forbid(&mut self) {
        self.clear();
        self.forbidden = true;
    }

    pub(crate) fn is_forbidden(&self) -> bool {
        self.forbidden
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        self.clear();
    }
}
