//! The same tests once more, with calls and returns as pairs.

use relive_dbt::Pairs;

const PAIRS: Pairs = Pairs::Always;

include!("modules.rs");
