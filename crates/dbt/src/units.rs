//! Units: parts of the code cache that are forgotten, and used again, as a whole.
//!
//! The cache and the lists about it (fragments, marks, exits) grow together. A unit is the same part
//! of all of them: all that was made between two [`CachePlace`]s. Once most of a unit's fragments are out
//! of use the unit is *retired*; when no thread is in the cache it is forgotten
//! ([`crate::reclaim`]), and its [`Extent`] is filled anew. Nothing here looks at code.

use std::ops::Range;

use crate::fragments::Hot;

/// How far the cache and the lists about it have been filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CachePlace {
    pub(crate) hot: u32,
    /// Grows downwards.
    pub(crate) cold: u32,
    pub(crate) frags: u32,
    pub(crate) marks: u32,
    pub(crate) exits: u32,
}

/// All that lies between two places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    pub(crate) from: CachePlace,
    pub(crate) to: CachePlace,
}

/// The most that a fragment, or an entry, takes of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Need {
    /// Of fragments and stubs together.
    pub(crate) bytes: u32,
    pub(crate) marks: u32,
    pub(crate) exits: u32,
}

impl Extent {
    /// Whether so much has room.
    pub(crate) fn holds(&self, need: Need) -> bool {
        let (from, to) = (self.from, self.to);
        to.hot - from.hot >= need.bytes
            && from.cold - to.cold >= need.bytes
            && to.frags > from.frags
            && to.marks - from.marks >= need.marks
            && to.exits - from.exits >= need.exits
    }

    pub(crate) fn bytes(&self) -> u32 {
        self.to.hot - self.from.hot + (self.from.cold - self.to.cold)
    }

    /// The addresses of its fragments.
    pub(crate) fn hot(&self) -> Hot {
        self.from.hot..self.to.hot
    }
}

/// A unit that is not filled any more.
pub(crate) struct CacheUnit {
    pub(crate) extent: Extent,
    /// Other fragments with an entry in it.
    pub(crate) late: Vec<u32>,
    /// Its fragments, and how many of them are out of use.
    made: u32,
    dead: u32,
    /// Its number in the order of their filling.
    number: u64,
}

impl CacheUnit {
    /// Whether the rest of it is worth less than its room.
    fn is_retired(&self) -> bool {
        self.made > 0 && self.dead >= self.made - self.made / 4
    }

    /// Its own fragments.
    pub(crate) fn ids(&self) -> Range<u32> {
        let first = self.extent.from.frags;
        first..first + self.made
    }
}

/// The unit that is being filled.
#[derive(Default)]
struct Open {
    from: CachePlace,
    /// Where it must end, if it is filled for a second time.
    to: Option<CachePlace>,
    made: u32,
    dead: u32,
    late: Vec<u32>,
}

/// All units.
pub(crate) struct Units {
    /// By their place.
    closed: Vec<CacheUnit>,
    open: Option<Open>,
    /// By their place; neighbours are one.
    free: Vec<Extent>,
    /// Bytes of a unit.
    size: u32,
    closings: u64,
}

/// So many retired units are worth bringing all threads to rest.
const WORTH: usize = 2;

/// The largest fragments that a unit holds at least.
const LEAST: u32 = 4;

/// The size of units in large caches.
const USUAL: u32 = 256 << 10;

