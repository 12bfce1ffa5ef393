//! Guest code run by the translator, in this process.
//!
//! All tests share one binary and take turns: the guest window, the code cache and the
//! branch table exist once in a process.

use relive_dbt::{Options, Pairs};

/// Calls and returns are jumps through the branch table.
const PAIRS: Pairs = Pairs::Never;
/// Programs that a random test runs.
const CASES: u32 = 1600;

/// Options of all tests of this binary: branches keep to cache lines, as on most processors.
fn base_options() -> Options {
    Options {
        pairs: PAIRS,
        short_blocks: false,
        loops: true,
        ..Options::default()
    }
}

include!("modules.rs");
