//! The first replay of a stretch of a sketch: it finds the turns of the threads, and writes them down. If it leaves the recording, a
//! bounded search follows, which `relive explore` goes on with. Must never take another stretch's results.

use std::time::{Duration, Instant};

use relive_trace::{Manifest, Recorder};

use super::exploration::{Attempted, Exploration, ExploreEnd, ExploreOptions, ExploreWatcher};
use super::explored::FailedTrial;
use crate::failure::{Failure, FailureClass, Result};
use crate::guide::races::Race;
use crate::modes::replay::linear::hints::Hints;
use crate::modes::replay::linear::neighbours::later_end;
use crate::modes::replay::linear::wanted::TurnLength;
use crate::supervisor::{Stretch, learn, try_order};
use crate::timeline::ReplayProcess;

/// Most attempts of a first replay, for the whole recording or for each epoch.
pub const ATTEMPTS: u32 = 128;

/// The most time of the search behind the first attempts; or so many times as long as one of those took, if that is more.
const TIME: Duration = Duration::from_secs(60);
const TIMES: u32 = 24;

/// Most further attempts with long turns, and the ticks before what comes next at which those of the second one end, if the first one tells nothing
/// of that: a thread that reads in a loop what another one stores mostly comes to its event as soon as that.
const MOST_LATER: usize = 2;
const LATER: u64 = 32;

/// Progress of a first replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linearising {
    /// Another process finds the turns of the same recording, and is waited for.
    Waits,
    /// An attempt begins, with this number, from 1.
    Attempt(u32),
    /// Of its epochs so many, of so many, are found.
    Epochs(usize, usize),
}

/// Tells of the attempts of a first replay.
struct FirstAttempts<'w>(&'w mut dyn FnMut(Linearising));

impl ExploreWatcher for FirstAttempts<'_> {
    fn goes_on(&mut self) -> bool {
        true
    }

    fn attempted(&mut self, attempted: &Attempted<'_>) {
        (self.0)(Linearising::Attempt(attempted.attempts + 2));
    }

    fn races(&mut self, _: &[Race], _: Option<&mut ReplayProcess>) {}
}

/// Finds an order of a stretch of a recording, by so many attempts at most behind the first ones, up to `jobs` at a time, and writes its exact tapes. How many there were.
///
/// # Errors
/// No order that was tried agrees with the recording: expected and actual events of the first attempt are in
/// the message. What the attempts found out is kept for further ones.
pub(super) fn search(
    stretch: &Stretch,
    (attempts, jobs): (u32, usize),
    watcher: &mut dyn FnMut(Linearising),
) -> Result<u32> {
    // In a recording with all accesses in order nothing is left to search for.
    let manifest = Manifest::read(&stretch.trace).map_err(Failure::setup)?;
    let searches = attempts > 0 && manifest.recorder != Recorder::Coherence;
    let hints = Hints::default();
    let began = Instant::now();
    let mut long = Vec::new();
    let mut next = Some(0);
    while let Some(near) = next.take() {
        watcher(Linearising::Attempt(long.len() as u32 + 1));
        let failed = match try_order(stretch, TurnLength::Long(near), &hints) {
            Ok(_) => return Ok(long.len() as u32 + 1),
            Err(failed) if failed.failure.class() != FailureClass::Divergence => {
                return Err(failed.failure);
            }
            Err(failed) => failed,
        };
        tracing::info!(target: "linear", "not with long turns that end {near} ticks before what comes next: {:?}: {}", failed.at, failed.failure);
        if let Some(at) = failed.at {
            long.push((near, at, failed.failure));
            let tried = |end: &u64| long.iter().any(|(near, ..)| near == end);
            let later = later_end(near, &at).unwrap_or(LATER);
            next = Some(later).filter(|end| searches && long.len() <= MOST_LATER && !tried(end));
        }
    }
    watcher(Linearising::Attempt(long.len() as u32 + 1));
    let failed = match try_order(stretch, TurnLength::Close, &hints) {
        Ok(_) => return Ok(long.len() as u32 + 1),
        Err(failed) => failed,
    };
    let failure = failed.failure;
    let (FailureClass::Divergence, Some(at), true) = (failure.class(), failed.at, searches) else {
        return Err(failure);
    };
    tracing::info!(target: "linear", "the first attempt: {at:?}: {failure}");
    let each = began.elapsed() / (long.len() as u32 + 1);
    let options = ExploreOptions {
        attempts,
        time: Some(TIME.max(each * TIMES)),
        jobs,
    };
    // Before the search, which may be long and may be ended.
    learn(stretch, &hints, &at);
    let mut exploration = Exploration::of(stretch)?;
    exploration.locked = true;
    let mut first = vec![(hints.clone(), at, &failure)];
    if let [process] = exploration.processes() {
        let long = long
            .iter()
            .map(|(near, at, failure)| (hints.with_long_turns(*process, *near), *at, failure));
        first.extend(long);
    }
    for (hints, at, failure) in first {
        if exploration.explored.failed(&hints).is_none() {
            let failed = FailedTrial::of_whole(at, failure);
            exploration.explored.add_failed(hints, failed)?;
        }
    }
    let end = exploration.run(&options, &mut FirstAttempts(watcher))?;
    let attempts = exploration.attempts();
    if matches!(end, ExploreEnd::Exact) {
        return Ok(attempts + 1);
    }
    if let Some((hints, at)) = exploration.search.furthest() {
        learn(stretch, hints, at);
    }
    Err(Failure::divergence(format!(
        "{}\n  none of the {attempts} orders that were tried agrees with the recording: `relive explore` searches on; \
         a recording with --mode coherence has all of the order, and needs no search; `relive races --learn` of it tells the next sketches what to order",
        failure.text()
    )))
}
