//! Replaying a sketch with the decisions of a search: the replay finds the turns of its threads, and keeps them in the trace
//! if they agree with all of the recording. Must never keep others.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use relive_trace::{Excerpt, Manifest, TraceWriter, exact_folder};

use super::folder::remove_folder;
use super::replay::{Exact, Failed, ReplayOptions, Replayed, replay_into};
use crate::failure::Failure;
use crate::guide::trials::Disagreement;
use crate::learnt_sites;
use crate::modes::replay::epoch::Epoch;
use crate::modes::replay::linear::hints::Hints;
use crate::modes::replay::linear::wanted::TurnLength;
use crate::modes::replay::races::learning::LearningStart;

/// What is replayed of a recording to find its order: all of it, or an epoch.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// The recording.
    pub trace: PathBuf,
    /// Where it begins and ends.
    pub epoch: Epoch,
    /// Number of its first output.
    pub order: u64,
    /// The folder for its exact tapes.
    pub exact: PathBuf,
    /// The folder for what a search finds out about it.
    pub notes: PathBuf,
}

impl Stretch {
    /// All of a recording.
    #[must_use]
    pub fn whole(trace: &Path) -> Self {
        Self {
            trace: trace.to_owned(),
            epoch: Epoch::default(),
            order: 0,
            exact: exact_folder(trace),
            notes: trace.to_owned(),
        }
    }

    /// Whether its exact tapes are there.
    #[must_use]
    pub fn is_found(&self) -> bool {
        Manifest::read(&self.exact).is_ok_and(|manifest| manifest.complete)
    }
}

/// Replays a sketch once more up to where it left the recording with these decisions, to learn which plain accesses the next
/// recording should order: where moments were not enough. Whatever comes of it changes nothing here.
pub fn learn(stretch: &Stretch, hints: &Hints, at: &Disagreement) {
    let folder = stretch.notes.join(".learning");
    let sites = match attempt(
        stretch,
        &folder,
        (TurnLength::Close, hints),
        Some(LearningStart::near(at)),
    ) {
        Ok(replayed) => replayed.sites,
        Err(failed) => {
            tracing::info!(target: "linear", "learnt up to: {}", failed.failure);
            failed.sites
        }
    };
    // No reader looks at it.
    let _ = std::fs::remove_dir_all(&folder);
    let LearntPlaces { all, new } = LearntPlaces::keep(sites);
    tracing::info!(target: "linear", "{new} of {all} sites of races are new");
}

/// Places of plain accesses that race.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LearntPlaces {
    /// How many this recording has.
    pub all: usize,
    /// How many of them were not known.
    pub new: usize,
}

/// Replays an exact recording, to learn which plain accesses sketches should order from now on.
///
/// # Errors
/// As [`super::replay()`].
pub fn learn_places(trace: &Path) -> crate::failure::Result<LearntPlaces> {
    let options = ReplayOptions {
        quiet: true,
        learns: true,
        ..ReplayOptions::of(trace)
    };
    let replayed = replay_into(&options, None).map_err(|failed| failed.failure)?;
    Ok(LearntPlaces::keep(replayed.sites))
}

impl LearntPlaces {
    /// Keeps the sites that a replay has learnt.
    fn keep(sites: BTreeSet<u64>) -> Self {
        Self {
            all: sites.len(),
            new: learnt_sites::add(sites),
        }
    }
}

/// Replays a sketch from the beginning of the stretch with the decisions of a search, and writes the exact tapes into its folder, which
/// has none if the order does not agree. The caller has the right to write them (`exact_lock.rs`).
///
/// # Errors
/// It does not, or the trace is damaged.
pub fn try_order(
    stretch: &Stretch,
    turns: TurnLength,
    hints: &Hints,
) -> std::result::Result<Replayed, Failed> {
    attempt(stretch, &stretch.exact, (turns, hints), None)
}

/// The same into another folder; it may learn, from there on.
fn attempt(
    stretch: &Stretch,
    folder: &Path,
    (turns, hints): (TurnLength, &Hints),
    learns: Option<LearningStart>,
) -> std::result::Result<Replayed, Failed> {
    let trace = &*stretch.trace;
    remove_folder(folder)?;
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
        turns,
        learns,
        epoch: (stretch.epoch, stretch.order),
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
