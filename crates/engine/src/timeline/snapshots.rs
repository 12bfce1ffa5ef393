//! The choice of snapshots: dense near the present, sparse far away, within a bound of
//! memory. Distances are measured in work (`ReplayStatus::work`), which is the same in every replay.
//! Right before the present a few stand closer than the least distance, for steps backwards: each
//! such step costs the replay from the nearest snapshot to the present.
//!
//! A snapshot is not free: the replay that goes on from it copies every page that it writes. In
//! a program that writes all of a large memory again and again that takes longer than its own
//! work, so distances grow with the cost of a snapshot. Nothing here may change the course of a
//! replay, only the time that it takes to get somewhere.

use super::replay_process::ReplayProcess;
use crate::guide::protocol::ReplayStatus;

/// Of the distance to the present, the part that two neighbours may be apart.
const SPARSENESS: u64 = 8;
/// The same where a snapshot costs more than the least distance is long.
const SPARSENESS_DEAR: u64 = 2;
/// Closer to the present than the least distance, each one is so many times as close as the last.
const NEARER: u64 = 4;
/// A snapshot closer than this part of the least distance is close enough.
const NEAREST: u64 = 8;
/// On the way to an unknown end, the part of the whole way that two neighbours may be apart.
const UNKNOWN: u64 = 16;
/// Most snapshots, however much memory there is.
const MOST: usize = 64;
/// Going forward, the work between two snapshots is at least so many times the cost of one.
const WORTH: u64 = 2;
/// Memory is looked at after so many new snapshots, if much was copied meanwhile.
const LOOK: u32 = 8;
/// And after so many in any case.
const LOOK_ANYHOW: u32 = 64;
/// "Much": this part of the bound.
const MUCH: u64 = 16;

/// Something stopped that holds memory.
pub trait Holds {
    /// Bytes that it uses (its part of shared ones).
    fn memory(&self) -> u64;
}

impl Holds for ReplayProcess {
    fn memory(&self) -> u64 {
        Self::memory(self)
    }
}

/// A stopped copy of the replay.
pub struct Snapshot<H = ReplayProcess> {
    /// Where it is.
    pub status: ReplayStatus,
    /// The process.
    pub host: H,
}

/// All snapshots of a timeline, in order of work. The first one, at the start, always stays.
pub struct Snapshots<H = ReplayProcess> {
    all: Vec<Snapshot<H>>,
    /// Least work between two neighbours.
    gap: u64,
    /// Work that could be done in the time that one more snapshot takes.
    cost: u64,
    /// Bytes that all of them may use.
    bound: u64,
    /// Snapshots, and bytes that were copied because of them, since memory was looked at.
    since_look: (u32, u64),
}

