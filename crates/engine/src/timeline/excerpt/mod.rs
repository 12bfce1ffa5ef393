//! Making an excerpt of a recording: a recording of its own, which begins with session images of the
//! processes that there were at a place, and ends with the recording or before. Must never change the
//! recording that it is made of, nor leave an event out between beginning and end.

mod beginning;
mod begun_tapes;
mod cut_place;
mod making;
mod others;
mod tape_notes;
mod tree_ends;

pub use beginning::{Beginning, beginning};
pub use cut_place::CutPlace;
pub use making::{Excerpted, make_excerpt};
pub use others::refuse_sharing;
