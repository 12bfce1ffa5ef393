//! The beginning of an *excerpt*: a recording that does not begin with its program, but with session images
//! of the processes that there were. It says which images those are, and where on the tapes of the whole
//! recording the tapes of this one begin, so that events keep their numbers. It must never be taken as it is
//! read: a wrong one would be a replay from another place.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::event::TapeId;
use crate::tape::TapeMark;

/// More than any recording counts: sums of it and of the content of files fit 64 bits.
const MOST: u64 = 1 << 62;

/// The beginning of an excerpt, as the manifest has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// The number that its images have in common with their pages.
    pub images: u64,
    /// Number that the first output of it has in the order of outputs.
    pub order: u64,
    /// The processes that there were, by their index.
    pub processes: Vec<BeginProcess>,
    /// Where the tapes of their threads go on, in order.
    pub tapes: Vec<BeginTape>,
    /// The tapes end where they were cut, and not with the program.
    #[serde(default)]
    pub cut: bool,
    /// Outputs that are not there, though later ones are: of processes that were at other places of the order when
    /// theirs began. Each from a number up to, and without, another one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<(u64, u64)>,
    /// Offset of the first byte of input: those before are not there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub input: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A process of which an excerpt begins with an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginProcess {
    /// Its index in the recording.
    pub process: u32,
    /// Work up to its image, by which that is named.
    pub work: u64,
    /// Events of the process up to its image.
    pub event: u64,
    /// Its threads have indexes below this one; those above began later.
    pub threads: u32,
}

/// Where a tape begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginTape {
    /// Index of the process.
    pub process: u32,
    /// Index of the thread, as in chunks.
    pub thread: u32,
    /// Bytes of events before, in the whole recording.
    pub offset: u64,
    /// Events before.
    pub event: u64,
    /// Ticks of the event before.
    pub ticks: u64,
}

impl BeginTape {
    /// Where this tape begins, if its reader stood there.
    #[must_use]
    pub fn new(id: TapeId, mark: TapeMark) -> Self {
        Self {
            process: id.process,
            thread: id.thread,
            offset: mark.offset,
            event: mark.event,
            ticks: mark.ticks,
        }
    }

    /// Which tape.
    #[must_use]
    pub fn id(&self) -> TapeId {
        TapeId::new(self.process, self.thread)
    }

    /// The position of its first event.
    #[must_use]
    pub fn mark(&self) -> TapeMark {
        TapeMark {
            offset: self.offset,
            event: self.event,
            ticks: self.ticks,
        }
    }
}

impl Excerpt {
    /// The process of that index, if the excerpt begins with an image of it.
    #[must_use]
    pub fn process(&self, index: u32) -> Option<&BeginProcess> {
        self.processes.iter().find(|p| p.process == index)
    }

    /// The same beginning on tapes of their own, which do not go on from others; each of its processes has a schedule there.
    #[must_use]
    pub fn on_own_tapes(mut self) -> Self {
        let schedules = self.processes.iter().map(|p| TapeId::schedule(p.process));
        let threads = self.tapes.iter().map(BeginTape::id);
        let mut ids: Vec<TapeId> = threads.chain(schedules).collect();
        ids.sort_unstable();
        ids.dedup();
        self.tapes = ids
            .into_iter()
            .map(|id| BeginTape::new(id, TapeMark::default()))
            .collect();
        self
    }

    /// The number of the first output from this one on that is not in a gap.
    #[must_use]
    pub fn output_from(&self, order: u64) -> u64 {
        let behind = self.gaps.partition_point(|(_, to)| *to <= order);
        match self.gaps.get(behind) {
            Some((from, to)) if *from <= order => *to,
            _ => order,
        }
    }

    /// The tapes that go on, and where.
    pub(crate) fn bases(&self) -> BTreeMap<TapeId, TapeMark> {
        self.tapes.iter().map(|t| (t.id(), t.mark())).collect()
    }

    /// Whether a recording could begin so; if not, why.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let processes: Vec<u32> = self.processes.iter().map(|p| p.process).collect();
        if processes.is_empty() {
            return Err("an excerpt without processes");
        }
        let tapes: Vec<TapeId> = self.tapes.iter().map(BeginTape::id).collect();
        let (once, also) = (
            processes.is_sorted_by(|a, b| a < b),
            tapes.is_sorted_by(|a, b| a < b),
        );
        if !once || !also {
            return Err("an excerpt whose processes or tapes are in no order");
        }
        let owned = |t: &TapeId| {
            let of = self.process(t.process);
            of.is_some_and(|p| t.is_schedule() || t.thread < p.threads)
        };
        if !tapes.iter().all(owned) {
            return Err("an excerpt with a tape of no thread");
        }
        let ends = self.gaps.iter().flat_map(|(from, to)| [*from, *to]);
        let gaps: Vec<u64> = [self.order].into_iter().chain(ends).collect();
        if !gaps.is_sorted_by(|a, b| a < b) {
            return Err("an excerpt whose missing outputs are in no order");
        }
        let counted = self.tapes.iter().flat_map(|t| [t.offset, t.event]);
        let named = self.processes.iter().flat_map(|p| [p.work, p.event]);
        match counted
            .chain(named)
            .chain(gaps)
            .chain([self.input])
            .all(|n| n < MOST)
        {
            true => Ok(()),
            false => Err("an excerpt that begins behind any recording"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt() -> Excerpt {
        let tape =
            |process, thread| BeginTape::new(TapeId::new(process, thread), TapeMark::default());
        let process = |process| BeginProcess {
            process,
            work: 3,
            event: 2,
            threads: 2,
        };
        Excerpt {
            images: 7,
            order: 1,
            processes: vec![process(1), process(4)],
            tapes: vec![tape(1, 0), tape(1, TapeId::SCHEDULE), tape(4, 1)],
            cut: true,
            gaps: vec![(2, 4), (7, 8)],
            input: 512,
        }
    }

    #[test]
    fn an_output_that_is_not_there_is_passed() {
        let next: Vec<u64> = (1..10).map(|order| excerpt().output_from(order)).collect();
        assert_eq!(next, [1, 4, 4, 4, 5, 6, 8, 8, 9]);
    }

    #[test]
    fn one_that_could_not_be_is_refused() {
        assert_eq!(excerpt().check(), Ok(()));
        for change in [
            |e: &mut Excerpt| e.processes.clear(),
            |e: &mut Excerpt| e.processes.swap(0, 1),
            |e: &mut Excerpt| e.processes[1] = e.processes[0],
            |e: &mut Excerpt| e.tapes.swap(0, 2),
            |e: &mut Excerpt| e.tapes[1] = e.tapes[0],
            |e: &mut Excerpt| e.tapes[0].process = 0,
            |e: &mut Excerpt| e.tapes[2].thread = 2,
            |e: &mut Excerpt| e.tapes[2].offset = 1 << 62,
            |e: &mut Excerpt| e.tapes[2].event = u64::MAX,
            |e: &mut Excerpt| e.processes[0].work = 1 << 62,
            |e: &mut Excerpt| e.order = u64::MAX,
            |e: &mut Excerpt| e.order = 2,
            |e: &mut Excerpt| e.input = 1 << 62,
            |e: &mut Excerpt| e.gaps.swap(0, 1),
            |e: &mut Excerpt| e.gaps[0].1 = 2,
            |e: &mut Excerpt| e.gaps[1] = (4, 8),
            |e: &mut Excerpt| e.gaps[1].1 = 1 << 62,
        ] {
            let mut bad = excerpt();
            change(&mut bad);
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
