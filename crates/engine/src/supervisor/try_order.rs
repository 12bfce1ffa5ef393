//! Replaying a sketch with the decisions of a search: the replay finds the turns of its threads, and keeps them in the trace
//! if they agree with all of the recording. Must never keep others.

use std::path::Path;

use relive_trace::{Excerpt, Manifest, TraceWriter};

use super::replay::{Exact, Failed, ReplayOptions, Replayed, replay_into};
use crate::failure::Failure;
use crate::guide::trials::Disagreement;
use crate::learnt_sites;
use crate::modes::replay::linear::hints::Hints;
use crate::modes::replay::races::learning::LearningStart;

/// Replays a sketch once more up to where it left the recording with these decisions, to learn which plain accesses the next
/// recording should order: where moments were not enough. Whatever comes of it changes nothing here.
pub fn learn(trace: &Path, hints: &Hints, at: &Disagreement) {
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
/// has none if the order does not agree. The caller has the right to write them (`exact_lock.rs`).
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
