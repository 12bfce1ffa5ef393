//! The memory map as plain data that can be written and read back. A map that is read may come from a
//! stranger: one that cannot exist is rejected.

use relive_host::layout;
use serde::{Deserialize, Serialize};

use super::{AddressSpace, EXEC, PAGE, READ, Region, WRITE};

/// A memory map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceState {
    /// All regions, in the order of addresses.
    pub regions: Vec<Region>,
    /// Where the next low and the next high map are looked for.
    next: (u64, u64),
    brk: (u64, u64),
    dropped: Vec<u64>,
}

impl AddressSpace {
    /// The description of the map.
    #[must_use]
    pub fn capture(&self) -> SpaceState {
        SpaceState {
            regions: self.iter().cloned().collect(),
            next: (self.next_low, self.next_high),
            brk: self.brk,
            dropped: self.dropped.clone(),
        }
    }

    /// The map that is described; `None`: there can be none like that.
    #[must_use]
    pub fn restore(state: &SpaceState) -> Option<Self> {
        let regions = &state.regions;
        let in_order = regions.windows(2).all(|two| two[0].end <= two[1].start);
        // Requests of the guest never make an address of the map larger than this.
        let bounded = |at: u64| at <= layout::FS_END;
        let small = [state.next.0, state.next.1, state.brk.0, state.brk.1];
        if !in_order || !regions.iter().all(Region::is_possible) || !small.into_iter().all(bounded)
        {
            return None;
        }
        Some(Self {
            regions: regions.iter().map(|r| (r.start, r.clone())).collect(),
            next_low: state.next.0,
            next_high: state.next.1,
            brk: state.brk,
            dropped: state.dropped.clone(),
            shared_code: regions.iter().any(super::is_shared_code),
        })
    }
}

impl SpaceState {
    /// The same without what only a recording needs: where it looks for room.
    #[must_use]
    pub fn without_hints(&self) -> Self {
        Self {
            next: (0, 0),
            ..self.clone()
        }
    }
}

impl Region {
    fn is_possible(&self) -> bool {
        let whole = |at: u64| at.is_multiple_of(PAGE);
        let last = self.end.checked_sub(self.start);
        let reach = last.and_then(|len| self.offset.checked_add(len));
        layout::guest_may_map_range(self.start, self.end)
            && whole(self.start)
            && whole(self.end)
            && whole(self.offset)
            && reach.is_some_and(|end| end < 1 << 63)
            && self.prot & !(READ | WRITE | EXEC) == 0
            && !(self.copy.is_some() && self.shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{from_bytes, to_bytes};
    use crate::space::RegionTraits;

    fn space() -> AddressSpace {
        let mut space = AddressSpace::new();
        for (len, low) in [(3, true), (1, false), (9, true)] {
            let start = space.find_free(len * PAGE, low).expect("there is room");
            space.insert(Region {
                start,
                end: start + len * PAGE,
                prot: READ,
                shared: false,
                common: false,
                name: "/lib/x".into(),
                offset: PAGE,
                inode: 7,
                copy: Some(relive_trace::FileId([3; 32])),
                traits: RegionTraits::default(),
            });
        }
        space.brk = (0x1000, 0x2fff);
        space
    }

    #[test]
    fn a_map_comes_back_and_goes_on() {
        let mut space = space();
        let bytes = to_bytes(&space.capture());
        let state: SpaceState = from_bytes(&bytes).expect("it is one");
        let mut again = AddressSpace::restore(&state).expect("it can be");
        assert_eq!(again.capture(), space.capture());
        for low in [true, false] {
            assert_eq!(again.find_free(PAGE, low), space.find_free(PAGE, low));
        }
    }

    #[test]
    fn a_map_that_could_not_be_is_none() {
        let good = space().capture();
        let bad: [fn(&mut SpaceState); 8] = [
            |s| s.regions[0].start = 0,
            |s| s.regions[0].end = s.regions[1].end,
            |s| s.regions[1].start += 1,
            |s| s.regions[1].end = s.regions[1].start,
            |s| s.regions[2].prot = 8,
            |s| s.regions[2].offset = u64::MAX - PAGE + 1,
            |s| s.regions.swap(0, 1),
            |s| s.brk.1 = u64::MAX,
        ];
        for (i, change) in bad.iter().enumerate() {
            let mut state = good.clone();
            change(&mut state);
            assert!(AddressSpace::restore(&state).is_none(), "{i}");
        }
    }
}
