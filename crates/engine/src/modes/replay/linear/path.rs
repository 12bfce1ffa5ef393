//! The path of a recorded thread as its tape tells it: its moments, and its operations that follow those of
//! others. Must never run anything.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use relive_trace::{ImageReader, ImageSet, Kind, TapeReader, Trace};

use crate::course::{Clock, Note};
use crate::failure::{Failure, Result};
use crate::session_state::{SessionState, ThreadState};

/// The threads of the recorded processes, by index of the process and of the thread.
pub type Paths = BTreeMap<u32, BTreeMap<u32, Path>>;

/// The path of a thread.
#[derive(Default)]
pub struct Path {
    /// Tick, begin and end of each moment.
    moments: Vec<(u64, u64, u64)>,
    /// Moments before, number and tick of each operation that follows one of another thread.
    operations: Vec<(u64, u64, u64)>,
    /// Moments before each event that follows an operation of another thread, and that thread.
    follows: Vec<(u64, u32)>,
}

/// The way of a thread between two moments: ticks, and when it was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    pub from: (u64, u64),
    pub until: (u64, u64),
}

impl Path {
    /// The path of a tape, before whose first entry the thread is, up to the first moment behind so many entries.
    ///
    /// # Errors
    /// The tape is damaged.
    fn of(mut tape: TapeReader, mut clock: Clock, entries: u64) -> Result<Self> {
        let mut path = Self::default();
        loop {
            let is_behind = tape.position() >= entries;
            let Some(event) = tape.next().map_err(Failure::setup)? else {
                break;
            };
            if is_behind && matches!(event.kind, Kind::Moment { .. }) {
                break;
            }
            match clock.read(event.ticks, &event.kind) {
                Some(Note::Moment {
                    ticks, begin, end, ..
                }) => path.moments.push((ticks, begin, end)),
                Some(Note::Edge {
                    at, event: false, ..
                }) => path
                    .operations
                    .push((path.moments.len() as u64, at, event.ticks)),
                Some(Note::Edge {
                    event: true,
                    thread,
                    ..
                }) => path.follows.push((path.moments.len() as u64, thread)),
                _ => {}
            }
        }
        Ok(path)
    }

    /// A path with these moments.
    #[cfg(test)]
    pub fn with(moments: impl Iterator<Item = (u64, u64, u64)>) -> Self {
        Self {
            moments: moments.collect(),
            ..Self::default()
        }
    }

    /// The way behind so many moments.
    pub fn way(&self, moments: u64) -> Way {
        let before = moments.checked_sub(1).and_then(|i| self.get(i));
        let from = before.map_or((0, 0), |&(tick, _, end)| (tick, end));
        let until = self
            .get(moments)
            .map_or(from, |&(tick, begin, _)| (tick, begin));
        Way { from, until }
    }

    fn get(&self, at: u64) -> Option<&(u64, u64, u64)> {
        self.moments.get(usize::try_from(at).ok()?)
    }

    /// How many moments the thread has behind it at a tick.
    pub fn at_tick(&self, tick: u64) -> u64 {
        self.moments.partition_point(|&(at, ..)| at <= tick) as u64
    }

    /// How many moments the thread had behind it at this moment.
    pub fn passed(&self, moment: u64) -> u64 {
        self.moments.partition_point(|&(_, _, end)| end <= moment) as u64
    }

