//! The searches for the orders of what a flight recording keeps, one after the other, while the program runs and behind its end. Must never
//! hold the program up: a kept recording whose order is not found is a sketch like any other.

use std::collections::VecDeque;
use std::path::PathBuf;

use super::epoch_finder::{EpochFinder, EpochPlan, FinderEnd};
use super::flight::KeptFlight;

/// See the module.
#[derive(Debug)]
pub struct KeptSearches {
    plan: EpochPlan,
    /// How many kept recordings are known.
    known: usize,
    waiting: VecDeque<PathBuf>,
    running: Option<(PathBuf, EpochFinder)>,
    ends: Vec<(PathBuf, FinderEnd)>,
}

impl KeptSearches {
    /// Of a flight recording that begins.
    pub fn new(plan: EpochPlan) -> Self {
        Self {
            plan,
            known: 0,
            waiting: VecDeque::new(),
            running: None,
            ends: Vec::new(),
        }
    }

    /// The id of the process that searches.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|(_, finder)| finder.pid())
    }

    /// A child of the recorder has ended, and been waited for.
    pub fn is_gone(&mut self, pid: u32) {
        let mut running = self.running.iter_mut().map(|(_, finder)| finder);
        if let Some(finder) = running.find(|finder| finder.pid() == pid) {
            finder.is_gone();
        }
    }

    /// So much has been kept by now: what is new is searched when its turn comes.
    pub fn look(&mut self, kept: &[KeptFlight]) {
        let new = kept.iter().skip(self.known);
        self.waiting.extend(new.map(|kept| kept.folder.clone()));
        self.known = kept.len();
        if let Some((_, finder)) = &mut self.running {
            finder.tick();
        }
        if let Some((folder, finder)) = self.running.take_if(|(_, finder)| finder.has_ended()) {
            self.ends.push((folder, finder.reap()));
        }
        self.begin_next();
    }

    fn begin_next(&mut self) {
        while self.running.is_none()
            && let Some(folder) = self.waiting.pop_front()
        {
            match EpochFinder::begin(&self.plan, &folder) {
                Ok(finder) => {
                    finder.no_more_images();
                    self.running = Some((folder, finder));
                }
                Err(failure) => self.ends.push((folder, FinderEnd::failed(failure))),
            }
        }
    }

    /// Waits for the searches that are left: how that of each kept recording has ended.
    #[must_use]
    pub fn finish(mut self) -> Vec<(PathBuf, FinderEnd)> {
        while let Some((folder, finder)) = self.running.take() {
            self.ends.push((folder, finder.finish(&mut || {})));
            self.begin_next();
        }
        self.ends
    }
}
