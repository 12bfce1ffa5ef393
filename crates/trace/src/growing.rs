//! The tapes of a recording that runs, as far as they have been written. Must never count an event of which a part is missing.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::event::TapeId;
use crate::files::open_regular;
use crate::reader::Scan;
use crate::writer::TAPES;

/// How far the tapes of a recording are.
pub struct GrowingTapes {
    path: PathBuf,
    file: File,
    scan: Scan,
    lengths: BTreeMap<TapeId, (usize, u64)>,
}

impl GrowingTapes {
    /// The tapes of the recording in a folder, before it is known how far they are.
    ///
    /// # Errors
    /// There are none.
    pub fn open(directory: &Path) -> Result<Self> {
        let path = directory.join(TAPES);
        Ok(Self {
            file: open_regular(&path)?,
            path,
            scan: Scan::default(),
            lengths: BTreeMap::new(),
        })
    }

    /// Looks how far they are now.
    ///
    /// # Errors
    /// They are damaged.
    pub fn look(&mut self) -> Result<()> {
        self.scan.go_on(&self.file, &self.path)?;
        for (id, chunks) in &self.scan.index {
            let (known, length) = self.lengths.entry(*id).or_default();
            let new = &chunks[*known..];
            *length += new
                .iter()
                .map(|chunk| u64::from(chunk.header.raw_len))
                .sum::<u64>();
            *known = chunks.len();
        }
        Ok(())
    }

    /// Bytes of events on a tape.
    #[must_use]
    pub fn length(&self, id: TapeId) -> u64 {
        self.lengths.get(&id).map_or(0, |(_, length)| *length)
    }

    /// The tapes that have begun.
    pub fn tapes(&self) -> impl Iterator<Item = TapeId> {
        self.lengths.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Manifest, TraceWriter};

    #[test]
    fn tapes_are_as_long_as_what_has_been_written() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("trace");
        let manifest = Manifest::new(Vec::new(), "/".into(), Vec::new());
        let mut writer = TraceWriter::create(&directory, &manifest).unwrap();
        let mut tapes = GrowingTapes::open(&directory).unwrap();
        let [one, two] = [0, 1].map(|thread| TapeId::new(0, thread));
        for n in 1..4 {
            writer.append(one, &[1; 100]).unwrap();
            writer.append(two, &[2; 10]).unwrap();
            writer.flush(one).unwrap();
            tapes.look().unwrap();
            assert_eq!((tapes.length(one), tapes.length(two)), (n * 100, 0));
        }
        writer.flush(two).unwrap();
        // A part of a chunk.
        let path = directory.join(TAPES);
        let whole = std::fs::read(&path).unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(whole.len() as u64 - 1)
            .unwrap();
        tapes.look().unwrap();
        assert_eq!(tapes.length(two), 0);
        std::fs::write(&path, &whole).unwrap();
        tapes.look().unwrap();
        assert_eq!((tapes.length(one), tapes.length(two)), (300, 30));
        assert!(tapes.tapes().eq([one, two]));
    }
}
