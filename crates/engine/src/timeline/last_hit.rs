//! The search for the last hit before a place in several stretches at the same time, each from one session image to the
//! next one, the last stretch first. Must never tell of a hit while a later stretch is not searched.

use relive_trace::ImageSet;

use super::at_once::{Delivery, Results, in_order};
use super::images::{point, replay_from};
use super::parts::at_a_time;
use super::present::Timeline;
use super::replay_process::Interrupter;
use super::travel::lost;
use crate::failure::{Failure, Result};
use crate::guide::point::Point;
use crate::guide::protocol::{Hit, ReplayStatus, RunRequest, StopReason, StopSet};
use crate::supervisor::Folder;

/// The result of such a search.
pub(super) enum Found {
    Hit(Hit),
    Nothing,
    Interrupted,
}

impl Timeline {
    /// Lets up to `jobs` replays look for the last hit at the same time, if the process has session images.
    ///
    /// # Errors
    /// The index is damaged.
    pub fn search_with(&mut self, jobs: usize) -> Result<()> {
        self.jobs = at_a_time(&self.trace, ImageSet::Index, &self.images, jobs)?;
        Ok(())
    }

    /// The last hit before a position.
    ///
    /// # Errors
    /// Divergence, or an image is damaged.
    pub(super) fn last_hit_in_parts(
        &mut self,
        stops: &StopSet,
        end: ReplayStatus,
        wanted: &mut dyn Interrupter,
    ) -> Result<Found> {
        // The stretches end with a place, or with the process; they lie from the last to the first.
        let (end, ended) = (end.point, end.ended.is_some());
        let before = |at: &Point| ended || at.is_before(&end);
        let images = self.images.iter().filter(|head| before(&point(head)));
        let cuts: Vec<_> = images.rev().copied().collect();
        let (trace, chain) = (self.trace.as_path(), &self.chain[..]);
        let changes = self.other_writers.as_ref().map(Folder::path);
        let work = |stretch: usize, results: &mut Results<'_, Option<Hit>>| {
            let (mut host, _) = replay_from(trace, chain, cuts.get(stretch), changes)?;
            let until = match stretch.checked_sub(1) {
                Some(later) => Some(point(&cuts[later])),
                None => (!ended).then_some(end),
            };
            let run = RunRequest {
                until,
                with_end: stretch > 0,
                ..RunRequest::to_the_end()
            };
            let ran = host.run(&run, stops, results)?;
            match (ran.why, until) {
                (StopReason::Interrupted, _) => return Ok(()),
                (StopReason::Until, Some(_)) | (StopReason::Ended, None) => {}
                (StopReason::Ended, Some(until)) if ran.status.point == until => {}
                (_, Some(until)) => return Err(lost(&until, &ran.status.point)),
                (why, None) => {
                    return Err(Failure::internal(format!(
                        "a replay to the end stopped before it: {why:?}"
                    )));
                }
            }
            results.put(ran.last);
            Ok(())
        };
        let mut found = None;
        let mut take = |_: usize, last: Option<Hit>| {
            found = last;
            Ok(found.is_none())
        };
        let taken = in_order(cuts.len() + 1, self.jobs, &work, wanted, &mut take)?;
        Ok(match (taken, found) {
            (Delivery::Interrupted, _) => Found::Interrupted,
            (_, Some(hit)) => Found::Hit(hit),
            (_, None) => Found::Nothing,
        })
    }
}
