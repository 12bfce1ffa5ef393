//! The thread that goes on first, of those of which each says when it is due. A function of its arguments.

use smallvec::SmallVec;

/// When a thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// At this moment, or when others need it before.
    At(u64),
    /// At this moment, even if others need it before.
    NotBefore(u64),
    /// When this thread has gone on, which should have been at this moment.
    After(u32, u64),
    /// At this moment, and before this thread goes on.
    Ahead(u32, u64),
    /// It has nothing left to do.
    Never,
}

/// When threads are due, by their slots. It is made anew with each turn: in place, without an allocation.
#[derive(Clone, Debug, Default)]
pub struct Dues(SmallVec<[(u32, Due); 8]>);

impl Dues {
    /// The thread of this slot is due then.
    pub fn set(&mut self, slot: u32, due: Due) {
        match self.0.binary_search_by_key(&slot, |&(slot, _)| slot) {
            Ok(at) => self.0[at].1 = due,
            Err(at) => self.0.insert(at, (slot, due)),
        }
    }

    fn get(&self, slot: u32) -> Option<Due> {
        self.place(slot).map(|at| self.0[at].1)
    }

    fn place(&self, slot: u32) -> Option<usize> {
        let at = self.0.binary_search_by_key(&slot, |&(slot, _)| slot);
        at.ok()
    }

    /// All of them.
    pub fn values(&self) -> impl Iterator<Item = Due> {
        self.0.iter().map(|&(_, due)| due)
    }
}

impl FromIterator<(u32, Due)> for Dues {
    fn from_iter<I: IntoIterator<Item = (u32, Due)>>(all: I) -> Self {
        let mut dues = Self::default();
        all.into_iter().for_each(|(slot, due)| dues.set(slot, due));
        dues
    }
}

/// The thread for which one waits in the end, by way of others that wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitEnd {
    /// Nobody has asked.
    Unknown,
    /// On the way that is gone just now: they wait for each other.
    OnWay,
    /// This one, by its place in the list.
    Thread(usize),
    /// None that goes on for it.
    Nobody,
}

/// For each thread that waits, the one that it waits for in the end. Each is passed once.
fn awaited(dues: &Dues) -> SmallVec<[WaitEnd; 16]> {
    let mut all = SmallVec::from_elem(WaitEnd::Unknown, dues.0.len());
    let mut way: SmallVec<[usize; 16]> = SmallVec::new();
    for start in 0..dues.0.len() {
        let mut at = start;
        let end = loop {
            match (all[at], dues.0[at].1) {
                (WaitEnd::OnWay, _) => break WaitEnd::Nobody,
                (WaitEnd::Unknown, Due::After(next, _)) => {
                    all[at] = WaitEnd::OnWay;
                    way.push(at);
                    match dues.place(next) {
                        Some(place) => at = place,
                        None => break WaitEnd::Nobody,
                    }
                }
                (WaitEnd::Unknown, Due::At(_) | Due::Ahead(..)) => break WaitEnd::Thread(at),
                (WaitEnd::Unknown, Due::NotBefore(_) | Due::Never) => break WaitEnd::Nobody,
                (known, _) => break known,
            }
        };
        way.drain(..).for_each(|passed| all[passed] = end);
    }
    all
}

/// When threads are due, by their slots: those that go on by themselves, each with the moments of those that wait for it.
fn moments(dues: &Dues) -> SmallVec<[(u32, u64); 16]> {
    let own = |&(_, due): &(u32, Due)| match due {
        Due::At(moment) | Due::NotBefore(moment) | Due::Ahead(_, moment) => Some(moment),
        Due::After(..) | Due::Never => None,
    };
    let mut moments: SmallVec<[Option<u64>; 16]> = dues.0.iter().map(own).collect();
    for (&(_, due), awaited) in dues.0.iter().zip(awaited(dues)) {
        if let (Due::After(_, moment), WaitEnd::Thread(at)) = (due, awaited) {
            moments[at] = moments[at].map(|own| own.min(moment));
        }
    }
    let all = dues.0.iter().zip(moments);
    all.filter_map(|(&(slot, _), moment)| Some((slot, moment?)))
        .collect()
}

/// The thread that goes on first. One for which others wait is due when they are.
pub fn first(dues: &Dues) -> Option<u32> {
    let at = moments(dues).into_iter();
    let (first, _) = at.min_by_key(|&(slot, moment)| (moment, slot))?;
    // Two that are ahead of each other go in the order of their moments.
    let ahead = dues
        .0
        .iter()
        .find(|(_, due)| matches!(due, Due::Ahead(other, _) if *other == first));
    let is_ahead = matches!(dues.get(first), Some(Due::Ahead(..)));
    Some(ahead.filter(|_| !is_ahead).map_or(first, |&(slot, _)| slot))
}

/// How long a thread is the first, as long as nothing changes for the others.
pub struct Lead {
    slot: u32,
    /// When others wait for it.
    awaited_at: u64,
    /// The first of the others.
    next: Option<(u64, u32)>,
}

