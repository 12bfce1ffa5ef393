//! Session images of a replay: the state of a process written down ([`capture`]), and a replay that
//! begins with it ([`restore`]). Between the two nothing may be lost that a later event depends on.

pub mod capture;
pub mod restore;
