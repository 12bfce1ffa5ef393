//! Making a recording of what a flight recording has: the copies with which it begins write themselves down, and when all
//! images are there the tapes from the copies on follow. Half of a recording must never be left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use relive_trace::{
    BeginTape, Excerpt, FileStore, ImageSet, ImageWriter, IndexWriter, Summary, TapeId, TapeMark,
    TraceWriter, input_path,
};

use super::cut_choice::{FlightCut, FlightTree, SleepingCopy};
use super::{Flight, KeptFlight};
use crate::encoding;
use crate::failure::{Failure, Result};
use crate::image_stream::{Prologue, order};
use crate::shm::alive;

/// A recording that is being kept.
pub struct Keeping {
    folder: PathBuf,
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
}

/// Where the tapes go on behind a cut.
pub fn places(tree: &FlightTree, cut: &FlightCut) -> BTreeMap<TapeId, u64> {
    let copies = cut.keys().filter_map(|process| tree.copy(cut, *process));
    let marks = copies.flat_map(|copy| &copy.marks);
    marks.map(|(id, mark)| (*id, mark.offset)).collect()
}

impl Flight {
    /// Begins to keep what there is.
    pub(super) fn keep(&mut self) {
        let begun = self.begin_keeping();
        match begun {
            Ok(Some(keeping)) => {
                self.keeps += 1;
                self.keeping = Some(keeping);
            }
            Ok(None) => {
                let done = self.whole();
                self.note(done);
            }
            Err(failure) => self.note(Err(failure)),
        }
    }

    /// Wakes the copies with which the recording begins; `None`: everything is here from the program's beginning on.
    fn begin_keeping(&mut self) -> Result<Option<Keeping>> {
        if !self.forgot {
            return Ok(None);
        }
        self.look();
        let at = self.since().unwrap_or(self.began);
        let cut = self.tree.choose(at, true);
        let cut = cut.or_else(|| self.tree.choose(at, false));
        let cut = cut.ok_or_else(|| {
            Failure::setup(
                "nothing can be kept: copies of the processes are gone. Memory may be short",
            )
        })?;
        let copies = cut
            .keys()
            .filter_map(|process| Some((*process, self.tree.copy(&cut, *process)?.clone())));
        let copies: BTreeMap<u32, SleepingCopy> = copies.collect();
        let slots = || {
            let places = copies.values().map(|copy| copy.place);
            places.filter_map(|place| self.checkpoints().copy(place))
        };
        if slots().any(|slot| slot.writes()) {
            return Err(Failure::setup(
                "a recording that could not be kept is still being written: ask again",
            ));
        }
        let folder = self.folder();
        let writer =
            TraceWriter::create(&folder, &self.manifest.of_excerpt()).map_err(Failure::setup)?;
        let index = IndexWriter::create(&folder, ImageSet::Begin).map_err(Failure::setup)?;
        slots().for_each(|slot| slot.give(order::WRITE));
        Ok(Some(Keeping {
            folder,
            writer,
            index,
            cut,
            copies,
            images: BTreeMap::new(),
            lost: false,
        }))
    }

    /// Gives up if a copy will not write itself down.
    pub(super) fn check_keeping(&mut self) {
        let Some(keeping) = &self.keeping else {
            return;
        };
        let missing = keeping
            .copies
            .iter()
            .filter(|(process, _)| !keeping.images.contains_key(process));
        let lost = missing.into_iter().any(|(_, copy)| {
            let slot = self.checkpoints().copy(copy.place);
            !alive(copy.pid) || slot.is_none_or(|slot| slot.has_failed())
        });
        if !lost {
            return;
        }
        if keeping.lost {
            self.give_up(Failure::setup(
                "a copy of a process that was to be kept is gone: memory may be short",
            ));
        } else if let Some(keeping) = &mut self.keeping {
            keeping.lost = true;
        }
    }

    /// Puts the recording together, if all of its images have come.
    pub(super) fn finish_keeping(&mut self) {
        let whole = |keeping: &mut Keeping| keeping.images.len() == keeping.copies.len();
        let Some(keeping) = self.keeping.take_if(whole) else {
            return;
        };
        let folder = keeping.folder.clone();
        let done = self.finish(keeping);
        if done.is_err() {
            // Half of a recording is of no use.
            let _ = std::fs::remove_dir_all(folder);
        }
        self.note(done);
    }

    pub(super) fn give_up(&mut self, failure: Failure) {
        if let Some(keeping) = self.keeping.take() {
            let _ = std::fs::remove_dir_all(&keeping.folder);
            self.note(Err(failure));
        }
    }

    /// Keeps everything from the program's beginning on.
    fn whole(&mut self) -> Result<KeptFlight> {
        let folder = self.folder();
        let mut writer = TraceWriter::create(&folder, &self.manifest).map_err(Failure::setup)?;
        self.write(&mut writer, &BTreeMap::new(), |_| true)?;
        match &self.at_end {
            Some(summary) => writer.finish(Some(summary)).map(drop),
            // It is cut off there, as that of a recorder that was killed.
            None => writer.flush_all(),
        }
        .map_err(Failure::setup)?;
        Ok(KeptFlight {
            folder,
            span: self.began.elapsed(),
            whole: true,
        })
    }

