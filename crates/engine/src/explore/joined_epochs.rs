//! The epochs of a recording become the whole of it: one behind the other their exact tapes are its exact tapes, and the images
//! between them its index. Must never be asked for it before all epochs are found.

use std::path::Path;

use relive_trace::{ImageHead, ImageSet, Trace, become_images, exact_folder, images_of};

use super::epoch_state::{found_folder, image_state};
use super::joining::JoinedTapes;
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
    let recording = Trace::open_recorded(trace).map_err(Failure::setup)?;
    let manifest = recording.manifest();
    let mut joined = JoinedTapes::begin(manifest, &folder)?;
    let mut images = Vec::new();
    let every = epochs.len().div_ceil(MOST);
    for (number, epoch) in epochs.iter().enumerate() {
        let tapes = Trace::open_recorded(&epoch.exact).map_err(Failure::setup)?;
        joined.add(&tapes)?;
        if let Some(work) = epoch.epoch.end {
            let image = image_state(&recording, work)?;
            if let Some(first) = image.threads.first() {
                joined.begins(first.task.slot)?;
            }
            if number % every == every - 1 {
                images.push((work, joined.state(image)));
            }
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