impl Units {
    /// None yet, in a cache of so many bytes, where the largest fragment has so many.
    pub(crate) fn new(cache_bytes: u64, largest: u32) -> Self {
        let size = (cache_bytes / 64).min(USUAL.into()) as u32;
        Self {
            closed: Vec::new(),
            open: None,
            free: Vec::new(),
            size: size.max(LEAST * largest),
            closings: 0,
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.closed.clear();
        self.free.clear();
        self.open = None;
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Begins a unit: without an end, up to the usual size.
    pub(crate) fn open(&mut self, from: CachePlace, to: Option<CachePlace>) {
        assert!(self.open.is_none(), "two units are filled at once");
        self.open = Some(Open {
            from,
            to,
            ..Open::default()
        });
    }

    /// Whether so much may be added to the open unit, filled up to here.
    pub(crate) fn has_room(&self, here: CachePlace, need: Need) -> bool {
        let Some(open) = &self.open else {
            return false;
        };
        let from = open.from;
        let whole = Extent { from, to: here }.bytes() >= self.size;
        let rest = |to| Extent { from: here, to };
        !whole && open.to.is_none_or(|to| rest(to).holds(need))
    }

    /// The open unit ends here. The rest of a second filling's extent is free.
    pub(crate) fn close(&mut self, here: CachePlace, need: Need) {
        let Some(open) = self.open.take() else {
            return;
        };
        let (from, mut to) = (open.from, here);
        if let Some(end) = open.to {
            let rest = Extent {
                from: here,
                to: end,
            };
            match rest.holds(need) {
                true => self.release(rest),
                false => to = end,
            }
        }
        let extent = Extent { from, to };
        if open.made == 0 && open.late.is_empty() {
            if from != to {
                self.release(extent);
            }
            return;
        }
        self.closings += 1;
        let unit = CacheUnit {
            extent,
            late: open.late,
            made: open.made,
            dead: open.dead,
            number: self.closings,
        };
        let at = self
            .closed
            .partition_point(|u| u.extent.from.hot < from.hot);
        self.closed.insert(at, unit);
    }

    /// A fragment was added to the open unit.
    pub(crate) fn made(&mut self) {
        if let Some(open) = &mut self.open {
            open.made += 1;
        }
    }

    /// An entry of this fragment was added to the open unit.
    pub(crate) fn made_late(&mut self, id: u32) {
        if let Some(open) = &mut self.open {
            open.late.push(id);
        }
    }

    /// A fragment is out of use.
    pub(crate) fn killed(&mut self, id: u32) {
        let at = self.closed.partition_point(|u| u.extent.to.frags <= id);
        if let Some(unit) = self.closed.get_mut(at)
            && unit.extent.from.frags <= id
        {
            unit.dead += 1;
        } else if let Some(open) = &mut self.open
            && open.from.frags <= id
            && open.to.is_none_or(|to| id < to.frags)
        {
            open.dead += 1;
        }
    }

    /// Whether enough is retired that it is worth bringing all threads to rest.
    pub(crate) fn ask(&self) -> bool {
        let retired = self.closed.iter().filter(|u| u.is_retired());
        retired.take(WORTH).count() == WORTH
    }

    /// Takes out a retired unit.
    pub(crate) fn take_retired(&mut self) -> Option<CacheUnit> {
        let at = self.closed.iter().position(CacheUnit::is_retired)?;
        Some(self.closed.remove(at))
    }

    /// Takes out the one that was filled first.
    pub(crate) fn take_oldest(&mut self) -> Option<CacheUnit> {
        let units = self.closed.iter().enumerate();
        let (at, _) = units.min_by_key(|(_, u)| u.number)?;
        Some(self.closed.remove(at))
    }

    /// Bytes that units have, or have had.
    pub(crate) fn bytes(&self) -> u64 {
        let closed = self.closed.iter().map(|u| u64::from(u.extent.bytes()));
        closed.sum::<u64>() + self.free_bytes()
    }

    /// The free extents.
    #[cfg(test)]
    pub(crate) fn free(&self) -> &[Extent] {
        &self.free
    }

    /// Bytes of free extents.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free.iter().map(|e| u64::from(e.bytes())).sum()
    }

    /// An extent that nothing refers to any more.
    pub(crate) fn release(&mut self, extent: Extent) {
        let at = self.free.partition_point(|e| e.from.hot < extent.from.hot);
        self.free.insert(at, extent);
        self.join(at);
        if at > 0 {
            self.join(at - 1);
        }
    }

    /// Joins a free extent with the one behind it, if nothing lies between them.
    fn join(&mut self, at: usize) {
        if let Some(next) = self.free.get(at + 1).copied()
            && self.free[at].to == next.from
        {
            self.free[at].to = next.to;
            self.free.remove(at + 1);
        }
    }

    /// Whether a free extent has room for so much.
    pub(crate) fn has_free(&self, need: Need) -> bool {
        self.free.iter().any(|e| e.holds(need))
    }

    /// Takes a free extent with room for so much.
    pub(crate) fn take_free(&mut self, need: Need) -> Option<Extent> {
        let at = self.free.iter().position(|e| e.holds(need))?;
        Some(self.free.remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEED: Need = Need {
        bytes: 100,
        marks: 10,
        exits: 10,
    };

    fn place(n: u32) -> CachePlace {
        CachePlace {
            hot: 10_000 + 300 * n,
            cold: 90_000 - 200 * n,
            frags: 10 * n,
            marks: 50 * n,
            exits: 40 * n,
        }
    }

    fn extent(from: u32, to: u32) -> Extent {
        let (from, to) = (place(from), place(to));
        Extent { from, to }
    }

    /// Units between these places, ten fragments for each step.
    fn filled(ends: &[u32]) -> Units {
        let mut units = Units::new(64 << 10, 100);
        for pair in ends.windows(2) {
            units.open(place(pair[0]), None);
            (10 * pair[0]..10 * pair[1]).for_each(|_| units.made());
            units.close(place(pair[1]), NEED);
        }
        units
    }

    #[test]
    fn a_unit_ends_with_its_size_or_its_extent() {
        let mut units = Units::new(64 << 10, 100);
        assert!(!units.has_room(place(0), NEED));
        units.open(place(0), None);
        // 500 bytes a step, and units of 1024.
        assert!(units.has_room(place(2), NEED) && !units.has_room(place(3), NEED));
        units.close(place(3), NEED);
        units.open(place(0), Some(place(1)));
        assert!(units.has_room(place(0), NEED) && !units.has_room(place(1), NEED));
    }

    #[test]
    fn mostly_dead_units_are_retired() {
        let mut units = filled(&[0, 1, 2, 3]);
        (0..7).chain(10..20).for_each(|id| units.killed(id));
        assert!(!units.ask());
        units.killed(7);
        assert!(units.ask());
        let first = units.take_retired().expect("eight of ten are dead");
        assert_eq!(first.extent, extent(0, 1));
        assert!(!units.ask());
        assert_eq!(
            units.take_retired().expect("all are dead").extent,
            extent(1, 2)
        );
        assert!(units.take_retired().is_none());
        assert_eq!(units.take_oldest().expect("the last").extent, extent(2, 3));
        assert!(units.take_oldest().is_none());
    }

    #[test]
    fn neighbours_become_one_and_are_filled_in_parts() {
        let mut units = filled(&[0, 1, 2, 3, 4]);
        for at in [1, 3, 2] {
            units.release(extent(at, at + 1));
        }
        let whole = units.take_free(NEED).expect("free");
        assert_eq!(whole, extent(1, 4));
        assert!(!units.has_free(NEED));
        units.open(whole.from, Some(whole.to));
        units.made();
        units.close(place(2), NEED);
        assert_eq!(units.take_free(NEED), Some(extent(2, 4)));
        // Nothing was made: all of it stays free.
        units.open(place(2), Some(place(4)));
        units.close(place(2), NEED);
        assert_eq!(units.take_free(NEED), Some(extent(2, 4)));
    }

    #[test]
    fn the_oldest_is_the_one_filled_first() {
        let mut units = filled(&[0, 1, 2]);
        let oldest = units.take_oldest().expect("two").extent;
        units.release(oldest);
        let again = units.take_free(NEED).expect("free");
        units.open(again.from, Some(again.to));
        units.made();
        units.close(again.to, NEED);
        assert_eq!(units.take_oldest().expect("two").extent, extent(1, 2));
        assert_eq!(units.bytes(), 500);
    }
}
