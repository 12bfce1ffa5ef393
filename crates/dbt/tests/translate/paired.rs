//! The same tests once more, with calls and returns as pairs and branches in short blocks.

use relive_dbt::{Options, Pairs};

const PAIRS: Pairs = Pairs::Always;
const CASES: u32 = 1600;

fn base_options() -> Options {
    Options {
        pairs: PAIRS,
        short_blocks: true,
        loops: true,
        ..Options::default()
    }
}

include!("modules.rs");
