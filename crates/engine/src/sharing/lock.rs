//! A lock in the shared memory of the tree, for a few lines at a time.
//!
//! Its word names the owner, so that an owner that was killed is noticed and loses it: the data
//! that it protects must therefore be usable after every single store.

use std::sync::atomic::{AtomicU32, Ordering};

use relive_host::sys;

use super::dead_thread;

/// Set beside the owner while another thread waits.
const CONTENDED: u32 = 1 << 31;
/// How long to sleep before the owner is looked at, in milliseconds.
const PATIENCE: u32 = 50;

/// How often to look whether a lock is free, where no thread waits for it.
const SPINS: u32 = 500;

/// The lock's word: 0, or the kernel id of the thread that has it.
#[repr(C)]
pub struct Lock(AtomicU32);

/// Gives the lock back when dropped.
pub struct LockGuard<'a>(&'a AtomicU32);

impl Lock {
    /// Takes the lock for the calling thread, whose kernel id is `tid`.
    pub fn take(&self, tid: u32) -> LockGuard<'_> {
        let word = &self.0;
        let swap = |from, to| word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        if swap(0, tid).is_ok() {
            return LockGuard(word);
        }
        loop {
            match word.load(Ordering::Acquire) {
                0 => {
                    // Others may be asleep still: the word says so for them.
                    if swap(0, tid | CONTENDED).is_ok() {
                        return LockGuard(word);
                    }
                }
                seen => {
                    let owner = seen & !CONTENDED;
                    if seen & CONTENDED != 0 || swap(seen, seen | CONTENDED).is_ok() {
                        sys::futex_wait(word, owner | CONTENDED, Some(PATIENCE));
                    }
                    if word.load(Ordering::Acquire) == owner | CONTENDED
                        && dead_thread(owner)
                        && swap(owner | CONTENDED, tid | CONTENDED).is_ok()
                    {
                        return LockGuard(word);
                    }
                }
            }
        }
    }
}

impl Lock {
    /// Takes the lock for the calling thread, whose kernel id is `tid`, if it is free, soon
    /// free, or its owner is dead.
    pub fn try_take(&self, tid: u32) -> Option<LockGuard<'_>> {
        let word = &self.0;
        let swap = |from, to| word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        for _ in 0..SPINS {
            if swap(0, tid).is_ok() {
                return Some(LockGuard(word));
            }
            std::hint::spin_loop();
        }
        let seen = word.load(Ordering::Acquire);
        let dead = seen != 0 && dead_thread(seen & !CONTENDED);
        // Lazily: a guard that is made and dropped would free the lock of another holder.
        (dead && swap(seen, tid).is_ok()).then(|| LockGuard(word))
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        if self.0.swap(0, Ordering::AcqRel) & CONTENDED != 0 {
            sys::futex_wake(self.0, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_attempt_leaves_the_lock_as_it_is() {
        let lock = Lock(AtomicU32::new(0));
        let me = sys::gettid();
        let guard = lock.try_take(me);
        assert!(guard.is_some());
        for _ in 0..2 {
            assert!(lock.try_take(me).is_none(), "its owner lives");
        }
        drop(guard);
        assert!(lock.try_take(me).is_some());
    }

    #[test]
    fn a_dead_owner_loses_it() {
        const NOBODY: u32 = 0x3fff_ffff;
        let lock = Lock(AtomicU32::new(0));
        std::mem::forget(lock.try_take(NOBODY));
        assert!(lock.try_take(sys::gettid()).is_some());
    }
}
