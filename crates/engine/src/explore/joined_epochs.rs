//! The epochs of a recording become the whole of it: one behind the other their exact tapes are its exact tapes, and the images
//! between them its index. Where one is not found those behind it become an excerpt, as of a flight. Must never take an epoch that is
//! not found.

use std::path::Path;

use relive_trace::{
    BeginTape, Excerpt, FoundEpoch, ImageHead, ImageReader, ImageSet, Manifest, Summary, Trace,
    become_images, exact_folder, images_of, link_images,
};

use super::epoch_state::{found_folder, image_state, recorded_state};
use super::joining::{JoinedTapes, at_own_tapes};
use crate::encoding;
use crate::failure::{Failure, Result};
use crate::session_state::SessionState;
use crate::supervisor::{Stretch, remove_folder};

/// Most images of the index.
const MOST: usize = 128;

/// Writes the exact tapes of the recording; the images between its epochs become those of its index.
pub(super) fn put_together(trace: &Path, epochs: &[Stretch]) -> Result<()> {
    let folder = exact_folder(trace);
    remove_folder(&folder)?;
    ImageSet::Begin.remove(trace).map_err(Failure::setup)?;
    let recording = Trace::open_recorded(trace).map_err(Failure::setup)?;
    let manifest = Manifest {
        epochs: how_found(epochs)?,
        ..recording.manifest().clone()
    };
    let mut joined = JoinedTapes::begin(&manifest, &folder)?;
    let mut images = Vec::new();
    let every = epochs.len().div_ceil(MOST);
    for (number, epoch) in epochs.iter().enumerate() {
        if let Some((work, image)) = add_epoch(&mut joined, &recording, epoch)?
            && number % every == every - 1
        {
            images.push((work, joined.state(image)));
        }
    }
    joined.finish(manifest.summary.as_ref())?;
    tracing::info!(target: "linear", "{} epochs are put together", epochs.len());
    remove_folder(&found_folder(trace))?;
    if let Err(failure) = become_index(trace, &images) {
        // All is there without it.
        tracing::warn!(target: "linear", "no index: {failure}");
    }
    Ok(())
}

/// Writes the exact tapes of the last epochs of a recording, which begin with this image. All that is known of its epochs stays, for a search that
/// goes on.
pub(super) fn put_together_behind(trace: &Path, epochs: &[Stretch], work: u64) -> Result<()> {
    let folder = exact_folder(trace);
    remove_folder(&folder)?;
    let recording = Trace::open_recorded(trace).map_err(Failure::setup)?;
    let heads = images_of(trace, ImageSet::Epochs).map_err(Failure::setup)?;
    let begin = heads.iter().find(|head| head.work == work);
    let begin = *begin.ok_or_else(|| Failure::internal("an epoch begins without an image"))?;
    let state = at_own_tapes(recorded_state(trace, work)?);
    let head = ImageHead {
        tapes: 0,
        order: 0,
        ..begin
    };
    let sets = (ImageSet::Epochs, ImageSet::Begin);
    let described = [(begin, head, encoding::to_bytes(&state))];
    link_images(trace, sets, &described).map_err(Failure::setup)?;
    let image = ImageReader::open(trace, ImageSet::Begin, 0, work).map_err(Failure::setup)?;
    let tapes = state.marks().into_iter();
    let manifest = Manifest {
        excerpt: Some(Excerpt {
            images: image.number(),
            order: begin.order,
            processes: vec![state.begins()],
            tapes: tapes.map(|(id, mark)| BeginTape::new(id, mark)).collect(),
            cut: false,
            gaps: Vec::new(),
            input: 0,
        }),
        epochs: how_found(epochs)?,
        ..recording.manifest().of_excerpt()
    };
    let mut joined = JoinedTapes::begin_with(&manifest, &folder, &state)?;
    for epoch in epochs {
        add_epoch(&mut joined, &recording, epoch)?;
    }
    let summary = recording.manifest().summary.as_ref();
    let summary = summary.map(|summary| Summary {
        // Of all of the program.
        wall_ms: 0,
        ..summary.clone()
    });
    joined.finish(summary.as_ref())?;
    tracing::info!(target: "linear", "{} epochs behind work {work} are put together", epochs.len());
    Ok(())
}

/// How each was found; of one whose search was killed behind it no more is known than that.
fn how_found(epochs: &[Stretch]) -> Result<Vec<FoundEpoch>> {
    let found = epochs.iter().map(|epoch| {
        let manifest = Manifest::read(&epoch.exact).map_err(Failure::setup)?;
        Ok(manifest.epochs.first().copied().unwrap_or_default())
    });
    found.collect()
}

/// Adds the exact tapes of an epoch, and the turn that begins behind it. The image at its end, with its work; `None`: it ends with the recording.
fn add_epoch(
    joined: &mut JoinedTapes,
    recording: &Trace,
    epoch: &Stretch,
) -> Result<Option<(u64, SessionState)>> {
    let tapes = Trace::open_recorded(&epoch.exact).map_err(Failure::setup)?;
    joined.add(&tapes)?;
    let Some(work) = epoch.epoch.end else {
        return Ok(None);
    };
    let image = image_state(recording, work)?;
    if let Some(first) = image.threads.first() {
        joined.begins(first.task.slot)?;
    }
    Ok(Some((work, image)))
}

/// The images of these works, each with the state that a replay of the exact tapes has there, become the index.
fn become_index(trace: &Path, images: &[(u64, SessionState)]) -> Result<()> {
    let sum = Trace::open(trace).map_err(Failure::setup)?.sum();
    let recorded = images_of(trace, ImageSet::Epochs).map_err(Failure::setup)?;
    let described = images.iter().filter_map(|(work, state)| {
        let old = recorded.iter().find(|head| head.work == *work)?;
        let begins = state.begins();
        let head = ImageHead {
            event: begins.event,
            turn: state.replayed.turns,
            ticks: state.threads.first()?.task.ticks,
            work: begins.work,
            tapes: sum,
            order: 0,
            ..*old
        };
        Some((*old, head, encoding::to_bytes(state)))
    });
    let described: Vec<_> = described.collect();
    let sets = (ImageSet::Epochs, ImageSet::Index);
    become_images(trace, sets, &described).map_err(Failure::setup)
}