    fn write(
        &self,
        writer: &mut TraceWriter,
        from: &BTreeMap<TapeId, u64>,
        needed: impl Fn(TapeId) -> bool,
    ) -> Result<()> {
        writer.add_pieces(&self.pieces).map_err(Failure::setup)?;
        let no = |e: std::io::Error| Failure::setup(format!("a recording cannot be kept: {e}"));
        self.copy_input(&input_path(writer.directory()))
            .map_err(no)?;
        let (theirs, ours) = (FileStore::new(&self.work), writer.files());
        for id in theirs.ids().map_err(Failure::setup)? {
            ours.take(id, &theirs).map_err(Failure::setup)?;
        }
        // Schedules last: before each turn all earlier events are there.
        let ids = self.tapes.ids().filter(|id| needed(*id));
        let (schedules, others): (Vec<_>, Vec<_>) = ids.partition(|id| id.is_schedule());
        for id in others.into_iter().chain(schedules) {
            let place = from.get(&id).copied().unwrap_or(0);
            self.tapes
                .read(id, place, |bytes| {
                    writer.append(id, bytes).map_err(std::io::Error::other)
                })
                .map_err(no)?;
        }
        Ok(())
    }

    /// Copies the input from the first byte on that is still there.
    fn copy_input(&self, to: &Path) -> std::io::Result<()> {
        let from = input_path(&self.work);
        if self.input == 0 {
            return std::fs::copy(from, to).map(drop);
        }
        let mut from = File::open(from)?;
        from.seek(SeekFrom::Start(self.input))?;
        std::io::copy(&mut from, &mut File::options().write(true).open(to)?).map(drop)
    }

    fn finish(&self, keeping: Keeping) -> Result<KeptFlight> {
        let span = keeping.span();
        let Keeping {
            folder,
            mut writer,
            mut index,
            cut,
            images,
            ..
        } = keeping;
        let needed = |id: TapeId| self.tree.needs(&cut, id);
        let states = || images.values().map(|(prologue, _)| &prologue.state);
        let marks: BTreeMap<TapeId, TapeMark> = states().flat_map(|state| state.marks()).collect();
        let (order, gaps) = self.outputs(&cut, &marks)?;
        let excerpt = Excerpt {
            images: index.number(),
            order,
            processes: states().map(|state| state.begins()).collect(),
            tapes: marks
                .iter()
                .map(|(id, mark)| BeginTape::new(*id, *mark))
                .collect(),
            cut: self.at_end.is_none(),
            gaps,
            input: self.input,
        };
        for (prologue, mut image) in images.into_values() {
            image.describe(prologue.head(0), encoding::to_bytes(&prologue.state));
            image.finish(&mut index).map_err(Failure::setup)?;
        }
        self.write(&mut writer, &places(&self.tree, &cut), needed)?;
        index.finish().map_err(Failure::setup)?;
        writer.begins(excerpt);
        let summary = self.at_end.as_ref();
        let summary = summary.map(|whole| self.part(whole, needed, &marks, span));
        writer.finish(summary.as_ref()).map_err(Failure::setup)?;
        Ok(KeptFlight {
            folder,
            span,
            whole: false,
        })
    }

    /// The number of the first output behind a cut, and the ranges of later ones that came before it: those of processes
    /// that are cut later, or had ended.
    fn outputs(
        &self,
        cut: &FlightCut,
        marks: &BTreeMap<TapeId, TapeMark>,
    ) -> Result<(u64, Vec<(u64, u64)>)> {
        let (mut first, last) = self.tree.lacks(cut);
        let mut there = Vec::new();
        let tapes = self
            .tapes
            .ids()
            .filter(|id| !id.is_schedule() && self.tree.needs(cut, *id));
        for id in tapes.filter(|_| first < last) {
            let from = marks.get(&id).copied().unwrap_or_default();
            let found = self.tapes.outputs(id, from, last, &mut there);
            found.map_err(Failure::setup)?;
        }
        there.sort_unstable();
        let (mut gaps, mut next) = (Vec::new(), first);
        for order in there.into_iter().chain([last.max(first)]) {
            match next < order {
                true if next == first => first = order,
                true => gaps.push((next, order)),
                false => {}
            }
            next = order + 1;
        }
        Ok((first, gaps))
    }

    /// The totals of the part behind a cut.
    fn part(
        &self,
        whole: &Summary,
        needed: impl Fn(TapeId) -> bool,
        marks: &BTreeMap<TapeId, TapeMark>,
        span: Duration,
    ) -> Summary {
        let mut part = Summary {
            events: 0,
            ticks: 0,
            threads: 0,
            processes: 0,
            wall_ms: span.as_millis() as u64,
            ..whole.clone()
        };
        let mut processes = BTreeSet::new();
        for (id, (events, ticks)) in self.ended.iter().filter(|(id, _)| needed(**id)) {
            let before = marks.get(id).copied().unwrap_or_default();
            part.events += events.saturating_sub(before.event);
            part.ticks += ticks.saturating_sub(before.ticks);
            part.threads += 1;
            processes.insert(id.process);
        }
        part.processes = processes.len() as u64;
        part
    }
}
