//! What a flight recording has: the last part of the tapes in memory, the pieces of input that they name, the processes and
//! their copies. Must never forget anything behind the cut with which a kept recording would begin.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use relive_trace::{
    DecodeError, Decoder, Kind, Manifest, Piece, RecentTapes, Summary, TapeId, TapeMark, input_path,
};
use rustix::fs::{FallocateFlags, fallocate};

use super::cut_choice::{FlightCut, FlightTree, NeededTapes};
use crate::course::Clock;
use crate::failure::{Failure, Result};
use crate::image_stream::CopyPlace;

/// A recording that was kept.
#[derive(Clone, Debug)]
pub struct KeptFlight {
    /// Its folder.
    pub folder: PathBuf,
    /// The time that it covers.
    pub span: Duration,
    /// The part of the run that it has.
    pub part: FlightPart,
}

/// The part of a run that a kept recording has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlightPart {
    /// It begins with the program.
    Whole,
    /// The last part, up to when it was kept.
    Last,
    /// All since somebody asked for what would come.
    FromNow,
}

/// The totals of a tape that has ended: events and ticks.
type EndedTape = (u64, u64);

/// See the module.
pub struct FlightStore {
    /// The recording's, as from its beginning on.
    pub manifest: Manifest,
    /// The folder of copies of files and of input.
    pub work: PathBuf,
    /// The tapes.
    pub tapes: RecentTapes,
    ended: BTreeMap<TapeId, EndedTape>,
    /// The pieces of input behind `input`: what stands before has gone.
    pub(super) pieces: Vec<Piece>,
    /// Where input begins that is still there.
    pub input: u64,
    /// The processes and their copies.
    pub tree: FlightTree,
    /// Of the cut up to which tapes have gone: how often copies of files had been set aside before its first copy was made.
    pub files: u32,
    /// When the recording began.
    pub began: Instant,
    /// The program has ended: its totals.
    pub at_end: Option<Summary>,
}

impl FlightStore {
    /// Of a recording whose processes write their copies of files into the folder `work`.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(manifest: Manifest, work: &Path) -> Result<Self> {
        Ok(Self {
            manifest,
            work: work.to_owned(),
            tapes: RecentTapes::new().map_err(Failure::setup)?,
            ended: BTreeMap::new(),
            pieces: Vec::new(),
            input: 0,
            tree: FlightTree::default(),
            files: 0,
            began: Instant::now(),
            at_end: None,
        })
    }

    /// Adds bytes to a tape.
    ///
    /// # Errors
    /// There is no memory; the tape does not begin as one.
    pub fn append(&mut self, tape: TapeId, bytes: &[u8]) -> Result<()> {
        self.tapes.append(tape, bytes).map_err(Failure::setup)?;
        match tape.thread == 0 && self.tree.awaits(tape.process) {
            true => self.begins(tape),
            false => Ok(()),
        }
    }

    /// Bytes of a tape have gone elsewhere.
    ///
    /// # Errors
    /// As [`FlightStore::append`].
    pub fn pass(&mut self, tape: TapeId, bytes: &[u8]) -> Result<()> {
        if self.tree.awaits(tape.process) {
            self.append(tape, bytes)?;
            if !self.tree.awaits(tape.process) {
                self.tapes.pass(tape, 0);
            }
        } else {
            self.tapes.pass(tape, bytes.len() as u64);
        }
        Ok(())
    }

    /// What stands on tapes up to now has gone, or is not needed. Gives the copies of no use any more.
    pub fn start_over(&mut self) -> Vec<CopyPlace> {
        let ids: Vec<TapeId> = self.tapes.ids().collect();
        for id in ids {
            // How a process begins must be seen as a whole.
            if !self.tree.awaits(id.process) {
                self.tapes.pass(id, 0);
            }
        }
        self.tree.start_over()
    }

    /// A process begins with the first event of its first tape.
    fn begins(&mut self, tape: TapeId) -> Result<()> {
        let (mut decoder, mut clock) = (Decoder::new(), Clock::default());
        let mut bytes = self.tapes.beginning(tape);
        let parent = loop {
            let (event, len) = match decoder.decode(bytes) {
                Ok(found) => found,
                // The rest comes with the next bytes.
                Err(DecodeError::Incomplete) => return Ok(()),
                Err(error) => return Err(Failure::internal(error)),
            };
            match event.kind {
                // When it was there, and what it comes behind.
                kind if clock.read(event.ticks, &kind).is_some() => bytes = &bytes[len..],
                Kind::Start(start) => break Some(start.parent.process),
                _ => break None,
            }
        };
        let parent = parent.filter(|parent| *parent < tape.process);
        self.tree.born(tape.process, parent, Instant::now());
        Ok(())
    }

    /// Pieces of the store of input, to which later events may refer.
    pub fn add_pieces(&mut self, pieces: &[Piece]) {
        self.pieces.extend_from_slice(pieces);
    }

    /// A tape has ended, with so many events and ticks.
    pub fn tape_ended(&mut self, tape: TapeId, events: u64, ticks: u64) {
        self.ended.insert(tape, (events, ticks));
    }

    /// No recording will begin before this cut: forgets what stands before. Gives the copies of no use any more.
    pub fn forget_before(&mut self, cut: &FlightCut) -> Vec<CopyPlace> {
        let (places, needed) = (self.places(cut), self.tree.needed(cut));
        let copies = cut.keys().filter_map(|index| self.tree.copy(cut, *index));
        self.files = copies.map(|copy| copy.tree.files).min().unwrap_or(0);
        self.tapes.forget(&places, |id| needed.has(id));
        self.ended.retain(|id, _| needed.has(*id));
        let floor = self.tree.floor(cut);
        if floor > self.input {
            self.forget_input(floor);
        }
        self.tree.trim(cut)
    }

    /// No tape refers to input before this offset any more.
    fn forget_input(&mut self, floor: u64) {
        self.pieces.retain(|piece| piece.end > floor);
        self.input = floor;
        let store = File::options().write(true).open(input_path(&self.work));
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched = store.and_then(|store| Ok(fallocate(&store, hole, 0, floor)?));
        if let Err(error) = punched {
            // It only takes room.
            tracing::debug!(target: "flight", "input stays: {error}");
        }
    }

    /// Where the tapes go on behind a cut.
    pub(super) fn places(&self, cut: &FlightCut) -> BTreeMap<TapeId, u64> {
        let copies = cut.keys().filter_map(|index| self.tree.copy(cut, *index));
        let marks = copies.flat_map(|copy| &copy.marks);
        marks.map(|(id, mark)| (*id, mark.offset)).collect()
    }

    /// The number of the first output behind a cut, and the ranges of later ones that came before it: those of processes
    /// that are cut later, or had ended.
    ///
    /// # Errors
    /// A tape is damaged.
    pub fn outputs(
        &self,
        cut: &FlightCut,
        marks: &BTreeMap<TapeId, TapeMark>,
    ) -> Result<(u64, Vec<(u64, u64)>)> {
        let ((first, last), needed) = (self.tree.lacks(cut), self.tree.needed(cut));
        let mut there = Vec::new();
        let tapes = self.tapes.ids();
        let tapes = tapes.filter(|id| !id.is_schedule() && needed.has(*id));
        for id in tapes.filter(|_| first < last) {
            let from = marks.get(&id).copied().unwrap_or_default();
            let found = self.tapes.outputs(id, from, last, &mut there);
            found.map_err(Failure::setup)?;
        }
        Ok(output_gaps(first, last, there))
    }

    /// The totals of the part that has these tapes, which covers that time, if the program has ended.
    pub fn part(
        &self,
        needed: &NeededTapes,
        marks: &BTreeMap<TapeId, TapeMark>,
        span: Duration,
    ) -> Option<Summary> {
        let whole = self.at_end.as_ref()?;
        let mut part = Summary {
            events: 0,
            ticks: 0,
            threads: 0,
            processes: 0,
            wall_ms: span.as_millis() as u64,
            ..whole.clone()
        };
        let mut processes = BTreeSet::new();
        for (id, (events, ticks)) in self.ended.iter().filter(|(id, _)| needed.has(**id)) {
            let before = marks.get(id).copied().unwrap_or_default();
            part.events += events.saturating_sub(before.event);
            part.ticks += ticks.saturating_sub(before.ticks);
            part.threads += 1;
            processes.insert(id.process);
        }
        part.processes = processes.len() as u64;
        Some(part)
    }
}

