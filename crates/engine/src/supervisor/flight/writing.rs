//! Writing what a flight recording has into the folder of a recording: tapes, input, copies of files. Must never change what
//! is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use relive_trace::{FileId, FileStore, Piece, TapeId, TraceWriter, input_path};

use super::cut_choice::{FlightCut, NeededTapes};
use super::flight_store::{FlightPart, FlightStore, KeptFlight};
use crate::failure::{Failure, Result};

impl FlightStore {
    /// Makes a recording in an empty folder of everything from the program's beginning on.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_whole(&self, folder: &Path) -> Result<KeptFlight> {
        let mut writer = TraceWriter::create(folder, &self.manifest).map_err(Failure::setup)?;
        self.write_input(&mut writer)?;
        self.write_files(&writer)?;
        self.write_tapes(&mut writer, &BTreeMap::new(), &NeededTapes::all())?;
        writer
            .finish(self.at_end.as_ref())
            .map_err(Failure::setup)?;
        Ok(KeptFlight {
            folder: folder.to_owned(),
            span: self.began.elapsed(),
            part: FlightPart::Whole,
        })
    }

    /// Writes the tapes behind a cut.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_behind(&self, writer: &mut TraceWriter, cut: &FlightCut) -> Result<()> {
        self.write_tapes(writer, &self.places(cut), &self.tree.needed(cut))
    }

    /// Writes all tapes, some of them from a place on.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_tapes(
        &self,
        writer: &mut TraceWriter,
        from: &BTreeMap<TapeId, u64>,
        needed: &NeededTapes,
    ) -> Result<()> {
        // Schedules last: before each turn all earlier events are there.
        let ids = self.tapes.ids().filter(|id| needed.has(*id));
        let (schedules, others): (Vec<_>, Vec<_>) = ids.partition(|id| id.is_schedule());
        for id in others.into_iter().chain(schedules) {
            let place = from.get(&id).copied().unwrap_or(0);
            let written = self.tapes.read(id, place, |bytes| {
                writer.append(id, bytes).map_err(std::io::Error::other)
            });
            written.map_err(not_written)?;
        }
        Ok(())
    }

    /// Puts the copies of files into a recording that are not there yet.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_files(&self, writer: &TraceWriter) -> Result<()> {
        let (theirs, ours) = (FileStore::new(&self.work), writer.files());
        let there: BTreeSet<FileId> = ours.ids().map_err(Failure::setup)?.into_iter().collect();
        let all = theirs.ids().map_err(Failure::setup)?;
        for id in all.into_iter().filter(|id| !there.contains(id)) {
            ours.take(id, &theirs).map_err(Failure::setup)?;
        }
        Ok(())
    }

    /// Copies the input that is still there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_input(&self, writer: &mut TraceWriter) -> Result<()> {
        writer.add_pieces(&self.pieces).map_err(Failure::setup)?;
        let to = File::options()
            .write(true)
            .open(input_path(writer.directory()));
        to.and_then(|to| self.copy_input(to)).map_err(not_written)
    }

    /// Gives a recording the store of input itself, which has a hole where it has gone. Whether file systems can do that:
    /// else [`FlightStore::own_input`] is to follow.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn share_input(&self, writer: &mut TraceWriter) -> Result<bool> {
        let hole = Piece {
            end: self.input,
            sum: 0,
        };
        let hole = (hole.end > 0).then_some(hole);
        let pieces: Vec<Piece> = hole
            .into_iter()
            .chain(self.pieces.iter().copied())
            .collect();
        writer.add_pieces(&pieces).map_err(Failure::setup)?;
        let to = input_path(writer.directory());
        std::fs::remove_file(&to).map_err(not_written)?;
        Ok(std::fs::hard_link(input_path(&self.work), to).is_ok())
    }

    /// Gives such a recording a store of input of its own: the other one goes on.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn own_input(&self, folder: &Path) -> Result<()> {
        let (to, new) = (input_path(folder), folder.join(".input.new"));
        let copied = || {
            let mut to = File::options()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&new)?;
            to.seek(SeekFrom::Start(self.input))?;
            self.copy_input(to)
        };
        copied()
            .and_then(|()| std::fs::rename(&new, to))
            .map_err(not_written)
    }

    /// Copies the input from the first byte on that is still there to where a file stands.
    fn copy_input(&self, mut to: File) -> std::io::Result<()> {
        let mut from = File::open(input_path(&self.work))?;
        from.seek(SeekFrom::Start(self.input))?;
        std::io::copy(&mut from, &mut to).map(drop)
    }
}

fn not_written(error: std::io::Error) -> Failure {
    Failure::setup(format!("a recording cannot be kept: {error}"))
}
