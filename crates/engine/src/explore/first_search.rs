//! The first replay of a sketch: it finds the turns of the threads, and keeps them in the trace. If it leaves the recording,
//! a bounded search follows, which `relive explore` goes on with.

use std::path::Path;
use std::process::Command;

use relive_trace::{Manifest, Recorder, Trace};

use super::epochs;
use super::exploration::{Attempted, Exploration, ExploreEnd, ExploreOptions, ExploreWatcher};
use super::explored::FailedTrial;
use crate::failure::{Failure, FailureClass, Result};
use crate::guide::races::Race;
use crate::logging;
use crate::modes::replay::linear::hints::Hints;
use crate::supervisor::{ExactLock, Stretch, learn, try_order};
use crate::timeline::ReplayProcess;

/// Most attempts of a first replay.
pub const ATTEMPTS: u32 = 128;

/// Progress of [`linearise`].
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
        (self.0)(Linearising::Attempt(attempted.attempts + 1));
    }

    fn races(&mut self, _: &[Race], _: Option<&mut ReplayProcess>) {}
}

/// How a first replay is made.
pub struct FirstReplay<'a> {
    /// Attempts, or epochs, at the same time.
    pub jobs: usize,
    /// Starts a process that searches the epoch of this number, and writes an [`EpochAnswer`](super::EpochAnswer) as a line of
    /// JSON.
    pub searcher: &'a dyn Fn(usize) -> Command,
}

/// What a first replay has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstFound {
    /// Attempts; 0: another process has found the turns meanwhile.
    pub attempts: u32,
    /// Epochs.
    pub epochs: usize,
}

/// Finds the turns of a recording whose threads ran at the same time, and keeps them in the trace.
///
/// # Errors
/// No order that was tried agrees with the recording: expected and actual events of the first attempt are in
/// the message. What the attempts found out is kept for further ones.
pub fn linearise(
    trace: &Path,
    how: &FirstReplay<'_>,
    watcher: &mut dyn FnMut(Linearising),
) -> Result<FirstFound> {
    logging::init();
    let _lock = ExactLock::take(trace, &mut || watcher(Linearising::Waits))?;
    let recording = Trace::open(trace).map_err(Failure::setup)?;
    if recording.is_exact() {
        return Ok(FirstFound {
            attempts: 0,
            epochs: 1,
        });
    }
    if let Some(all) = epochs::of(&recording)? {
        let mut tell = |found, of| watcher(Linearising::Epochs(found, of));
        let attempts = epochs::linearise(trace, &all, (how.jobs, how.searcher), &mut tell)?;
        let epochs = all.len();
        return Ok(FirstFound { attempts, epochs });
    }
    let attempts = search(&Stretch::whole(trace), how.jobs, watcher)?;
    Ok(FirstFound {
        attempts,
        epochs: 1,
    })
}

/// Finds an order of a stretch of a recording, by up to `jobs` attempts at a time, and writes its exact tapes. How many there were.
///
/// # Errors
/// As [`linearise`].
pub(super) fn search(
    stretch: &Stretch,
    jobs: usize,
    watcher: &mut dyn FnMut(Linearising),
) -> Result<u32> {
    watcher(Linearising::Attempt(1));
    let hints = Hints::default();
    let failed = match try_order(stretch, &hints) {
        Ok(_) => return Ok(1),
        Err(failed) => failed,
    };
    let failure = failed.failure;
    // In a recording with all accesses in order nothing is left to search for.
    let manifest = Manifest::read(&stretch.trace).map_err(Failure::setup)?;
    let says_all = manifest.recorder == Recorder::Coherence;
    let (FailureClass::Divergence, Some(at), false) = (failure.class(), failed.at, says_all) else {
        return Err(failure);
    };
    tracing::info!(target: "linear", "the first attempt: {at:?}: {failure}");
    // Before the search, which may be long and may be ended.
    learn(stretch, &hints, &at);
    let mut exploration = Exploration::of(stretch)?;
    exploration.locked = true;
    if exploration.explored.failed(&hints).is_none() {
        let first = FailedTrial::of_whole(at, &failure);
        exploration.explored.add_failed(hints, first)?;
    }
    let options = ExploreOptions {
        attempts: ATTEMPTS,
        time: None,
        jobs,
    };
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
         a recording with --mode coherence has all of the order, and needs no search",
        failure.text()
    )))
}
