//! The messages between a timeline and the replays that it guides, and the words for it: positions,
//! stops, registers, the start. Must never use anything of either side: it stands below both.

pub mod framing;
pub mod point;
pub mod protocol;
pub mod races;
pub mod register_set;
pub mod start_variable;
pub mod trials;
