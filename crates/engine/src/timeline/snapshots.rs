//! Which snapshots are kept: dense near the present, sparse far away, within a bound of
//! memory. Distances are measured in work (`Status::work`), which is the same in every replay.

use super::host::Host;
use super::protocol::Status;

/// Of the distance to the present, the part that two neighbours may be apart.
const SPARSENESS: u64 = 8;
/// On the way to an unknown end, the part of the whole way that two neighbours may be apart.
const UNKNOWN: u64 = 16;
/// Most snapshots, whatever memory there is.
const MOST: usize = 64;
/// How often memory is looked at, in new snapshots.
const LOOK: u32 = 8;

/// A stopped copy of the replay.
pub struct Snapshot {
    /// Where it is.
    pub status: Status,
    /// The process.
    pub host: Host,
}

/// All snapshots of a timeline, in order of work. The first one, at the start, always stays.
pub struct Snapshots {
    all: Vec<Snapshot>,
    /// Least work between two neighbours.
    gap: u64,
    /// Bytes that all of them may use.
    bound: u64,
    since_look: u32,
}

impl Snapshots {
    /// With the snapshot at the start.
    #[must_use]
    pub fn new(start: Snapshot, gap: u64, bound: u64) -> Self {
        Self {
            all: vec![start],
            gap,
            bound,
            since_look: 0,
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Snapshot> {
        self.all.iter()
    }

    /// The last one of which `good` says so.
    pub fn last_where(&mut self, good: impl Fn(&Status) -> bool) -> Option<&mut Snapshot> {
        self.all.iter_mut().rev().find(|s| good(&s.status))
    }

    /// The one at the start.
    pub fn first(&mut self) -> &mut Snapshot {
        &mut self.all[0]
    }

    /// Changes the least distance: it should be some tens of milliseconds of work.
    pub fn set_gap(&mut self, gap: u64) {
        self.gap = gap.max(1);
    }

    /// From a replay at `work` on its way to `present`: how much work until the next snapshot.
    /// Where nobody knows how far it goes, they are not dense anywhere: they become so when
    /// somebody goes back.
    #[must_use]
    pub fn due(&self, work: u64, present: Option<u64>) -> u64 {
        let before = self.all.iter().rev().find(|s| s.status.work <= work);
        let last = before.map_or(0, |s| s.status.work);
        let distance = match present {
            Some(present) => self.distance(last, present.max(work)),
            None => self.gap.max(work / UNKNOWN),
        };
        (last + distance).saturating_sub(work)
    }

    /// How far apart neighbours may be at `work`.
    fn distance(&self, work: u64, present: u64) -> u64 {
        (present.abs_diff(work) / SPARSENESS).max(self.gap)
    }

    /// Adds one, and drops those that are too many now, seen from `present`.
    pub fn add(&mut self, new: Snapshot, present: u64) {
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
        self.since_look += 1;
        if self.since_look >= LOOK {
            self.since_look = 0;
            let mut factor = 2;
            while self.memory() > self.bound && self.all.len() > 2 && factor < 1 << 20 {
                self.thin(present, factor);
                factor *= 2;
            }
        }
    }

    /// Drops what is closer to its neighbours than it need be. The first stays.
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
