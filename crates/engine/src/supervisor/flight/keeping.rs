//! Making a recording of what a flight recording has: the copies with which it begins write themselves down, and when all
//! images are there the tapes from the copies on follow. Half of a recording must never be left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use relive_trace::{
    BeginTape, Excerpt, ImageSet, ImageWriter, IndexWriter, TapeId, TapeMark, TraceWriter,
};

use super::cut_choice::{FlightCut, NeededTapes, SleepingCopy};
use super::flight_store::{FlightPart, FlightStore, KeptFlight};
use crate::encoding;
use crate::failure::{Failure, Result};
use crate::image_stream::{Checkpoints, Prologue, order};

/// A recording that is being kept.
pub struct Keeping {
    /// Its folder.
    pub folder: PathBuf,
    writer: TraceWriter,
    /// Where its images go.
    pub index: IndexWriter,
    cut: FlightCut,
    /// The copies that write themselves down, by process.
    copies: BTreeMap<u32, SleepingCopy>,
    /// Those that have done so.
    images: BTreeMap<u32, (Prologue, ImageWriter)>,
    /// A copy will not do so; the next look finds all that it has sent.
    lost: bool,
}

impl Keeping {
    /// Wakes the copies with which a recording in an empty folder begins.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(
        store: &FlightStore,
        checkpoints: &Checkpoints,
        cut: FlightCut,
        folder: &Path,
    ) -> Result<Self> {
        let copies = cut.keys().filter_map(|index| {
            let copy = store.tree.copy(&cut, *index)?;
            Some((*index, copy.clone()))
        });
        let copies: BTreeMap<u32, SleepingCopy> = copies.collect();
        let slots = || {
            let places = copies.values().map(|copy| copy.place);
            places.filter_map(|place| checkpoints.copy(place))
        };
        if slots().any(|slot| slot.writes()) {
            return Err(Failure::setup(
                "a recording that could not be kept is still being written: ask again",
            ));
        }
        let manifest = store.manifest.of_excerpt();
        let writer = TraceWriter::create(folder, &manifest).map_err(Failure::setup)?;
        let index = IndexWriter::create(folder, ImageSet::Begin).map_err(Failure::setup)?;
        slots().for_each(|slot| slot.give(order::WRITE));
        Ok(Self {
            folder: folder.to_owned(),
            writer,
            index,
            cut,
            copies,
            images: BTreeMap::new(),
            lost: false,
        })
    }

    /// An image has come as a whole.
    ///
    /// # Errors
    /// It is of another copy.
    pub fn has_come(&mut self, prologue: Prologue, image: ImageWriter) -> Result<()> {
        let process = prologue.state.process.index;
        let copy = self.copies.get(&process);
        if copy.is_none_or(|copy| copy.marks != prologue.state.marks()) {
            return Err(Failure::internal(
                "a copy of a process that nobody has asked for",
            ));
        }
        self.images.insert(process, (prologue, image));
        Ok(())
    }

    fn span(&self) -> Duration {
        let spans = self.copies.values().map(|copy| copy.taken.elapsed());
        spans.min().unwrap_or_default()
    }

    /// Whether all images have come.
    pub fn is_whole(&self) -> bool {
        self.images.len() == self.copies.len()
    }

    /// Whether a copy will not write itself down, and all that it has sent has been read: this is the second look that
    /// finds it so.
    pub fn is_lost(&mut self, checkpoints: &Checkpoints) -> bool {
        let mut missing = self.copies.iter();
        let lost = missing.any(|(process, copy)| {
            let slot = checkpoints.copy(copy.place);
            let failed = slot.is_some_and(|slot| slot.has_failed());
            let gone = failed || !checkpoints.copy_lives(copy.place);
            gone && !self.images.contains_key(process)
        });
        let before = std::mem::replace(&mut self.lost, lost);
        before && lost
    }

    /// Puts the recording together, whose images are there; `goes_on`: with the store of input itself.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn assemble(self, store: &FlightStore, goes_on: bool) -> Result<Assembled> {
        let span = self.span();
        let Self {
            folder,
            mut writer,
            mut index,
            cut,
            images,
            ..
        } = self;
        let states = || images.values().map(|(prologue, _)| &prologue.state);
        let marks: BTreeMap<TapeId, TapeMark> = states().flat_map(|state| state.marks()).collect();
        let (order, gaps) = store.outputs(&cut, &marks)?;
        let excerpt = Excerpt {
            images: index.number(),
            order,
            processes: states().map(|state| state.begins()).collect(),
            tapes: marks
                .iter()
                .map(|(id, mark)| BeginTape::new(*id, *mark))
                .collect(),
            cut: goes_on || store.at_end.is_none(),
            gaps,
            input: if goes_on { 0 } else { store.input },
        };
        for (prologue, mut image) in images.into_values() {
            image.describe(prologue.head(0), encoding::to_bytes(&prologue.state));
            image.finish(&mut index).map_err(Failure::setup)?;
        }
        let shares_input = match goes_on {
            true => store.share_input(&mut writer)?,
            false => {
                store.write_input(&mut writer)?;
                false
            }
        };
        store.write_files(&writer)?;
        store.write_behind(&mut writer, &cut)?;
        index.finish().map_err(Failure::setup)?;
        // Who finds a beginning finds the tapes from there on.
        writer.flush_all().map_err(Failure::setup)?;
        writer.begins(excerpt.clone()).map_err(Failure::setup)?;
        Ok(Assembled {
            folder,
            writer,
            needed: store.tree.needed(&cut),
            begins: ExcerptBegins {
                outputs: store.tree.lacks(&cut),
                marks,
                excerpt,
            },
            shares_input,
            span,
        })
    }
}

/// Where a recording begins that does not with its program.
pub struct ExcerptBegins {
    /// As the manifest has it.
    pub excerpt: Excerpt,
    /// Where the tapes go on.
    pub marks: BTreeMap<TapeId, TapeMark>,
    /// All outputs that it lacks have numbers in this range.
    pub outputs: (u64, u64),
}

/// A recording that has all that there is by now.
pub struct Assembled {
    /// Its folder.
    pub folder: PathBuf,
    /// What writes it.
    pub writer: TraceWriter,
    /// Where it begins.
    pub begins: ExcerptBegins,
    /// Its tapes.
    pub needed: NeededTapes,
    /// Its store of input is the one to which the program goes on to write.
    pub shares_input: bool,
    /// The time that it covers.
    pub span: Duration,
}

impl Assembled {
    /// Nothing follows.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self, store: &FlightStore) -> Result<KeptFlight> {
        let summary = store.part(&self.needed, &self.begins.marks, self.span);
        let finished = self.writer.finish(summary.as_ref());
        finished.map_err(Failure::setup)?;
        Ok(KeptFlight {
            folder: self.folder,
            span: self.span,
            part: FlightPart::Last,
        })
    }
}
