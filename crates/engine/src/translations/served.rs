//! Kept translations as a supervisor hands them to a replay.

use std::fs::File;

use super::checked;
use super::store::Store;
use crate::file_table::FileTable;

/// The kept translations, for a replay, which opens nothing itself.
pub struct Served(Store);

impl Served {
    /// The folder that the environment names.
    pub fn requested() -> Option<Self> {
        Store::requested().map(Self)
    }

    /// Translations with a key, and whether they have been checked.
    pub fn open(&self, key: u128) -> Option<(File, bool)> {
        let (file, meta) = self.0.open(key)?;
        let checked = checked::is_noted(&self.0, key, FileTable::stamp(&meta));
        Some((file, checked))
    }
}