    /// The last ways, at most `far`, up to the one behind so many moments on which the thread stayed at one tick: at most
    /// `count`, each as the moments before it and its tick. Those on which an event of one of the `others` ended come first,
    /// the last one of them before all; then the longest.
    pub fn lost<'a>(
        &self,
        moments: u64,
        far: u64,
        count: usize,
        others: impl Iterator<Item = &'a Self> + Clone,
    ) -> impl Iterator<Item = (u64, u64)> {
        let ways = (moments.saturating_sub(far)..=moments).map(|m| (m, self.way(m)));
        let mut still: Vec<(u64, Way)> = ways
            .filter(|(_, way)| way.from.0 == way.until.0 && way.from.1 < way.until.1)
            .collect();
        still.sort_by_key(|&(m, way)| {
            let (from, until) = (way.from.1, way.until.1);
            let met = others.clone().any(|path| path.ended(from, until));
            Reverse((met, if met { m } else { until - from }))
        });
        still.truncate(count);
        still.into_iter().map(|(m, way)| (m, way.from.0))
    }

    /// Whether an event of the thread that took its time ended between two moments.
    fn ended(&self, from: u64, until: u64) -> bool {
        let first = self.passed(from) as usize;
        let later = self.moments[first..].iter();
        later
            .take_while(|(_, begin, _)| *begin <= until)
            .any(|&(_, begin, end)| begin < end && (from..=until).contains(&end))
    }

    /// The event that the thread was in at this moment, by the number of moments behind it: one or, if the
    /// thread said that it had come to it, two.
    pub fn events_at(&self, moment: u64) -> Vec<u64> {
        let passed = self.passed(moment);
        match self.get(passed) {
            Some(&(_, begin, _)) if begin <= moment => self.event(passed, begin),
            _ => Vec::new(),
        }
    }

    /// The event of this moment, which began then, by the numbers of moments that may be behind the thread at it.
    fn event(&self, at: u64, begin: u64) -> Vec<u64> {
        let before = at.checked_sub(1);
        let arrived = before.filter(|&i| self.get(i).is_some_and(|m| m.1 == begin));
        arrived.into_iter().chain([at]).collect()
    }

    /// The thread that the event behind so many moments follows, and when this thread came to that event.
    pub fn followed(&self, moments: u64) -> Option<(u32, u64)> {
        let found = self.follows.binary_search_by_key(&moments, |&(m, _)| m);
        let (_, thread) = self.follows[found.ok()?];
        Some((thread, self.get(moments)?.1))
    }

    /// The thread's last event, by the number of moments behind it as in [`Self::events_at`], and when that began.
    pub fn last_event(&self) -> Option<(Vec<u64>, u64)> {
        let (_, begin, _) = *self.moments.last()?;
        Some((self.event(self.moments.len() as u64 - 1, begin), begin))
    }

    /// Number and tick of the last operations that follow those of others, before a disagreement behind so many
    /// moments: at most `count`, up to number `last`, which the thread makes next, behind the same moments. That one is
    /// meant even if the thread was seen at a tick again before it. The last one comes first.
    pub fn operations(&self, moments: u64, last: u64, count: usize) -> Vec<(u64, u64)> {
        let end = self
            .operations
            .partition_point(|&(m, at, _)| m <= moments && at <= last);
        let before = self.operations[..end].iter().rev();
        let here = before.take_while(|&&(m, at, _)| m == moments || at == last);
        here.take(count).map(|&(_, at, tick)| (at, tick)).collect()
    }

    /// Number and tick of the last operations that follow those of others, at most `count` before the one of this
    /// number. The last one comes first.
    pub fn operations_before(&self, number: u64, count: usize) -> Vec<(u64, u64)> {
        let end = self.operations.partition_point(|&(_, at, _)| at < number);
        let before = self.operations[..end].iter().rev();
        before
            .take(count)
            .map(|&(_, at, tick)| (at, tick))
            .collect()
    }
}

/// The paths of the threads of one process: from their places in the session image with which its epoch begins, if there is one, to those
/// in the one with which that ends.
///
/// # Errors
/// A tape is damaged.
pub fn read(
    trace: &Trace,
    process: u32,
    (begin, end): (Option<&SessionState>, Option<&SessionState>),
) -> Result<BTreeMap<u32, Path>> {
    let place = |state: &SessionState, thread: u32| {
        let found = state.threads.iter().find(|t| t.task.index == thread)?;
        found.tape.clone()
    };
    let mut threads = BTreeMap::new();
    let clocks = clocks(trace, process)?;
    for tape in trace.tapes() {
        let id = tape.id;
        if id.process != process || id.is_schedule() {
            continue;
        }
        let from = begin.and_then(|state| place(state, id.thread));
        let until = end.and_then(|state| place(state, id.thread));
        let born_before = |state: &SessionState| id.thread < state.process.next_thread;
        let is_over = from.is_none() && begin.is_some_and(born_before);
        let is_later = until.is_none() && end.is_some_and(|state| !born_before(state));
        if is_over || is_later {
            continue;
        }
        let (reader, clock) = match &from {
            Some(at) => (trace.tape_at(id, &at.mark), Clock::at(at.order.clock)),
            None => {
                let clock = clocks.get(&id.thread).copied();
                (trace.tape(id), clock.unwrap_or_default())
            }
        };
        let reader = reader.map_err(Failure::setup)?;
        let entries = until.map_or(u64::MAX, |at| at.mark.event);
        threads.insert(id.thread, Path::of(reader, clock, entries)?);
    }
    Ok(threads)
}

