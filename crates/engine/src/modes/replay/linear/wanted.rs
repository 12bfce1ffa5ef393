//! Whether a replay is to find the turns of threads itself: its supervisor says so, by the environment of the
//! first host process. Must know nothing of how that is done.

/// Asks a replay to linearise, in the environment of its first host process.
pub const VARIABLE: &str = "RELIVE_LINEARISE";

/// Whether this replay linearises.
pub fn is_wanted() -> bool {
    std::env::var_os(VARIABLE).is_some()
}
