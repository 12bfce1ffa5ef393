//! The cell of one word of guest memory: the accesses that a later one may race with, and which of them go.
//!
//! A cell keeps no access behind which another one of the cell is ordered, if every race with the
//! former is one with the latter too. So most cells have one or two. Bytes are told apart by a mask:
//! neighbours in a word must never race.

use relive_host::track::lines::Slot;

use super::clock::VectorClock;

/// An access that was made: at time 0 none.
pub type Made = Slot;

/// The relations between accesses.
trait HappensBefore: Sized {
    fn is_none(&self) -> bool;
    fn is_before(&self, now: &VectorClock) -> bool;
    fn is_by(&self, other: &Self) -> bool;
    fn is_like(&self, other: &Self) -> bool;
    fn meet(&mut self, new: &Self, now: &VectorClock, race: &mut dyn FnMut(Self)) -> bool;
    fn is_covered(&self, other: &Self) -> bool;
}

impl HappensBefore for Made {
    fn is_none(&self) -> bool {
        self.time == 0
    }

    /// Whether it is ordered before an access that a thread with this clock makes now.
    fn is_before(&self, now: &VectorClock) -> bool {
        self.time <= now.of(self.thread.into())
    }

    /// Whether it is of the same thread at the same time.
    fn is_by(&self, other: &Self) -> bool {
        self.thread == other.thread && self.time == other.time
    }

    /// Whether it differs in time and position alone.
    fn is_like(&self, other: &Self) -> bool {
        self.thread == other.thread && self.mask == other.mask && self.writes == other.writes
    }

    /// A later access comes: reports a race, or goes if it is not needed any more. Whether the later
    /// one is needed beside it.
    #[inline]
    fn meet(&mut self, new: &Self, now: &VectorClock, race: &mut dyn FnMut(Self)) -> bool {
        if self.is_none() {
            return true;
        }
        if self.is_by(new) {
            if new.is_covered(self) {
                return false;
            }
        } else if !self.is_before(now) {
            if self.mask & new.mask != 0 && self.writes | new.writes != 0 {
                race(*self);
            }
            return true;
        }
        if self.is_covered(new) {
            *self = Self::default();
        }
        true
    }

    /// Whether each later access that races with this one races with `other` too, which comes
    /// behind it.
    fn is_covered(&self, other: &Self) -> bool {
        self.mask & !other.mask == 0 && self.writes <= other.writes
    }
}

/// Of two accesses that race with a third one, the one to report. An access that another one
/// covers, which comes behind it, is never preferred to that: so it makes no difference whether it
/// has been dropped already.
pub fn preferred(a: Made, b: Made) -> Made {
    let bytes = |made: &Made| made.mask.count_ones();
    let key = |made: &Made| match a.thread == b.thread {
        true => (made.writes, u64::from(made.time), u64::from(bytes(made))),
        false => (made.writes, made.event, made.tick),
    };
    if key(&b) > key(&a) { b } else { a }
}

/// The cell of one word.
///
/// It may hold accesses that are not needed any more: where a line renews a slot, nothing else of the
/// cell is looked at ([`relive_host::track::lines`]).
#[derive(Default)]
pub struct ShadowCell {
    made: [Made; 2],
    /// Accesses that do not fit. None is taken out: a line may lead to its slot.
    more: Vec<Made>,
    /// Bytes that threads synchronise by.
    pub sync: u8,
}

impl ShadowCell {
    /// Adds an access; reports those that it races with. Whether slots have moved.
    pub fn add(&mut self, new: Made, now: &VectorClock, race: &mut dyn FnMut(Made)) -> bool {
        let mut is_needed = true;
        for old in self.made.iter_mut().chain(&mut self.more) {
            is_needed &= old.meet(&new, now, race);
        }
        if is_needed {
            return self.put(new);
        }
        let is_there = self.slot(&new).is_some();
        match self.made.iter_mut().find(|made| made.is_none()) {
            // A slot that a line can renew.
            Some(free) if !is_there => *free = new,
            _ => {}
        }
        false
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Made> {
        self.made.iter_mut().chain(&mut self.more)
    }

    /// The slot of an access like this one.
    pub fn slot(&mut self, new: &Made) -> Option<&mut Made> {
        self.all().find(|made| made.is_like(new))
    }

    /// Puts in an access that is needed. Where there is no room, accesses of one thread to neighbouring
    /// bytes become one, with the later position. Whether slots have moved.
    fn put(&mut self, new: Made) -> bool {
        if let Some(free) = self.all().find(|made| made.is_none()) {
            *free = new;
            return false;
        }
        let alike = |old: &Made| old.is_by(&new) && old.writes == new.writes;
        if let Some(old) = self.all().find(|old| alike(old)) {
            *old = Made {
                mask: old.mask | new.mask,
                ..new
            };
            return false;
        }
        let moves = self.more.len() == self.more.capacity();
        self.more.push(new);
        moves
    }

    /// Forgets the accesses to these bytes.
    pub fn forget(&mut self, mask: u8) {
        let cut = |made: &mut Made| {
            made.mask &= !mask;
            if made.mask == 0 {
                *made = Made::default();
            }
        };
        self.all().for_each(cut);
    }

    pub fn is_empty(&mut self) -> bool {
        self.all().all(|made| made.is_none())
    }
}
