//! Whether this process is a confined replay, which opens nothing any more. Waits for another process ask
//! this deep under a lock of the shared memory: therefore it is one word of the process, and must never
//! take a lock.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the process is confined. Process-wide: the kernel confines processes, and see the module.
static CONFINED: AtomicBool = AtomicBool::new(false);

/// Notes that the process is about to be confined, for the rest of its life.
pub fn begins() {
    CONFINED.store(true, Ordering::Relaxed);
}

/// Whether it is confined.
#[must_use]
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}
