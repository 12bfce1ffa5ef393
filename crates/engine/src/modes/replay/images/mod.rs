//! Session images of a replay: the state of a process written down ([`process_capture`]), and a replay that
//! begins with it ([`restore`]), or all processes of an excerpt ([`first_processes`]). Between the two nothing may be
//! lost that a later event depends on.

pub mod first_processes;
pub mod process_capture;
pub mod restore;
