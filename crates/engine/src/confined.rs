//! Whether this process is a replay that opens nothing any more. Whoever waits for another process asks,
//! deep under a lock of the shared memory: therefore one word for the process.

use std::sync::atomic::{AtomicBool, Ordering};

static CONFINED: AtomicBool = AtomicBool::new(false);

/// The process is about to be confined, for the rest of its life.
pub fn begins() {
    CONFINED.store(true, Ordering::Relaxed);
}

/// Whether it is.
#[must_use]
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}
