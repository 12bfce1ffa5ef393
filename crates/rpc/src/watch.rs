//! The time limit of a replay.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::shared::Shared;

/// Ends a replay in which nothing goes on though requests are still to come.
pub(crate) fn watch(shared: &Weak<Shared>, limit: Duration) {
    let mut seen = (0, Instant::now());
    loop {
        std::thread::sleep(limit / 8);
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if shared.left.load(Ordering::Relaxed) == 0 || shared.failure().is_some() {
            return;
        }
        let progress = shared.progress.load(Ordering::Relaxed);
        let begun = progress > 0 || shared.anybody_waits();
        if progress != seen.0 || !begun {
            seen = (progress, Instant::now());
        } else if seen.1.elapsed() >= limit {
            shared.stalled();
            return;
        }
    }
}
