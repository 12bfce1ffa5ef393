//! Whether a replay is to find the turns of threads itself: its supervisor says so, by the environment of the
//! first host process. Must know nothing of how that is done.

use super::hints::Hints;
use crate::failure::{Failure, Result};

/// Asks a replay to linearise, in the environment of its first host process; with the decisions of a search, or
/// for a trial ([`trial_with`]).
pub const VARIABLE: &str = "RELIVE_LINEARISE";

/// Before decisions, if there are any: more are told later, and the replay writes nothing down. An order that it finds is
/// tried again, by one that does.
const TRIAL: &str = "trial";

/// Whether the turns that are found are written down. One variable says it with all else: a second one that a
/// replay inherits would make it believe in tapes that nobody writes.
pub fn is_written() -> bool {
    std::env::var(VARIABLE).map_or(true, |value| !value.starts_with(TRIAL))
}

/// The variable's value for a trial that comes to where its process begins with these decisions.
pub fn trial_with(hints: &Hints) -> String {
    format!("{TRIAL} {}", hints.to_text())
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
    let text = std::env::var(VARIABLE).unwrap_or_default();
    Hints::from_text(text.strip_prefix(TRIAL).unwrap_or(&text))
        .ok_or_else(|| Failure::setup(format!("{VARIABLE} has no hints: {text}")))
}
