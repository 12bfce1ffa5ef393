//! The threads without the turn, as they were looked at last: when each is due, and what may change that. A thread
//! that stands is looked at again when another one has done what it waits for, and one that runs goes on without a
//! look at the others as long as they say that it is the first. Must never run anything.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::bound::OtherThreads;
use super::next_thread::{Due, Dues, Lead};

/// Something that a thread has not done yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// This operation of the thread.
    Operation(u32, u64),
    /// This mark of the thread; 0: its end.
    Mark(u32, u64),
}

/// All that a thread waits for.
pub type AllUnmet = SmallVec<[Unmet; 2]>;

/// When a thread is due.
pub struct Outlook {
    pub due: Due,
    /// What others had not done when it was looked at.
    pub unmet: AllUnmet,
    /// More than that may change it.
    pub is_volatile: bool,
}

/// The threads without the turn.
#[derive(Default)]
pub struct Outlooks {
    outlooks: BTreeMap<u32, Outlook>,
    /// How long the running thread stays the first.
    lead: Option<RunningLead>,
}

/// What the other threads say of the running one.
struct RunningLead {
    lead: Lead,
    /// How many they are.
    others: usize,
    /// The first of its operations, and of its marks, that one of them waits for.
    awaited: (u64, u64),
}

impl Outlooks {
    /// The thread has been looked at.
    pub fn is_due(&mut self, slot: u32, outlook: Outlook) {
        self.outlooks.insert(slot, outlook);
        self.lead = None;
    }

    /// The thread gets the turn, or another state.
    pub fn changes(&mut self, slot: u32) {
        self.outlooks.remove(&slot);
        self.lead = None;
    }

    /// Nothing is known of any thread.
    pub fn forget(&mut self) {
        self.outlooks.clear();
        self.lead = None;
    }

    /// Those of these threads that have to be looked at.
    pub fn stale<'a>(
        &self,
        slots: impl Iterator<Item = &'a u32>,
        others: &dyn OtherThreads,
    ) -> SmallVec<[u32; 8]> {
        let holds = |slot: &u32| {
            let known = self.outlooks.get(slot).filter(|known| !known.is_volatile);
            known.is_some_and(|known| !known.unmet.iter().any(|unmet| unmet.is_met(others)))
        };
        slots.filter(|slot| !holds(slot)).copied().collect()
    }

    /// When each thread is due, the running one with what it says itself.
    pub fn dues(&self, running: Option<(u32, Due)>) -> Dues {
        let standing = self.outlooks.iter();
        let standing = standing.map(|(&slot, outlook)| (slot, outlook.due));
        standing.chain(running).collect()
    }

    /// The running thread is the first of all, by these dues: it leads until others may have to be looked at.
    pub fn leads(&mut self, slot: u32, dues: &Dues) {
        if self.outlooks.values().any(|outlook| outlook.is_volatile) {
            return;
        }
        let mut awaited = (u64::MAX, u64::MAX);
        let unmet = self.outlooks.values().flat_map(|outlook| &outlook.unmet);
        for unmet in unmet {
            match *unmet {
                Unmet::Operation(thread, op) if thread == slot => awaited.0 = op.min(awaited.0),
                Unmet::Mark(thread, mark) if thread == slot && mark != 0 => {
                    awaited.1 = mark.min(awaited.1);
                }
                _ => {}
            }
        }
        self.lead = Lead::of(slot, dues).map(|lead| RunningLead {
            lead,
            others: self.outlooks.len(),
            awaited,
        });
    }

    /// Whether the running thread is still the first, with so many others: it has made so many operations and passed so
    /// many marks, and is due then.
    pub fn still_leads(&self, others: usize, done: (u64, u64), due: Due) -> bool {
        let Some(lead) = &self.lead else {
            return false;
        };
        let awaited = lead.awaited;
        lead.others == others && done.0 < awaited.0 && done.1 < awaited.1 && lead.lead.keeps(due)
    }
}

impl Unmet {
    fn is_met(&self, others: &dyn OtherThreads) -> bool {
        match *self {
            Self::Operation(thread, op) => others.has_made(thread, op),
            Self::Mark(thread, mark) => others.has_passed(thread, mark),
        }
    }
}
