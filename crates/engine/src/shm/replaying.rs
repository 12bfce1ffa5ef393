//! The host processes of a replay, to end them together.

use std::sync::atomic::{AtomicU32, Ordering};

use super::Shm;

impl Shm {
    /// Notes a host process of a replay.
    pub fn register(&self, pid: u32) {
        let free = |slot: &&AtomicU32| {
            slot.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        let _ = self.header().replaying.iter().find(free);
    }

    /// A host process of a replay is about to end: its number may soon be another's.
    pub fn unregister(&self, pid: u32) {
        let mut slots = self.header().replaying.iter();
        if let Some(own) = slots.find(|slot| slot.load(Ordering::Acquire) == pid) {
            own.store(0, Ordering::Release);
        }
    }

    /// Host processes of the replay.
    pub fn registered(&self) -> impl Iterator<Item = u32> {
        let slots = self.header().replaying.iter();
        slots.map(|p| p.load(Ordering::Acquire)).filter(|&p| p != 0)
    }
}
