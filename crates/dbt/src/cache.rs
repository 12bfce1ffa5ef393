//! The code cache: one mapping that is writable and executable at once, because other
//! threads may run in it while a branch is patched.
//!
//! Fragments grow from its start upwards, exit stubs, which are rarely executed, from its
//! end downwards. Emitted code is never changed but for the displacement of a linkable
//! branch and the first byte of a dead entry.

use relive_host::layout::CACHE_START;
use relive_host::{sys, window};

use crate::align;
use crate::stop::Error;

/// Bytes at the start of the cache that fragments leave free, for code at fixed addresses.
pub(crate) const FIXED: u32 = 192;

/// One-byte instruction that faults at itself in user mode (`hlt`): written over the
/// entries of dead fragments.
const DEAD: u8 = 0xf4;

/// The mapping and its two growing ends.
pub(crate) struct Cache {
    hot: u32,
    cold: u32,
    end: u32,
}

impl Cache {
    /// Maps the first `bytes` of the cache window.
    pub(crate) fn new(bytes: u64) -> Result<Self, Error> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let args = [CACHE_START, bytes, prot as u64, flags as u64, u64::MAX, 0];
        // SAFETY: the cache window is reserved for this mapping alone.
        let ret = unsafe { sys::syscall(libc::SYS_mmap as u64, args) };
        Error::check("mapping the code cache", ret)?;
        let start = CACHE_START as u32;
        Ok(Self {
            hot: start + FIXED,
            cold: start + bytes as u32,
            end: start + bytes as u32,
        })
    }

    /// Forgets all contents.
    pub(crate) fn clear(&mut self) {
        self.hot = CACHE_START as u32 + FIXED;
        self.cold = self.end;
    }

    /// First free byte above the fragments, first byte of the stubs, end.
    pub(crate) fn bounds(&self) -> (u32, u32, u32) {
        (self.hot, self.cold, self.end)
    }

    /// Takes over code that was put in place by somebody else.
    pub(crate) fn take_over(&mut self, hot: u32, cold: u32) {
        assert!(hot <= cold && cold <= self.end, "outside of the cache");
        (self.hot, self.cold) = (hot, cold);
    }

    /// Whether `bytes` more fit.
    pub(crate) fn has_room(&self, bytes: u32) -> bool {
        self.cold - self.hot >= bytes
    }

    /// Where the next fragment starts.
    pub(crate) fn next_hot(&self) -> u32 {
        align::start(self.hot, self.hot - CACHE_START as u32)
    }

    /// Puts a fragment at [`Cache::next_hot`].
    pub(crate) fn push_hot(&mut self, code: &[u8]) {
        let at = self.next_hot();
        self.hot = at + code.len() as u32;
        self.write(at, code);
    }

    /// Reserves `bytes` for a stub.
    pub(crate) fn reserve_cold(&mut self, bytes: u32) -> u32 {
        self.cold -= bytes;
        self.cold
    }

    /// Bytes in use: fragments, stubs.
    pub(crate) fn used(&self) -> (u32, u32) {
        (self.hot - CACHE_START as u32, self.end - self.cold)
    }

    /// Writes code that no thread can be executing.
    pub(crate) fn write(&mut self, at: u32, code: &[u8]) {
        assert!(
            u64::from(at) >= CACHE_START && at as usize + code.len() <= self.end as usize,
            "outside of the cache"
        );
        assert!(self.hot <= self.cold, "the code cache has run over");
        // SAFETY: the range lies in our mapping, which no Rust object lives in, as asserted.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len()) };
    }

    /// Makes the branch whose displacement is at `site` go to `target`, for all threads at once.
    pub(crate) fn patch_branch(&mut self, site: u32, target: u32) {
        assert!(
            u64::from(site) >= CACHE_START && site + 4 <= self.end && site % 64 <= 60,
            "not a link"
        );
        let rel = target.wrapping_sub(site + 4);
        // SAFETY: the site is the displacement of a branch in our mapping; one store
        // within a cache line, so that a thread executing it sees the old or the new value.
        unsafe {
            std::arch::asm!("mov dword ptr [{}], {:e}", in(reg) u64::from(site), in(reg) rel, options(nostack, preserves_flags))
        };
    }

    /// Makes an entry fault from now on.
    pub(crate) fn kill_entry(&mut self, at: u32) {
        assert!(
            u64::from(at) >= CACHE_START && at < self.end,
            "not an entry"
        );
        // SAFETY: a byte of our mapping; one-byte stores are seen whole.
        unsafe {
            std::arch::asm!("mov byte ptr [{}], {}", in(reg) u64::from(at), in(reg_byte) DEAD, options(nostack, preserves_flags))
        };
    }

    /// A copy of emitted code.
    pub(crate) fn read(&self, at: u32, len: u32) -> Vec<u8> {
        assert!(
            u64::from(at) >= CACHE_START && at + len <= self.end,
            "outside of the cache"
        );
        // SAFETY: the range lies in our mapping; only this translator writes there.
        unsafe { std::slice::from_raw_parts(at as *const u8, len as usize) }.to_vec()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let len = u64::from(self.end) - CACHE_START;
        // SAFETY: the mapping is ours; the caller lets no thread run in it any more.
        unsafe { window::release(CACHE_START, len) };
    }
}
