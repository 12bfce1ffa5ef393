//! The states in the session images between the epochs of a recording, and how far its tapes have to be for them. Must never believe
//! one: the epoch before it is compared with it.

use std::path::{Path, PathBuf};

use relive_trace::{ImageReader, ImageSet, TapeId, Trace};

use crate::failure::{Failure, Result};
use crate::session_state::SessionState;

/// The state in the image with which an epoch begins, or ends, of this work, for a replay of these tapes.
///
/// # Errors
/// There is none, or it is damaged.
pub fn image_state(trace: &Trace, work: u64) -> Result<SessionState> {
    let mut state = recorded_state(trace.directory(), work)?;
    state.settle(trace);
    Ok(state)
}

/// The same as it was recorded: of tapes too that are not there yet.
///
/// # Errors
/// As [`image_state`].
pub fn recorded_state(trace: &Path, work: u64) -> Result<SessionState> {
    let image = ImageReader::open(trace, ImageSet::Epochs, 0, work).map_err(Failure::setup)?;
    SessionState::of(&image).map_err(|refused| refused.failure(ImageSet::Epochs))
}

/// The folder with what is found of each epoch, until all is.
pub fn found_folder(trace: &Path) -> PathBuf {
    trace.join("epochs.found")
}

/// Whether all that the threads did up to the image at the end of an epoch is on the tapes, which are so long: also what they have logged
/// with their next event. The state is as it was recorded.
///
/// # Errors
/// The recording cannot be read.
pub fn is_recorded(
    trace: &Path,
    end: &SessionState,
    length: impl Fn(TapeId) -> u64,
) -> Result<bool> {
    let ways = end.threads.iter().filter_map(|thread| {
        let id = TapeId::new(end.process.index, thread.task.index);
        Some((id, thread.tape.as_ref()?))
    });
    let mut owing = Vec::new();
    for (id, tape) in ways {
        let length = length(id);
        if length < tape.mark.offset {
            return Ok(false);
        }
        if tape.order.owes() {
            if length == tape.mark.offset {
                return Ok(false);
            }
            owing.push((id, tape.mark));
        }
    }
    if owing.is_empty() {
        return Ok(true);
    }
    let trace = Trace::open_recorded(trace).map_err(Failure::setup)?;
    for (id, mark) in owing {
        let mut tape = trace.tape_at(id, &mark).map_err(Failure::setup)?;
        loop {
            match tape.peek().map_err(Failure::setup)? {
                None => return Ok(false),
                Some(next) if next.kind.is_event() => break,
                Some(_) => tape.skip().map(drop).map_err(Failure::setup)?,
            }
        }
    }
    Ok(true)
}