impl<H: Holds> Snapshots<H> {
    /// With the snapshot at the start.
    #[must_use]
    pub fn new(start: Snapshot<H>, gap: u64, bound: u64) -> Self {
        Self {
            all: vec![start],
            gap,
            cost: 0,
            bound,
            since_look: (0, 0),
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Snapshot<H>> {
        self.all.iter()
    }

    /// The last one of which `good` says so.
    pub fn last_where(&mut self, good: impl Fn(&ReplayStatus) -> bool) -> Option<&mut Snapshot<H>> {
        self.all.iter_mut().rev().find(|s| good(&s.status))
    }

    /// The one at the start.
    pub fn first(&mut self) -> &mut Snapshot<H> {
        &mut self.all[0]
    }

    /// Changes the least distance: it should be some tens of milliseconds of work.
    pub fn set_gap(&mut self, gap: u64) {
        self.gap = gap.max(1);
    }

    /// Notes the cost of a snapshot behind which so much work was done: as much time as `cost`,
    /// and so many bytes copied.
    pub fn set_cost(&mut self, done: u64, cost: u64, copied: u64) {
        // Behind a snapshot that stands close to the next less is copied than behind others.
        if done >= self.gap {
            self.cost = cost;
        }
        self.since_look.1 += copied;
    }

    /// From a replay at `work` on its way to `present`: how much work until the next snapshot.
    /// Without a known end they are not dense anywhere: they become so when the timeline goes
    /// back. `taken` is the work at this way's last snapshot: it counts even if that one was
    /// dropped at once, or one would be due again at every step.
    #[must_use]
    pub fn due(&self, work: u64, taken: Option<u64>, present: Option<u64>) -> u64 {
        let before = self.all.iter().rev().find(|s| s.status.work <= work);
        let last = before.map_or(0, |s| s.status.work).max(taken.unwrap_or(0));
        let distance = match present {
            Some(present) => self.distance(last, present.max(work)),
            None => self
                .gap
                .max(work / UNKNOWN)
                .max(self.cost.saturating_mul(WORTH)),
        };
        (last + distance).saturating_sub(work)
    }

    /// How far apart neighbours may be at `work`.
    fn distance(&self, work: u64, present: u64) -> u64 {
        let part = match self.cost > self.gap {
            true => SPARSENESS_DEAR,
            false => SPARSENESS,
        };
        let away = present.abs_diff(work);
        match away <= self.gap {
            true => (away - away / NEARER).max(self.gap / NEAREST).max(1),
            false => (away / part).max(self.gap),
        }
    }

    /// Adds one, and drops those that are too many now, seen from `present`.
    pub fn add(&mut self, new: Snapshot<H>, present: u64) {
        let at = self
            .all
            .partition_point(|s| s.status.work <= new.status.work);
        if at > 0 && self.all[at - 1].status.point == new.status.point {
            return;
        }
        self.all.insert(at, new);
        self.thin(present, 1);
        let mut factor = 2;
        while self.all.len() > MOST && factor < 1 << 20 {
            self.thin(present, factor);
            factor *= 2;
        }
        self.since_look.0 += 1;
        let (new, copied) = self.since_look;
        // To look at the memory of a large process takes long.
        if new >= LOOK && copied >= self.bound / MUCH || new >= LOOK_ANYHOW {
            self.since_look = (0, 0);
            let mut factor = 2;
            while self.memory() > self.bound && self.all.len() > 2 && factor < 1 << 20 {
                self.thin(present, factor);
                factor *= 2;
            }
        }
    }

    /// Drops snapshots that are closer to their neighbours than they need be. The first stays.
    fn thin(&mut self, present: u64, factor: u64) {
        let mut i = 1;
        while i + 1 < self.all.len() {
            let work = self.all[i].status.work;
            let gap = self.all[i + 1].status.work - self.all[i - 1].status.work;
            if gap <= self.distance(work, present).saturating_mul(factor) {
                self.all.remove(i);
            } else {
                i += 1;
            }
        }
    }

    /// Bytes that all of them use.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.all.iter().map(|s| s.host.memory()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide::point::{Point, Steps};

    /// So many bytes.
    struct Bytes(u64);

    impl Holds for Bytes {
        fn memory(&self) -> u64 {
            self.0
        }
    }

    fn at(work: u64, bytes: u64) -> Snapshot<Bytes> {
        let point = Point {
            event: work,
            turn: 0,
            ticks: 0,
            steps: Steps::ZERO,
        };
        let status = ReplayStatus {
            point,
            slot: 0,
            thread: 0,
            tid: 0,
            process: 0,
            pid: 0,
            pc: 0,
            work,
            ended: None,
        };
        Snapshot {
            status,
            host: Bytes(bytes),
        }
    }

    /// Goes along to `end` as a timeline does; how many snapshots it took on the way.
    fn travel(all: &mut Snapshots<Bytes>, from: u64, end: u64, present: Option<u64>) -> u64 {
        let (mut work, mut last, mut taken) = (from, None, 0);
        loop {
            let due = all.due(work, last, present);
            assert!(due > 0 || last.is_none(), "one is due right behind another");
            work += due.max(1);
            if work >= end {
                return taken;
            }
            all.add(at(work, 1), present.unwrap_or(work));
            last = Some(work);
            taken += 1;
        }
    }

    /// Goes to `to`, from the nearest one before it; how much work that is.
    fn visit(all: &mut Snapshots<Bytes>, to: u64) -> u64 {
        let from = all.last_where(|s| s.work <= to).unwrap().status.work;
        travel(all, from, to, Some(to));
        to - from
    }

    fn works(all: &Snapshots<Bytes>) -> Vec<u64> {
        all.iter().map(|s| s.status.work).collect()
    }

    #[test]
    fn they_are_dense_near_the_present_and_sparse_far_away() {
        let mut all = Snapshots::new(at(0, 1), 100, u64::MAX);
        travel(&mut all, 0, 1_000_000, Some(1_000_000));
        let works = works(&all);
        assert_eq!(works[0], 0);
        for pair in works.windows(2) {
            // Two neighbours are further apart the further away they are, and never too far.
            let away = 1_000_000 - pair[0];
            assert!(
                pair[1] - pair[0] <= (away / SPARSENESS).max(100),
                "{pair:?}"
            );
        }
        let last = *works.last().unwrap();
        assert!(1_000_000 - last <= 200, "{last}");
        assert!(works.len() <= MOST, "{}", works.len());
    }

    #[test]
    fn there_are_never_many_and_the_first_one_stays() {
        let mut all = Snapshots::new(at(0, 1), 1, u64::MAX);
        for work in 1..10_000 {
            all.add(at(work, 1), 10_000);
            assert!(all.all.len() <= MOST);
        }
        assert_eq!(works(&all)[0], 0);
        // A timeline that moves on leaves the old present behind.
        travel(&mut all, 10_000, 1_000_000, None);
        let works = works(&all);
        assert!(works.windows(2).all(|w| w[0] < w[1]));
        assert!(
            works.iter().filter(|w| **w < 20_000).count() < 8,
            "{works:?}"
        );
    }

    #[test]
    fn memory_stays_within_the_bound() {
        let mut all = Snapshots::new(at(0, 10), 1, 1000);
        for work in 1..2_000 {
            all.set_cost(1, 0, 100);
            all.add(at(work, 100), 2_000);
        }
        // Between two looks there may be some more.
        assert!(
            all.memory() <= 1000 + 100 * u64::from(LOOK),
            "{}",
            all.memory()
        );
        assert_eq!(works(&all)[0], 0);
    }

    #[test]
    fn dear_ones_are_fewer() {
        let taken = |cost| {
            let mut all = Snapshots::new(at(0, 1), 100, u64::MAX);
            all.set_cost(100, cost, 0);
            let forward = travel(&mut all, 0, 100_000, None);
            let mut all = Snapshots::new(at(0, 1), 100, u64::MAX);
            all.set_cost(100, cost, 0);
            (forward, travel(&mut all, 0, 100_000, Some(100_000)))
        };
        let (cheap, dear) = (taken(10), taken(10_000));
        assert!(dear.0 <= 100_000 / (WORTH * 10_000), "{dear:?}");
        assert!(
            dear.0 < cheap.0 && 3 * dear.1 < cheap.1,
            "{cheap:?} {dear:?}"
        );
    }

    #[test]
    fn small_steps_back_cost_little_each() {
        // Also where one was left right ahead, as the debugger does wherever it stops.
        for ahead in [None, Some(1_000_010)] {
            let mut all = Snapshots::new(at(0, 1), 10_000, u64::MAX);
            travel(&mut all, 0, 1_000_000, None);
            if let Some(work) = ahead {
                all.add(at(work, 1), work);
            }
            visit(&mut all, 1_000_000);
            let ways: Vec<u64> = (1..20_000)
                .map(|n| visit(&mut all, 1_000_000 - n))
                .collect();
            let far = ways.iter().filter(|w| **w > 10_000 / NEAREST).count();
            assert!(far < 50, "{far}: {ways:?}");
        }
    }

    #[test]
    fn none_is_due_again_where_one_was_dropped_at_once() {
        // The way back in stretches, each with a later one behind it, while memory is short.
        let mut all = Snapshots::new(at(0, 100), 100, 1);
        let mut end = 1_000_000;
        travel(&mut all, 0, end, None);
        while end > 0 {
            all.set_cost(100, 0, LOOK_ANYHOW.into());
            let from = all.last_where(|s| s.work < end).unwrap().status.work;
            travel(&mut all, from, end, Some(1_000_000));
            end = from;
        }
    }

    #[test]
    fn one_place_needs_one() {
        let mut all = Snapshots::new(at(0, 1), 1, u64::MAX);
        all.add(at(5000, 1), 5000);
        all.add(at(5000, 1), 5000);
        assert_eq!(works(&all), [0, 5000]);
    }
}
