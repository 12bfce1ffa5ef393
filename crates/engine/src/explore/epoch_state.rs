//! The states in the session images between the epochs of a recording. Must never believe one: the epoch before it is compared with it.

use relive_trace::{ImageReader, ImageSet, Trace};

use crate::failure::{Failure, Result};
use crate::session_state::SessionState;

/// The state in the image with which an epoch begins, or ends, of this work.
///
/// # Errors
/// There is none, or it is damaged.
pub fn image_state(trace: &Trace, work: u64) -> Result<SessionState> {
    let image = ImageReader::open(trace.directory(), ImageSet::Epochs, 0, work);
    let image = image.map_err(Failure::setup)?;
    let mut state =
        SessionState::of(&image).map_err(|refused| refused.failure(ImageSet::Epochs))?;
    state.settle(trace);
    Ok(state)
}
