//! A recording of all that happens from a moment on, up to the program's end or until it is asked to stop: it has begun as
//! one that is kept, and tapes go on into its folder from then on. A failure to write ends it where it is, and not the
//! program. Must never be taken for more than it has: as long as it goes on it counts as one that was cut off.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use relive_trace::{Kind, Piece, TapeId, Trace, TraceWriter};

use super::cut_choice::NeededTapes;
use super::flight_store::{FlightPart, FlightStore, KeptFlight, output_gaps};
use super::keeping::{Assembled, ExcerptBegins};
use crate::failure::{Failure, Result};

/// Time between two looks for new copies of files.
const FILES: Duration = Duration::from_secs(1);

/// See the module.
pub struct Onward {
    folder: PathBuf,
    writer: TraceWriter,
    /// `None`: with the program.
    begins: Option<ExcerptBegins>,
    needed: NeededTapes,
    shares_input: bool,
    began: Instant,
    looked: Instant,
    failure: Option<Failure>,
}

impl Onward {
    /// Goes on behind what has been kept.
    pub fn behind(kept: Assembled) -> Self {
        let began = Instant::now().checked_sub(kept.span);
        Self {
            folder: kept.folder,
            writer: kept.writer,
            begins: Some(kept.begins),
            needed: kept.needed,
            shares_input: kept.shares_input,
            began: began.unwrap_or_else(Instant::now),
            looked: Instant::now(),
            failure: None,
        }
    }

    /// Of a program of which all is still there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn from_beginning(store: &FlightStore, folder: &Path) -> Result<Self> {
        let mut writer = TraceWriter::create(folder, &store.manifest).map_err(Failure::setup)?;
        let (needed, shares_input) = (NeededTapes::all(), store.share_input(&mut writer)?);
        store.write_files(&writer)?;
        store.write_tapes(&mut writer, &Default::default(), &needed)?;
        Ok(Self {
            folder: folder.to_owned(),
            writer,
            begins: None,
            needed,
            shares_input,
            began: store.began,
            looked: Instant::now(),
            failure: None,
        })
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it is by now.
    pub fn sofar(&self) -> KeptFlight {
        KeptFlight {
            folder: self.folder.clone(),
            span: self.began.elapsed(),
            part: match self.begins {
                Some(_) => FlightPart::FromNow,
                None => FlightPart::Whole,
            },
        }
    }

    /// Why nothing more is written, if so.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Does something to the recording, as long as nothing has failed.
    fn with(&mut self, does: impl FnOnce(&mut TraceWriter) -> relive_trace::Result<()>) {
        if self.failure.is_none() {
            self.failure = does(&mut self.writer).err().map(Failure::setup);
        }
    }

    /// Adds bytes to a tape.
    pub fn append(&mut self, tape: TapeId, bytes: &[u8]) {
        if self.needed.has(tape) {
            self.with(|writer| writer.append(tape, bytes));
        }
    }

    /// Notes pieces of input, before events that refer to them.
    pub fn add_pieces(&mut self, pieces: &[Piece]) {
        self.with(|writer| writer.add_pieces(pieces));
    }

    /// Writes what has been collected for a tape, or for all.
    pub fn flush(&mut self, tape: Option<TapeId>) {
        self.with(|writer| match tape {
            Some(tape) => writer.flush(tape),
            None => writer.flush_all(),
        });
    }

    /// Takes copies of files along, now and then.
    pub fn tick(&mut self, store: &FlightStore) {
        if self.looked.elapsed() >= FILES && self.failure.is_none() {
            self.looked = Instant::now();
            self.failure = store.write_files(&self.writer).err();
        }
    }

    /// Ends it here.
    ///
    /// # Errors
    /// Something could not be written: then it is one that was cut off.
    pub fn finish(mut self, store: &FlightStore) -> Result<KeptFlight> {
        let kept = self.sofar();
        self.flush(None);
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        store.write_files(&self.writer)?;
        let goes_on = store.at_end.is_none();
        if goes_on || !self.shares_input {
            store.own_input(&self.folder)?;
        }
        let summary = match &mut self.begins {
            Some(begins) => {
                begins.excerpt.cut = goes_on;
                let (order, gaps) = outputs(&self.folder, begins.outputs)?;
                (begins.excerpt.order, begins.excerpt.gaps) = (order, gaps);
                let excerpt = begins.excerpt.clone();
                self.writer.begins(excerpt).map_err(Failure::setup)?;
                store.part(&self.needed, &begins.marks, kept.span)
            }
            None => store.at_end.clone(),
        };
        self.writer
            .finish(summary.as_ref())
            .map_err(Failure::setup)?;
        Ok(kept)
    }
}

/// The number of the first output that the recording has, of those in this range, and the ranges of later ones that it has
/// not: threads number an output before they log it, so that some have come behind its beginning.
fn outputs(folder: &Path, (first, last): (u64, u64)) -> Result<(u64, Vec<(u64, u64)>)> {
    let mut there = Vec::new();
    if first < last {
        let trace = Trace::open_recorded(folder).map_err(Failure::setup)?;
        let tapes = trace.tapes().iter().filter(|tape| !tape.id.is_schedule());
        for tape in tapes {
            let mut events = trace.tape(tape.id).map_err(Failure::setup)?;
            while let Some(event) = events.next().map_err(Failure::setup)? {
                let order = match event.kind {
                    Kind::Syscall(call) => call.order,
                    _ => None,
                };
                match order {
                    Some(order) if order < last => there.push(order),
                    Some(_) => break,
                    None => {}
                }
            }
        }
    }
    Ok(output_gaps(first, last, there))
}
