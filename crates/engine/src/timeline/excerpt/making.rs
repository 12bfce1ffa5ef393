//! Writing an excerpt: images first, then copies of files, then tapes; it is none before all is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use relive_trace::{
    BeginTape, Excerpt, FileStore, ImageHead, ImageSet, IndexWriter, Recorder, Summary, TapeId,
    TapeMark, TapePart, Trace, TraceWriter, copy_parts,
};

use super::begun_tapes::{self, TapeStarts};
use super::cut_place::CutPlace;
use super::others::{self, BeginCut};
use super::tape_notes::AllNotes;
use super::tree_ends;
use crate::failure::{Failure, Result};
use crate::file_copies;
use crate::session_state::LAYOUT;

/// An excerpt that was made.
#[derive(Clone, Debug, Default)]
pub struct Excerpted {
    /// Processes with which it begins.
    pub processes: u64,
    /// Events on its tapes.
    pub events: u64,
    /// Bytes of its images.
    pub images: u64,
    /// Bytes of its tapes.
    pub tapes: u64,
    /// Copies of files.
    pub files: u64,
}

/// Writes an excerpt into an empty folder. It begins with a process where it is described, and ends where
/// `end` says, or with the recording.
///
/// # Errors
/// The recording is one that cannot be cut there, or is damaged; the folder cannot be written.
pub fn make_excerpt(
    trace: &Trace,
    begin: CutPlace,
    end: Option<&CutPlace>,
    folder: &Path,
) -> Result<Excerpted> {
    let starts = TapeStarts::of(trace)?;
    let notes = AllNotes::of(trace, &starts)?;
    let BeginCut {
        places: mut begins,
        order,
    } = others::begin(trace, &starts, &notes, begin)?;
    let mut excerpt = Excerpt {
        images: 0,
        order,
        processes: begins.iter().map(|at| at.state.begins()).collect(),
        tapes: Vec::new(),
        cut: end.is_some() || trace.is_cut(),
        gaps: others::gaps(trace, order),
        input: 0,
    };
    let marks: BTreeMap<TapeId, TapeMark> = begins.iter().flat_map(|at| at.state.marks()).collect();
    excerpt.tapes = marks
        .iter()
        .map(|(id, mark)| BeginTape::new(*id, *mark))
        .collect();
    let threads = excerpt.processes.iter().map(|p| (p.process, p.threads));
    let begun = |id: TapeId| marks.get(&id).map_or(0, |mark| mark.event);
    let cut = end
        .map(|end| tree_ends::ends(trace, &notes, end, &begun))
        .transpose()?;
    let ends = |id: TapeId| cut.as_ref().and_then(|cut| cut.get(&id).copied());
    let parts = begun_tapes::parts(trace, &starts, &marks, &threads.collect(), &ends)?;
    let manifest = trace.manifest();
    let mut own = manifest.of_excerpt();
    if trace.has_found_turns() {
        // Its tapes have the turns, as if threads had taken them.
        (own.recorder, own.sites) = (Recorder::Serial, Vec::new());
    }
    let mut writer = TraceWriter::create(folder, &own).map_err(Failure::setup)?;
    let mut images = IndexWriter::create(folder, ImageSet::Begin).map_err(Failure::setup)?;
    excerpt.images = images.number();
    for at in &mut begins {
        write_image(at, &mut images)?;
    }
    let mut made = Excerpted {
        processes: begins.len() as u64,
        images: images.finish().map_err(Failure::setup)?,
        ..Excerpted::default()
    };
    let mut files = BTreeSet::new();
    for at in &begins {
        file_copies::of_state(&at.state, &mut files);
    }
    let mut totals = ExcerptTotals::default();
    for part in &parts {
        totals.begin(part);
        begun_tapes::each(trace, part, |event, _| {
            totals.add(event.ticks);
            file_copies::of_event(event, &mut files)
        })?;
    }
    let store = writer.files();
    for id in &files {
        store
            .take(*id, &FileStore::new(trace.directory()))
            .map_err(Failure::setup)?;
    }
    copy_parts(trace, &parts, &mut writer).map_err(Failure::setup)?;
    writer.begins(excerpt).map_err(Failure::setup)?;
    let whole = manifest.summary.as_ref().filter(|_| end.is_none());
    let summary = whole.map(|whole| totals.summary(whole));
    let finished = writer.finish(summary.as_ref()).map_err(Failure::setup)?;
    made.events = totals.events;
    made.tapes = finished.tapes_length.unwrap_or(0);
    made.files = files.len() as u64;
    Ok(made)
}

fn write_image(at: &mut CutPlace, images: &mut IndexWriter) -> Result<()> {
    let begins = at.state.begins();
    let head = ImageHead {
        layout: LAYOUT,
        process: begins.process,
        event: begins.event,
        turn: at.status.point.turn,
        ticks: at.status.point.ticks,
        work: begins.work,
        // The manifest says which image begins the tapes.
        tapes: 0,
        order: 0,
    };
    let mut image = images.image(head, std::mem::take(&mut at.bytes));
    for range in &at.pages {
        let mut addr = range.start;
        while addr < range.end {
            let bytes = at.host.content(addr, range.end)?;
            image
                .add(images, addr, &bytes, range.blank)
                .map_err(Failure::setup)?;
            addr += bytes.len() as u64;
        }
    }
    image.finish(images).map_err(Failure::setup)
}

/// Sums over the tapes of an excerpt.
#[derive(Default)]
struct ExcerptTotals {
    processes: BTreeSet<u32>,
    threads: u64,
    events: u64,
    ticks: u64,
    /// Of the tape at hand.
    last: u64,
}

impl ExcerptTotals {
    fn begin(&mut self, part: &TapePart) {
        self.processes.insert(part.id.process);
        self.threads += u64::from(!part.id.is_schedule());
        self.last = part.from.ticks;
    }

    fn add(&mut self, ticks: u64) {
        self.events += 1;
        self.ticks += ticks.saturating_sub(self.last);
        self.last = ticks;
    }

    /// Of a part that goes to the end of a recording with this summary.
    fn summary(&self, whole: &Summary) -> Summary {
        Summary {
            exit: whole.exit,
            asleep: whole.asleep,
            processes: self.processes.len() as u64,
            threads: self.threads,
            events: self.events,
            ticks: self.ticks,
            raw_bytes: 0,
            stored_bytes: 0,
            // Tapes do not tell it.
            wall_ms: 0,
        }
    }
}
