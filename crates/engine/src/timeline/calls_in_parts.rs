//! The calls of a function in all of a recording: in stretches from one session image to the next at the same time, each followed
//! until the calls that begin in it have returned. Must never tell of a call before all that began before it.

use std::time::{Duration, Instant};

use super::at_once::{Results, in_order};
use super::function_calls::{CallFollower, CallObserver, Tellable};
use super::images::{point, replay_from};
use super::parts::evenly_cut;
use super::present::Timeline;
use super::replay_process::Interrupter;
use crate::failure::Result;
use crate::supervisor::Folder;

/// What is told at a time, at most, and how long it may wait for more.
const BATCH: usize = 256;
const WAIT: Duration = Duration::from_millis(100);

/// What is told of some calls.
struct CallBatch<T> {
    all: Vec<(u64, T)>,
    /// Nothing follows in the stretch.
    is_last: bool,
}

/// Hands on what is told in batches.
struct InBatches<'r, 'a, T> {
    results: &'r mut Results<'a, CallBatch<T>>,
    held: Vec<(u64, T)>,
    since: Instant,
}

impl<T: Send> InBatches<'_, '_, T> {
    fn flush(&mut self, is_last: bool) {
        self.since = Instant::now();
        let all = std::mem::take(&mut self.held);
        // Where nobody wants it any more, nothing more is wanted.
        self.results.put(CallBatch { all, is_last });
    }
}

impl<T: Send> Interrupter for InBatches<'_, '_, T> {
    fn wanted(&mut self) -> bool {
        let is_due = !self.held.is_empty() && self.since.elapsed() >= WAIT;
        if is_due {
            self.flush(false);
        }
        self.results.wanted()
    }
}

impl<T: Send> Tellable<T> for InBatches<'_, '_, T> {
    fn tell(&mut self, number: u64, told: T) {
        self.held.push((number, told));
        if self.held.len() >= BATCH {
            self.flush(false);
        }
    }
}

impl Timeline {
    /// Tells of the calls of a function in the process, from its beginning on, of at most `most`; each stretch has an observer of
    /// its own. `take` gets the number of a call, from 0 in the order of their beginnings, and what the observer says of a
    /// moment of it, in the order of moments among the calls that begin in the same stretch.
    ///
    /// # Errors
    /// Divergence, a damaged image, or a failure of an observer or of `take`.
    pub fn each_call<O: CallObserver>(
        &self,
        most: u64,
        observer: &(dyn Fn() -> O + Sync),
        wanted: &mut dyn Interrupter,
        take: &mut dyn FnMut(u64, O::Told) -> Result<()>,
    ) -> Result<()> {
        let cuts = evenly_cut(&self.images, self.jobs);
        let changes = self.other_writers.as_ref().map(Folder::path);
        let work = |stretch: usize, results: &mut Results<'_, CallBatch<O::Told>>| {
            let begin = stretch.checked_sub(1).and_then(|before| cuts.get(before));
            let (mut host, _) = replay_from(&self.trace, &self.chain, begin, changes)?;
            let mut tell = InBatches {
                results,
                held: Vec::new(),
                since: Instant::now(),
            };
            let mut observer = observer();
            let until = cuts.get(stretch).map(point);
            CallFollower::of(&mut host, &mut observer, most)?
                .follow(&mut host, until, false, &mut tell)?;
            tell.flush(true);
            Ok(())
        };
        // Of the stretches before the one that is taken from, and with that one.
        let (mut before, mut begun) = (0, 0);
        let mut take_batch = |_: usize, batch: CallBatch<O::Told>| {
            for (number, told) in batch.all {
                let number = before + number;
                begun = begun.max(number + 1);
                if number < most {
                    take(number, told)?;
                }
            }
            if batch.is_last {
                before = begun;
            }
            Ok(before < most)
        };
        in_order(cuts.len() + 1, self.jobs, &work, wanted, &mut take_batch)?;
        Ok(())
    }
}
