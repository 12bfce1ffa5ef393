//! Making a sketch exact: a replay that finds the turns of its threads, and keeps them in the trace. If it leaves the
//! recording, a bounded search tries neighbouring orders.

use std::path::Path;

use relive_trace::{Excerpt, Manifest, Recorder, Trace, TraceWriter, exact_folder};

use super::exact_lock::ExactLock;
use super::replay::{Exact, Failed, ReplayOptions, Replayed, replay_into};
use crate::failure::{Failure, FailureClass, Result};
use crate::guide::trials::Disagreement;
use crate::learnt_sites;
use crate::logging;
use crate::modes::replay::linear::hints::Hints;
use crate::modes::replay::linear::path::{self, Paths};
use crate::modes::replay::linear::search::{self, Search};
use crate::modes::replay::races::learning::LearningStart;

/// Most attempts to find the turns of a recording.
pub const ATTEMPTS: u32 = search::MOST;

/// Progress of [`linearise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linearising {
    /// Another process finds the turns of the same recording, and is waited for.
    Waits,
    /// An attempt begins, with this number, from 1.
    Attempt(u32),
}

/// Finds the turns of a recording whose threads ran at the same time, and keeps them in the trace. Returns how many
/// attempts there were; 0: another process has found them meanwhile.
///
/// # Errors
/// No order that was tried agrees with the recording: expected and actual events of the first attempt are in
/// the message. Then nothing is kept.
pub fn linearise(trace: &Path, watcher: &mut dyn FnMut(Linearising)) -> Result<u32> {
    logging::init();
    let _lock = ExactLock::take(trace, &mut || watcher(Linearising::Waits))?;
    if Trace::open(trace).map_err(Failure::setup)?.is_exact() {
        return Ok(0);
    }
    // Nothing is left to search for.
    let says_all = Manifest::read(trace).map_err(Failure::setup)?.recorder == Recorder::Coherence;
    let mut search = Search::default();
    let mut paths = Paths::new();
    let mut hints = Hints::default();
    let mut first = None;
    loop {
        watcher(Linearising::Attempt(search.attempts() + 1));
        let Failed { failure, at, .. } = match try_order(trace, &exact_folder(trace), &hints) {
            Ok(_) => return Ok(search.attempts() + 1),
            Err(failed) => failed,
        };
        if says_all {
            return Err(failure);
        }
        let (FailureClass::Divergence, Some(at)) = (failure.class(), at) else {
            return Err(failure);
        };
        tracing::info!(target: "linear", "attempt {} with {} decisions ({}): {at:?}: {failure}", search.attempts() + 1, hints.count(), hints.to_text());
        if search.attempts() == 0 {
            // Before the search, which may be long and may be ended.
            learn(trace, &hints, &at);
        }
        let recording = Trace::open(trace).map_err(Failure::setup)?;
        path::read(&recording, at.process, &mut paths)?;
        search.failed(hints, &at, at.events, &paths);
        let first = first.get_or_insert(failure);
        hints = match search.next() {
            Some(hints) => hints,
            None => {
                if let Some((hints, at)) = search.furthest() {
                    learn(trace, hints, at);
                }
                return Err(with_attempts(first, search.attempts()));
            }
        };
    }
}

/// The failure of the first attempt, when none has come to the end.
fn with_attempts(first: &Failure, attempts: u32) -> Failure {
    match first.class() {
        FailureClass::Divergence => Failure::divergence(format!(
            "{}\n  none of the {attempts} orders that were tried agrees with the recording: `relive explore` searches on; \
             a recording with --mode coherence has all of the order, and needs no search",
            first.text()
        )),
        _ => first.clone(),
    }
}

/// Replays a sketch once more up to where it left the recording with these decisions, to learn which plain accesses the next
/// recording should order: where moments were not enough. Whatever comes of it changes nothing here.
fn learn(trace: &Path, hints: &Hints, at: &Disagreement) {
    let folder = trace.join(".learning");
    let sites = match attempt(trace, &folder, hints, Some(LearningStart::near(at))) {
        Ok(replayed) => replayed.sites,
        Err(failed) => {
            tracing::info!(target: "linear", "learnt up to: {}", failed.failure);
            failed.sites
        }
    };
    // No reader looks at it.
    let _ = std::fs::remove_dir_all(&folder);
    let (all, new) = (sites.len(), learnt_sites::add(sites));
    tracing::info!(target: "linear", "{new} of {all} sites of races are new");
}

/// Replays a sketch from the beginning with the decisions of a search, and writes the exact tapes into a folder, which
/// has none if the order does not agree. The caller has the [`ExactLock`].
///
/// # Errors
/// It does not, or the trace is damaged.
pub fn try_order(
    trace: &Path,
    folder: &Path,
    hints: &Hints,
) -> std::result::Result<Replayed, Failed> {
    attempt(trace, folder, hints, None)
}

/// The same; it may learn, from there on.
fn attempt(
    trace: &Path,
    folder: &Path,
    hints: &Hints,
    learns: Option<LearningStart>,
) -> std::result::Result<Replayed, Failed> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(Failure::setup(format!("cannot empty {}: {e}", folder.display())).into());
        }
        _ => {}
    }
    let mut manifest = Manifest::read(trace).map_err(Failure::setup)?.begun();
    manifest.excerpt = manifest.excerpt.map(Excerpt::on_own_tapes);
    let writer = TraceWriter::create(folder, &manifest).map_err(Failure::setup)?;
    let options = ReplayOptions {
        quiet: true,
        ..ReplayOptions::of(trace)
    };
    let exact = Exact {
        writer,
        hints,
        learns,
    };
    match replay_into(&options, Some(exact)) {
        Ok(replayed) => Ok(replayed),
        Err(failed) => {
            // Its remains are no recording. If they stay, the next attempt removes them.
            let _ = std::fs::remove_dir_all(folder);
            Err(failed)
        }
    }
}
