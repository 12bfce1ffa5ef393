//! The session images that the index of a trace has. Must never open one: that is a replay's.

use std::path::Path;

use relive_trace::{ImageHead, ImageSet, images_of};

use crate::failure::Result;
use crate::session_state::{LAYOUT, Refused};

/// The images of the last of these processes, in order of work. Those of other versions of Relive count
/// as none.
///
/// # Errors
/// The index of the trace is damaged.
pub fn of(trace: &Path, chain: &[u32]) -> Result<Vec<ImageHead>> {
    let useless = |error| Refused::from(error).failure(ImageSet::Index);
    let all = images_of(trace, ImageSet::Index)
        .map_err(useless)?
        .into_iter();
    let goal = chain.last();
    let fits = |head: &ImageHead| head.layout == LAYOUT && goal == Some(&head.process);
    Ok(all.filter(fits).collect())
}
