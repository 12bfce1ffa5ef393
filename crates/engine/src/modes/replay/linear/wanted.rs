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

/// Before decisions, with a number of ticks and a space: turns are long.
const LONG: &str = "long";

/// How long the turns of a replay are that finds them itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnLength {
    /// Between its events a thread may run ahead of others, by [`AHEAD`]: the order of what threads do without ordered operations is mostly
    /// none that counts, and to change threads takes time, in all replays. So many ticks before what comes next it goes as moments say.
    Long(u64),
    /// Threads run as they did, as far as moments say it: where threads race, that is mostly as it was.
    Close,
}

/// How far a thread runs ahead of others in long turns, in cycles of the time stamp counter.
pub const AHEAD: u64 = 1 << 19;

/// The variable's value for a replay with these decisions, which writes the turns that it finds.
pub fn with(turns: TurnLength, hints: &Hints) -> String {
    match turns {
        TurnLength::Long(near) => format!("{LONG}{near} {}", hints.to_text()),
        TurnLength::Close => hints.to_text(),
    }
}

/// How long the turns of this replay are.
pub fn turns() -> TurnLength {
    let value = std::env::var(VARIABLE).unwrap_or_default();
    long(&value).map_or(TurnLength::Close, |(near, _)| TurnLength::Long(near))
}

/// The ticks before what comes next at which long turns end, if this value says so, and the decisions behind that.
fn long(value: &str) -> Option<(u64, &str)> {
    let (near, decisions) = value.strip_prefix(LONG)?.split_once(' ')?;
    Some((near.parse().ok()?, decisions))
}

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
    let decisions = match long(&text) {
        Some((_, decisions)) => decisions,
        None => text.strip_prefix(TRIAL).unwrap_or(&text),
    };
    Hints::from_text(decisions)
        .ok_or_else(|| Failure::setup(format!("{VARIABLE} has no hints: {text}")))
}
