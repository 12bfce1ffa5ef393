//! The same tests once more, with calls and returns as pairs and branches in short blocks.

use relive_dbt::Pairs;

const PAIRS: Pairs = Pairs::Always;
const SHORT_BLOCKS: bool = true;

include!("modules.rs");
