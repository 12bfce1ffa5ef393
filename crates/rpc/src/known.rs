//! How far other processes' recordings are known to be: the epochs that this one has noted to depend on.
//!
//! Each answer asks, so that the common case is a look without a lock; once in an epoch of a peer the
//! answer is no. **A task that learns of an epoch notes it first, and only then says so here.**

use std::sync::atomic::{AtomicU64, Ordering};

use crate::header::Mark;
use crate::name::NameId;

/// Processes that are remembered; of more, some may be made up.
const PEERS_MAX: usize = 64;

/// See the module's page.
pub(crate) struct Known([Place; PEERS_MAX]);

/// The last epoch known of one process.
pub(crate) struct Place {
    /// 0: of none yet.
    process: AtomicU64,
    /// The epoch behind the last one that is known, so that 0 is none.
    behind: AtomicU64,
}

impl Default for Known {
    fn default() -> Self {
        Self(
            [const {
                Place {
                    process: AtomicU64::new(0),
                    behind: AtomicU64::new(0),
                }
            }; PEERS_MAX],
        )
    }
}

impl Known {
    /// Whether a mark, or a later one of its process, is known.
    pub(crate) fn covers(&self, mark: Mark) -> bool {
        let of = |place: &&Place| place.process.load(Ordering::Relaxed) == mark.process.get();
        // No place is taken behind a free one.
        let mut taken = self
            .0
            .iter()
            .take_while(|place| place.process.load(Ordering::Relaxed) != 0);
        taken.find(of).is_some_and(|place| {
            let behind = place.behind.load(Ordering::Acquire);
            behind > mark.epoch || behind == u64::MAX
        })
    }

    /// The place of a process; `None` if there is none left.
    pub(crate) fn place(&self, process: NameId) -> Option<&Place> {
        self.0.iter().find(|place| {
            let taken = place.process.compare_exchange(
                0,
                process.get(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            taken.map_or_else(|other| other == process.get(), |_| true)
        })
    }
}

impl Place {
    /// The dependence on this epoch is noted.
    pub(crate) fn learn(&self, epoch: u64) {
        self.behind
            .fetch_max(epoch.saturating_add(1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_marks_are_not_known_and_earlier_ones_are() {
        let known = Known::default();
        let mark = |process, epoch| Mark {
            process: NameId::from_hash(process),
            epoch,
        };
        assert!(!known.covers(mark(1, 0)));
        known
            .place(NameId::from_hash(1))
            .expect("there is room")
            .learn(5);
        assert!(known.covers(mark(1, 5)) && known.covers(mark(1, 0)));
        assert!(!known.covers(mark(1, 6)) && !known.covers(mark(2, 0)));
        known
            .place(NameId::from_hash(1))
            .expect("it has one")
            .learn(2);
        assert!(known.covers(mark(1, 5)), "it does not go back");
        known
            .place(NameId::from_hash(2))
            .expect("there is room")
            .learn(u64::MAX);
        assert!(known.covers(mark(2, u64::MAX)));
    }

    #[test]
    fn made_up_processes_take_no_more_than_all_places() {
        let known = Known::default();
        let taken = (1..1000).filter(|process| known.place(NameId::from_hash(*process)).is_some());
        assert_eq!(taken.count(), PEERS_MAX);
        assert!(known.place(NameId::from_hash(1)).is_some());
    }
}