impl Lead {
    /// Of a thread that is due at a moment; `None`: the dues of others are not that simple.
    pub fn of(slot: u32, dues: &Dues) -> Option<Self> {
        if dues.values().any(|due| matches!(due, Due::Ahead(..))) {
            return None;
        }
        let mut dues = dues.clone();
        dues.set(slot, Due::At(u64::MAX));
        let moments = moments(&dues);
        let others = moments.iter().filter(|(other, _)| *other != slot);
        let (_, awaited_at) = *moments.iter().find(|(other, _)| *other == slot)?;
        Some(Self {
            slot,
            awaited_at,
            next: others.map(|&(slot, moment)| (moment, slot)).min(),
        })
    }

    /// Whether the thread is the first if it is due then.
    pub fn keeps(&self, due: Due) -> bool {
        match due {
            Due::At(moment) => {
                let own = (moment.min(self.awaited_at), self.slot);
                self.next.is_none_or(|next| own < next)
            }
            _ => false,
        }
    }
}

/// Threads that wait for each other.
pub(super) fn circle(dues: &Dues) -> Vec<u32> {
    let next = |slot| match dues.get(slot) {
        Some(Due::After(thread, _)) => Some(thread),
        _ => None,
    };
    for &(slot, _) in &dues.0 {
        let mut way = vec![slot];
        while let Some(thread) = next(way[way.len() - 1]) {
            if thread == slot {
                return way;
            }
            if way.contains(&thread) {
                break;
            }
            way.push(thread);
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes_first(dues: &[(u32, Due)]) -> Option<u32> {
        first(&dues.iter().copied().collect())
    }

    #[test]
    fn the_thread_that_was_there_first_goes_first() {
        assert_eq!(goes_first(&[(0, Due::At(7)), (1, Due::At(5))]), Some(1));
        assert_eq!(goes_first(&[(0, Due::At(5)), (1, Due::At(5))]), Some(0));
        assert_eq!(goes_first(&[(0, Due::Never), (1, Due::At(5))]), Some(1));
        assert_eq!(goes_first(&[(0, Due::Never)]), None);
    }

    #[test]
    fn a_thread_that_others_wait_for_is_due_when_they_are() {
        let dues = [(0, Due::After(2, 1)), (1, Due::At(5)), (2, Due::At(9))];
        assert_eq!(goes_first(&dues), Some(2));
        // Through a thread that waits itself.
        let dues = [
            (0, Due::After(1, 1)),
            (1, Due::After(3, 8)),
            (2, Due::At(5)),
            (3, Due::At(9)),
        ];
        assert_eq!(goes_first(&dues), Some(3));
        // But for one that a search lets wait.
        let dues = [
            (0, Due::After(2, 1)),
            (1, Due::At(5)),
            (2, Due::NotBefore(9)),
        ];
        assert_eq!(goes_first(&dues), Some(1));
        // One that is not there yet cannot be waited for.
        let dues = [(0, Due::After(7, 1)), (1, Due::At(5))];
        assert_eq!(goes_first(&dues), Some(1));
    }

    #[test]
    fn a_thread_comes_to_its_call_ahead_of_the_change_that_the_call_finds() {
        let dues = [(0, Due::At(5)), (1, Due::Ahead(0, 9)), (2, Due::At(7))];
        assert_eq!(goes_first(&dues), Some(1));
        let dues = [(0, Due::At(5)), (1, Due::Ahead(2, 9)), (2, Due::At(7))];
        assert_eq!(goes_first(&dues), Some(0));
        let dues = [(0, Due::Ahead(1, 5)), (1, Due::Ahead(0, 4))];
        assert_eq!(goes_first(&dues), Some(1));
    }

    /// Whether the lead of thread 1 agrees with the order of all, for each moment at which it may be due.
    #[test]
    fn a_thread_leads_as_long_as_it_is_the_first() {
        let others: [&[(u32, Due)]; 5] = [
            &[(0, Due::At(5)), (2, Due::At(3))],
            &[(0, Due::At(5)), (2, Due::After(1, 4))],
            &[
                (0, Due::After(2, 2)),
                (2, Due::After(1, 4)),
                (3, Due::At(3)),
            ],
            &[(0, Due::Never), (2, Due::NotBefore(6))],
            &[(0, Due::After(7, 1))],
        ];
        for others in others {
            for moment in 0..9 {
                let mut dues: Dues = others.iter().copied().collect();
                dues.set(1, Due::At(4));
                let lead = Lead::of(1, &dues).expect("none is ahead");
                dues.set(1, Due::At(moment));
                let is_first = first(&dues) == Some(1);
                assert_eq!(lead.keeps(Due::At(moment)), is_first, "{dues:?}");
            }
        }
        let dues = [(0, Due::Ahead(1, 9)), (1, Due::At(2))];
        assert!(Lead::of(1, &dues.into_iter().collect()).is_none());
    }

    #[test]
    fn threads_that_wait_for_each_other_are_not_due() {
        assert_eq!(
            goes_first(&[(0, Due::After(1, 1)), (1, Due::After(0, 1))]),
            None
        );
        let dues = [
            (0, Due::After(1, 1)),
            (1, Due::After(3, 1)),
            (2, Due::Never),
            (3, Due::After(1, 7)),
        ];
        assert_eq!(circle(&dues.into_iter().collect()), [1, 3]);
    }
}
