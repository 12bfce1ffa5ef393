//! The right to write output, and its number. An owner that has died loses it.

use std::sync::atomic::Ordering;

use relive_host::sys;

use super::{Shm, alive};

impl Shm {
    /// Tries to take the right to write output; waits up to 50 ms. An owner that has died
    /// loses it.
    #[must_use]
    pub fn lock_output(&self, tid: u32) -> bool {
        let lock = &self.header().output_lock;
        match lock.compare_exchange(0, tid, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(owner) => {
                sys::futex_wait(lock, owner, Some(50));
                !alive(owner)
                    && lock
                        .compare_exchange(owner, tid, Ordering::AcqRel, Ordering::Acquire)
                        .is_ok()
            }
        }
    }

    /// Gives it back, with the number of this output.
    pub fn unlock_output(&self, wrote: bool) -> Option<u64> {
        let h = self.header();
        let order = wrote.then(|| h.next_order.fetch_add(1, Ordering::AcqRel));
        h.output_lock.store(0, Ordering::Release);
        sys::futex_wake(&h.output_lock, 1);
        order
    }
}
