//! Finding the order of the threads of a recording: by its epochs where it has session images between them, else as a whole. Must never
//! write exact tapes without the right to.

use std::path::Path;
use std::time::Duration;

use relive_trace::{Manifest, Trace, exact_folder};

use super::epochs;
use super::exploration::{Exploration, ExploreEnd, ExploreOptions, ExploreWatcher};
use super::first_replay::FirstReplay;
use super::first_search::{ATTEMPTS, Linearising, search};
use crate::failure::{Failure, FailureClass, Result};
use crate::logging;
use crate::supervisor::{ExactLock, Stretch, keep_keyboard};

/// What a first replay has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstFound {
    /// Attempts; 0: another process has found the turns meanwhile.
    pub attempts: u32,
    /// Epochs.
    pub epochs: usize,
    /// Those that took more than one attempt.
    pub searched: usize,
    /// How long it took to put them together.
    pub joining: Duration,
    /// So many of them are not found, for this reason the first: the recording is exact behind the last of those.
    pub missing: Option<(usize, Failure)>,
}

impl FirstFound {
    /// Takes over how the epochs were found that the exact tapes of a recording are made of.
    fn count(&mut self, trace: &Path) -> Result<()> {
        let exact = Manifest::read(&exact_folder(trace)).map_err(Failure::setup)?;
        let attempts = exact.epochs.iter().map(|epoch| epoch.attempts);
        self.searched = attempts.clone().filter(|&n| n > 1).count();
        self.attempts = attempts.sum();
        Ok(())
    }
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
            epochs: 1,
            ..FirstFound::default()
        });
    }
    match epochs::of(&recording)? {
        Some(all) => by_epochs(trace, &all, how, watcher),
        None => as_a_whole(trace, how, watcher),
    }
}

fn as_a_whole(
    trace: &Path,
    how: &FirstReplay<'_>,
    watcher: &mut dyn FnMut(Linearising),
) -> Result<FirstFound> {
    let attempts = search(&Stretch::whole(trace), (ATTEMPTS, how.jobs), watcher)?;
    epochs::forget(trace)?;
    Ok(FirstFound {
        attempts,
        epochs: 1,
        searched: usize::from(attempts > 1),
        ..FirstFound::default()
    })
}

fn by_epochs(
    trace: &Path,
    all: &[Stretch],
    how: &FirstReplay<'_>,
    watcher: &mut dyn FnMut(Linearising),
) -> Result<FirstFound> {
    let mut found = FirstFound {
        epochs: all.len(),
        ..FirstFound::default()
    };
    let mut tell = |found, of| watcher(Linearising::Epochs(found, of));
    let failure = match epochs::linearise(trace, all, how, &mut tell) {
        Ok(joining) => {
            found.joining = joining;
            found.count(trace)?;
            return Ok(found);
        }
        Err(failure) if failure.class() == FailureClass::Divergence => failure,
        Err(failure) => return Err(failure),
    };
    if how.goes_as_a_whole {
        // An image may lie where a replay cannot be described as the recorder was: without it the order may be found.
        tracing::info!(target: "linear", "as a whole, as an epoch is not found: {failure}");
        match as_a_whole(trace, how, watcher) {
            Err(whole) => tracing::info!(target: "linear", "nor as a whole: {whole}"),
            found => return found,
        }
    }
    let Some(missing) = epochs::keep_last_part(trace, all)? else {
        return Err(failure);
    };
    found.missing = Some((missing, failure));
    found.count(trace)?;
    Ok(found)
}

/// Searches for an order of the threads of a sketch, and keeps it in the trace. How it ended, and how many attempts
/// are known now.
///
/// # Errors
/// A damaged trace, or the state of the search cannot be kept.
pub fn explore(
    trace: &Path,
    options: &ExploreOptions,
    watcher: &mut dyn ExploreWatcher,
) -> Result<(ExploreEnd, u32)> {
    logging::init();
    keep_keyboard();
    let in_part = epochs::forget_last_part(trace)?;
    let recording = Trace::open(trace).map_err(Failure::setup)?;
    if let Some(all) = epochs::of(&recording)? {
        let searched = epochs::explore(trace, &all, options, watcher)?;
        if in_part && !matches!(searched.0, ExploreEnd::Exact) {
            let _lock = ExactLock::take(trace, &mut || ())?;
            epochs::keep_last_part(trace, &all)?;
        }
        return Ok(searched);
    }
    let whole = Stretch::whole(trace);
    let mut exploration = Exploration::of(&whole)?;
    let end = exploration.run(options, watcher)?;
    Ok((end, exploration.attempts()))
}
