//! Whether a replay is to find the turns of threads itself: its supervisor says so, by the environment of the
//! first host process. Must know nothing of how that is done.

use super::hints::Hints;
use crate::failure::{Failure, Result};

/// Asks a replay to linearise, in the environment of its first host process; with the decisions of a search, or
/// with [`TRIAL`].
pub const VARIABLE: &str = "RELIVE_LINEARISE";

/// In place of decisions: they are told later, and the replay writes nothing down. An order that it finds is
/// tried again, by one that does.
pub const TRIAL: &str = "trial";

/// Whether the turns that are found are written down. One variable says it with all else: a second one that a
/// replay inherits would make it believe in tapes that nobody writes.
pub fn is_written() -> bool {
    std::env::var_os(VARIABLE).is_none_or(|value| value != TRIAL)
}

/// Whether this replay linearises.
pub fn is_wanted() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// The decisions of a search.
///
/// # Errors
/// The variable says something else.
pub fn hints() -> Result<Hints> {
    if !is_written() {
        return Ok(Hints::default());
    }
    let text = std::env::var(VARIABLE).unwrap_or_default();
    Hints::from_text(&text)
        .ok_or_else(|| Failure::setup(format!("{VARIABLE} has no hints: {text}")))
}