/// The clocks of threads with which an excerpt begins, by their index: from its image of the process.
fn clocks(trace: &Trace, process: u32) -> Result<BTreeMap<u32, Clock>> {
    let excerpt = trace.manifest().excerpt.as_ref();
    let Some(begin) = excerpt.and_then(|excerpt| excerpt.process(process)) else {
        return Ok(BTreeMap::new());
    };
    let image = ImageReader::open(trace.directory(), ImageSet::Begin, process, begin.work);
    let image = image.map_err(Failure::setup)?;
    let state = SessionState::of(&image).map_err(|e| e.failure(ImageSet::Begin))?;
    let clock = |thread: &ThreadState| {
        let tape = thread.tape.as_ref()?;
        Some((thread.task.index, Clock::at(tape.order.clock)))
    };
    Ok(state.threads.iter().filter_map(clock).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_lost_where_others_went_on_or_it_stayed_for_longest() {
        let moments = [
            (1, 10, 10),
            (5, 20, 20),
            (5, 90, 90),
            (6, 100, 100),
            (6, 105, 105),
            (6, 140, 140),
        ];
        let path = Path::with(moments.into_iter());
        let other = Path::with([(3, 95, 102), (4, 103, 103)].into_iter());
        let lost = |moments, far, count, others: &[&Path]| {
            let others = others.iter().copied();
            path.lost(moments, far, count, others).collect::<Vec<_>>()
        };
        assert_eq!(lost(5, 8, 2, &[]), [(2, 5), (5, 6)]);
        assert_eq!(lost(5, 8, 9, &[]), [(2, 5), (5, 6), (4, 6)]);
        assert_eq!(lost(4, 1, 9, &[]), [(4, 6)]);
        // An event of another thread ended there.
        assert_eq!(lost(5, 8, 9, &[&other]), [(4, 6), (2, 5), (5, 6)]);
    }

    #[test]
    fn operations_are_those_of_the_way_and_the_next_one() {
        let path = Path {
            operations: vec![(1, 2, 10), (3, 4, 30), (3, 5, 31), (3, 6, 32), (4, 8, 40)],
            ..Path::default()
        };
        assert_eq!(path.operations(3, 6, 3), [(6, 32), (5, 31), (4, 30)]);
        assert_eq!(path.operations(3, 5, 3), [(5, 31), (4, 30)]);
        assert_eq!(path.operations(3, 9, 2), [(6, 32), (5, 31)]);
        // It stands in front of operation 6, and has been seen since the tick of that.
        assert_eq!(path.operations(5, 6, 3), [(6, 32)]);
        assert_eq!(path.operations(5, 7, 3), []);
        assert_eq!(path.operations_before(6, 2), [(5, 31), (4, 30)]);
        assert_eq!(path.operations_before(2, 2), []);
    }

    #[test]
    fn an_event_follows_the_thread_that_its_edge_names() {
        let path = Path {
            follows: vec![(1, 4)],
            ..Path::with([(1, 10, 10), (1, 12, 20)].into_iter())
        };
        assert_eq!(path.followed(1), Some((4, 12)));
        assert_eq!(path.followed(0), None);
        assert_eq!(path.last_event(), Some((vec![1], 12)));
        // It said that it had come to its end.
        let path = Path::with([(1, 10, 10), (1, 12, 12), (1, 12, 20)].into_iter());
        assert_eq!(path.last_event(), Some((vec![1, 2], 12)));
    }
}
