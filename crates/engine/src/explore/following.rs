//! Finding the orders of epochs while their recording runs (uniparallel recording: Veeraraghavan and others, ASPLOS 2011): each is
//! searched once the image at its end is there, and all that its threads did before. Must never begin with a part of that: what
//! threads have logged later, and did before, counts too.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use relive_trace::{GrowingTapes, ImageHead, ImageReader, ImageSet, TapeId};

use super::epoch_searches::{EpochSearches, Waited};
use super::epoch_state::{is_recorded, recorded_state};
use super::epochs::{places, stretch};
use super::first_replay::FirstReplay;
use crate::failure::{Failure, Result};
use crate::logging;
use crate::session_state::SessionState;
use crate::supervisor::{FinderNews, Stretch};

/// Time between two looks at tapes that are not far enough.
const LOOK: Duration = Duration::from_millis(10);

/// An epoch of a recording that runs.
struct FollowedEpoch {
    number: usize,
    stretch: Stretch,
    progress: EpochProgress,
}

/// How far it is.
enum EpochProgress {
    /// Some of what its threads did is not on their tapes, up to this end.
    Recorded(Box<SessionState>),
    Ready,
    Searched,
    Found,
    NotFound,
}

/// A recording that runs, and the search.
struct FollowedRecording<'a> {
    trace: &'a Path,
    how: &'a FirstReplay<'a>,
    tapes: GrowingTapes,
    /// In order.
    images: Vec<ImageHead>,
    /// Each that ends with one of them.
    epochs: Vec<FollowedEpoch>,
    /// How many there have been.
    numbers: usize,
    searches: EpochSearches,
    news: FinderNews,
}

/// Searches the epochs of a recording until it is finished, each when it can be: the recorder says in a stream which images there are, and is told
/// in it how far the search is. What is found is kept beside the recording: how many epochs.
///
/// # Errors
/// There are no tapes.
pub fn follow(trace: &Path, how: &FirstReplay<'_>, recorder: &UnixStream) -> Result<u32> {
    logging::init();
    let mut following = FollowedRecording {
        trace,
        how,
        tapes: GrowingTapes::open(trace).map_err(Failure::setup)?,
        images: Vec::new(),
        epochs: Vec::new(),
        numbers: 0,
        searches: EpochSearches::default(),
        news: FinderNews::default(),
    };
    let mut told = Vec::new();
    let mut runs = true;
    while runs || following.searches.len() > 0 {
        if runs {
            let begun = following.begin_searches();
            following.gives_up_at(begun);
            following.tell(recorder);
        }
        let other = runs.then(|| recorder.as_fd());
        match following.searches.wait(other, following.patience())? {
            Waited::Searched(number, found) => following.searched(number, found),
            Waited::Other => runs = following.take_images(recorder, &mut told),
            Waited::Nothing => {}
        }
    }
    Ok(following.news.found)
}

