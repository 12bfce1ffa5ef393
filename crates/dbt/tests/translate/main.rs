//! Guest code run by the translator, in this process.
//!
//! All tests share one binary and take turns: the guest window, the code cache and the
//! branch table exist once in a process.

use relive_dbt::Pairs;

/// Calls and returns are jumps through the branch table.
const PAIRS: Pairs = Pairs::Never;
/// Branches keep to cache lines, as on most processors.
const SHORT_BLOCKS: bool = false;

include!("modules.rs");
