//! The stay of a process in its parent's memory (vfork(2)), as whoever kills it sees it. Who dies there in the midst of
//! its work leaves locks of its parent's behind, and work that is on no tape: so it is told, and ends at a safe point. Must never
//! let one that has been told become another program, which would not know of it.

use std::sync::atomic::{AtomicU32, Ordering};

/// Where a process is.
mod place {
    /// In memory of its own, as all are at first.
    pub const ELSEWHERE: u32 = 0;
    /// In its parent's.
    pub const VISITING: u32 = 1;
    /// As `VISITING`; it has been killed, and is to end.
    pub const KILLED: u32 = 2;
}

/// The stay of one process; it lies in the shared memory.
#[repr(transparent)]
#[derive(Default)]
pub struct Visit(AtomicU32);

impl Visit {
    fn step(&self, from: u32, to: u32) -> bool {
        let (ok, fail) = (Ordering::SeqCst, Ordering::SeqCst);
        self.0.compare_exchange(from, to, ok, fail).is_ok()
    }

    /// It has come, or has not become another program after all.
    pub fn begin(&self) {
        self.0.store(place::VISITING, Ordering::SeqCst);
    }

    /// It is about to become another program. `false`: it has been killed, and stays to end.
    #[must_use]
    pub fn leave(&self) -> bool {
        self.step(place::VISITING, place::ELSEWHERE)
    }

    /// It has left, in whatever way.
    pub fn end(&self) {
        self.0.store(place::ELSEWHERE, Ordering::SeqCst);
    }

    /// Whether it is there.
    #[must_use]
    pub fn lasts(&self) -> bool {
        self.0.load(Ordering::Acquire) != place::ELSEWHERE
    }

    /// Tells it that it has been killed. `false`: it is not there, and whoever kills does it itself.
    #[must_use]
    pub fn kill(&self) -> bool {
        self.step(place::VISITING, place::KILLED) || self.is_killed()
    }

    /// Whether it has been killed.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.0.load(Ordering::Acquire) == place::KILLED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_was_told_becomes_no_other_program() {
        let visit = Visit::default();
        assert!(!visit.kill(), "it is not there");
        visit.begin();
        assert!(visit.kill() && visit.kill(), "killed twice");
        assert!(visit.is_killed() && visit.lasts());
        assert!(!visit.leave());
    }

    #[test]
    fn one_that_has_left_is_not_told() {
        let visit = Visit::default();
        visit.begin();
        assert!(visit.lasts() && visit.leave());
        assert!(!visit.kill() && !visit.is_killed() && !visit.lasts());
    }
}
