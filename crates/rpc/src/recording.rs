//! Whether any session of this process records or replays: an operation without a task is then a mistake.

use std::sync::atomic::{AtomicUsize, Ordering};

static SESSIONS: AtomicUsize = AtomicUsize::new(0);

/// Counts as a session for as long as it lives.
pub(crate) struct On(());

impl On {
    pub(crate) fn new() -> Self {
        SESSIONS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for On {
    fn drop(&mut self) {
        SESSIONS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[inline]
pub(crate) fn is_on() -> bool {
    SESSIONS.load(Ordering::Relaxed) > 0
}