/// The number of the first output that is there of those from `first` up to and without `last`, and the ranges of later ones that are not.
pub fn output_gaps(mut first: u64, last: u64, mut there: Vec<u64>) -> (u64, Vec<(u64, u64)>) {
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
    (first, gaps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_trace::{Encoder, Event, Origin, Start};

    fn bytes(kinds: &[Kind<'_>]) -> Vec<u8> {
        let (mut encoder, mut bytes) = (Encoder::new(), Vec::new());
        for &kind in kinds {
            let (ticks, digest) = (0, 0);
            let event = Event {
                ticks,
                digest,
                kind,
            };
            encoder.encode(&event, &mut bytes);
        }
        bytes
    }

    /// Threads that run together note when they were where, also in front of a process's first event.
    #[test]
    fn a_process_is_known_by_its_start_behind_notes() {
        let (since, took) = (1 << 40, 3);
        let moment = Kind::Moment {
            event: true,
            since,
            took,
        };
        let behind = Kind::Behind {
            event: true,
            thread: 0,
            mark: 5,
        };
        let start = Kind::Start(Start {
            origin: Origin::Fork,
            parent: TapeId::new(2, 1),
            tid: 77,
            pid: 77,
        });
        let all = bytes(&[moment, behind, start]);
        let notes = bytes(&[moment, behind]).len();
        // They come in pieces.
        for cut in [1, notes - 1, notes, all.len() - 1] {
            let manifest = Manifest::new(Vec::new(), "/".into(), Vec::new());
            let mut store = FlightStore::new(manifest, Path::new("/")).expect("memory");
            let tape = TapeId::new(3, 0);
            store.append(tape, &all[..cut]).expect("it is a tape");
            assert!(store.tree.awaits(3), "only {cut} bytes are there");
            store.append(tape, &all[cut..]).expect("it is a tape");
            assert!(!store.tree.awaits(3));
            assert_eq!(store.tree.parent(3), Some(2));
        }
    }
}