impl FollowedRecording<'_> {
    /// For how long nothing needs to be looked at.
    fn patience(&self) -> Option<Duration> {
        let mut epochs = self.epochs.iter();
        let waits = epochs.any(|epoch| matches!(epoch.progress, EpochProgress::Recorded(_)));
        waits.then_some(LOOK)
    }

    /// Nothing more is searched where the images cannot be read: the recorder has none after all, or the search at the end tells more.
    fn gives_up_at(&mut self, done: Result<()>) {
        if let Err(failure) = done {
            tracing::info!(target: "linear", "no epochs: {failure}");
            self.epochs.clear();
            self.images.clear();
            self.news.failed.get_or_insert(failure);
        }
    }

    /// Takes the names of new images from the recorder. Whether it goes on.
    fn take_images(&mut self, mut recorder: &UnixStream, told: &mut Vec<u8>) -> bool {
        let mut bytes = [0; 1024];
        match recorder.read(&mut bytes) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => return true,
            Ok(0) | Err(_) => return false,
            Ok(read) => told.extend_from_slice(&bytes[..read]),
        }
        let (names, rest) = told.as_chunks();
        for name in names {
            let added = self.add(u64::from_le_bytes(*name));
            self.gives_up_at(added);
        }
        *told = rest.to_vec();
        true
    }

    /// There is an image of this work, which mostly is the last one; of two copies of the process the later one may have been faster.
    fn add(&mut self, work: u64) -> Result<()> {
        let image = ImageReader::open(self.trace, ImageSet::Epochs, 0, work);
        let head = *image.map_err(Failure::setup)?.head();
        let place = self.images.partition_point(|other| other.work < work);
        self.images.insert(place, head);
        self.epochs.retain(|epoch| {
            epoch.stretch.epoch.end != self.images.get(place + 1).map(|next| next.work)
        });
        for place in place..self.images.len().min(place + 2) {
            self.add_epoch(place)?;
        }
        Ok(())
    }

    /// An epoch ends with this image.
    fn add_epoch(&mut self, place: usize) -> Result<()> {
        let work = self.images[place].work;
        let begin = place
            .checked_sub(1)
            .and_then(|before| self.images.get(before));
        self.numbers += 1;
        self.epochs.push(FollowedEpoch {
            number: self.numbers,
            stretch: stretch(self.trace, begin, Some(work)),
            progress: EpochProgress::Recorded(Box::new(recorded_state(self.trace, work)?)),
        });
        Ok(())
    }

    /// Begins what can be searched now.
    fn begin_searches(&mut self) -> Result<()> {
        if self.how.jobs == 0 {
            return Ok(());
        }
        self.tapes.look().map_err(Failure::setup)?;
        let is_own = |id: TapeId| id.process == 0 && !id.is_schedule();
        if !self.tapes.tapes().all(is_own) {
            self.epochs.clear();
            let why = Failure::unsupported("epochs of several processes");
            self.news.failed.get_or_insert(why);
        }
        for epoch in &mut self.epochs {
            if let EpochProgress::Recorded(end) = &epoch.progress
                && is_recorded(self.trace, end, |id| self.tapes.length(id))?
            {
                epoch.progress = EpochProgress::Ready;
            }
        }
        let jobs = places(self.trace, self.images.as_slice(), self.how.jobs)?;
        for epoch in &mut self.epochs {
            if self.searches.len() < jobs && matches!(epoch.progress, EpochProgress::Ready) {
                // Once one is not found the recording is not exact as a whole: who records waits for no more searches than need be.
                let attempts = match self.news.failed {
                    None => self.how.attempts,
                    Some(_) => 0,
                };
                let command = (self.how.searcher)(epoch.stretch.epoch, attempts);
                self.searches.begin(epoch.number, command)?;
                epoch.progress = EpochProgress::Searched;
            }
        }
        Ok(())
    }

    /// The search for an epoch is over.
    fn searched(&mut self, number: usize, found: Result<u32>) {
        let mut epochs = self.epochs.iter_mut();
        let Some(epoch) = epochs.find(|epoch| epoch.number == number) else {
            return;
        };
        match found {
            Ok(attempts) => {
                epoch.progress = EpochProgress::Found;
                self.news.found += 1;
                self.news.disagreed += u32::from(attempts > 1);
            }
            Err(failure) => {
                epoch.progress = EpochProgress::NotFound;
                self.news.disagreed += 1;
                tracing::info!(target: "linear", "epoch {number} is not found: {failure}");
                self.news.failed.get_or_insert(failure);
            }
        }
        self.commit();
    }

    /// Epochs are committed in order: up to the first that is not found.
    fn commit(&mut self) {
        self.epochs.sort_by_key(|epoch| epoch.stretch.epoch.end);
        let is_found = |epoch: &&FollowedEpoch| matches!(epoch.progress, EpochProgress::Found);
        let last = self.epochs.iter().take_while(is_found).last();
        if let Some(end) = last.and_then(|epoch| epoch.stretch.epoch.end) {
            self.news.committed = self.news.committed.max(end);
        }
    }

    fn tell(&mut self, mut recorder: &UnixStream) {
        let is_ready = |epoch: &&FollowedEpoch| {
            matches!(
                epoch.progress,
                EpochProgress::Ready | EpochProgress::Searched
            )
        };
        self.news.ready = self.epochs.iter().filter(is_ready).count() as u32;
        let Ok(mut line) = serde_json::to_vec(&self.news) else {
            return;
        };
        line.push(b'\n');
        // It may have ended.
        let _ = recorder.write_all(&line);
    }
}
