//! A recording that keeps its last part only (the Flight Data Recorder of Xu, Bodik and Hill, ISCA 2003, in software): the
//! tapes lie in memory, and copies of the process sleep at places on the way. What stands before the oldest copy that is
//! needed goes. To keep what there is, that copy writes itself down, and the tapes from there on become an excerpt.
//! Must never forget anything behind the place with which a kept recording would begin.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use relive_trace::{
    BeginTape, Excerpt, ImageSet, ImageWriter, IndexWriter, Manifest, Piece, RecentTapes, Summary,
    TapeId, TraceWriter, input_path,
};

use crate::encoding;
use crate::failure::{Failure, Result};
use crate::image_stream::{CHECKPOINTS, Checkpoints, IncomingImage, Prologue, order};
use crate::shm::{Shm, alive};

/// Of the window, the time between two copies; not less than [`OFTEN`].
const PART: u32 = 4;
const OFTEN: Duration = Duration::from_millis(5);
const SELDOM: Duration = Duration::from_secs(10);

/// What a flight recording keeps, and where.
#[derive(Clone, Debug)]
pub struct FlightPlan {
    /// At least so much of the past.
    pub window: Duration,
    /// The folder of the first recording that is kept; further ones get a number.
    pub place: PathBuf,
    /// Also what there is at the end, however that is.
    pub always: bool,
}

/// A recording that was kept.
#[derive(Clone, Debug)]
pub struct KeptFlight {
    /// Its folder.
    pub folder: PathBuf,
    /// The time that it covers.
    pub span: Duration,
    /// It begins with the program.
    pub whole: bool,
}

/// The name of the file by which `relive keep` asks, in the folder of the work.
pub const ASKED: &str = "keep";
/// The name of the file with the process id of the recorder.
pub const RUNS: &str = "pid";
/// The name of the file that answers.
pub const ANSWER: &str = "kept";

/// A copy of the process that sleeps.
struct SleepingCopy {
    slot: u32,
    pid: u32,
    taken: Instant,
    prologue: Prologue,
}

/// A recording that is being kept: the copy writes itself down.
struct Keeping {
    folder: PathBuf,
    writer: TraceWriter,
    index: IndexWriter,
    copy: SleepingCopy,
    /// The copy has ended; the next look finds all that it has sent.
    ended: bool,
}

/// The totals of a tape that has ended: events and ticks.
type EndedTape = (u64, u64);

/// See the module.
pub struct Flight {
    shm: Shm,
    plan: FlightPlan,
    manifest: Manifest,
    work: PathBuf,
    tapes: RecentTapes,
    ended: BTreeMap<TapeId, EndedTape>,
    pieces: Vec<Piece>,
    incoming: BTreeMap<u32, IncomingImage>,
    copies: VecDeque<SleepingCopy>,
    began: Instant,
    asked: Instant,
    /// Something before the oldest copy has gone.
    forgot: bool,
    keeping: Option<Keeping>,
    kept: Vec<KeptFlight>,
    /// Why the last one could not be kept.
    failure: Option<Failure>,
    /// The program has ended: its totals.
    at_end: Option<Summary>,
}

impl Flight {
    /// Of a recording whose processes write their copies of files into the folder `work`.
    ///
    /// # Errors
    /// There is no memory.
    pub fn begin(shm: Shm, plan: FlightPlan, manifest: Manifest, work: &Path) -> Result<Self> {
        CHECKPOINTS.of(&shm).begin_sleeping();
        let pid = format!("{}\n", std::process::id());
        std::fs::write(work.join(RUNS), pid).map_err(Failure::setup)?;
        Ok(Self {
            shm,
            plan,
            manifest,
            work: work.to_owned(),
            tapes: RecentTapes::new().map_err(Failure::setup)?,
            ended: BTreeMap::new(),
            pieces: Vec::new(),
            incoming: BTreeMap::new(),
            copies: VecDeque::new(),
            began: Instant::now(),
            asked: Instant::now(),
            forgot: false,
            keeping: None,
            kept: Vec::new(),
            failure: None,
            at_end: None,
        })
    }

    fn checkpoints(&self) -> &Checkpoints {
        CHECKPOINTS.of(&self.shm)
    }

    /// Adds bytes to a tape.
    ///
    /// # Errors
    /// There is no memory.
    pub fn append(&mut self, tape: TapeId, bytes: &[u8]) -> Result<()> {
        self.tapes.append(tape, bytes).map_err(Failure::setup)
    }

    /// Pieces of the store of input, to which later events may refer.
    pub fn add_pieces(&mut self, pieces: &[Piece]) {
        self.pieces.extend_from_slice(pieces);
    }

    /// A tape has ended, with so many events and ticks.
    pub fn tape_ended(&mut self, tape: TapeId, events: u64, ticks: u64) {
        self.ended.insert(tape, (events, ticks));
    }

    /// Bytes of an image, or of what a copy says of itself. Of an image that cannot be written nothing is kept.
    pub fn take(&mut self, ring: u32, bytes: &[u8]) {
        let index = self.keeping.as_mut().map(|keeping| &mut keeping.index);
        let image = self.incoming.entry(ring).or_default();
        if let Err(failure) = image.take(bytes, index) {
            self.give_up(failure);
        }
    }

    /// No more comes in a ring.
    pub fn ring_ended(&mut self, ring: u32) {
        let image = self.incoming.remove(&ring);
        if let Some(text) = image.as_ref().and_then(IncomingImage::failure) {
            self.give_up(Failure::setup(format!(
                "the process could not be described: {text}"
            )));
        }
        let image = image.and_then(IncomingImage::finish);
        let Some((prologue, image)) = image else {
            return;
        };
        match (prologue.sleeps, image) {
            (Some(slot), None) => self.is_asleep(slot, prologue),
            (_, Some(image)) => {
                if let Some(keeping) = self.keeping.take() {
                    let folder = keeping.folder.clone();
                    let done = self.finish(keeping, prologue, image);
                    if done.is_err() {
                        // Half of a recording is of no use.
                        let _ = std::fs::remove_dir_all(folder);
                    }
                    self.note(done);
                }
            }
            (None, None) => {}
        }
    }

    fn is_asleep(&mut self, slot: u32, prologue: Prologue) {
        let pid = self.checkpoints().copy(slot).and_then(|copy| copy.pid());
        if let Some(pid) = pid {
            self.copies.push_back(SleepingCopy {
                slot,
                pid,
                taken: Instant::now(),
                prologue,
            });
        }
    }

    /// Looks after the copies: asks for the next one, lets those go that are not needed, and with them what stands on
    /// tapes before. Answers who asks for what there is.
    pub fn tick(&mut self) {
        let every = (self.plan.window / PART).clamp(OFTEN, SELDOM);
        if self.asked.elapsed() >= every {
            self.asked = Instant::now();
            self.checkpoints().want();
        }
        self.drop_dead();
        if self.keeping.is_none() {
            self.trim();
        }
        if self.keeping.is_none() && std::fs::remove_file(self.work.join(ASKED)).is_ok() {
            self.keep();
        }
    }

    fn drop_dead(&mut self) {
        let checkpoints = CHECKPOINTS.of(&self.shm);
        self.copies.retain(|copy| {
            let lives = alive(copy.pid);
            if !lives && let Some(slot) = checkpoints.copy(copy.slot) {
                slot.leave();
            }
            lives
        });
        let gone = |keeping: &Keeping| !alive(keeping.copy.pid);
        if let Some(keeping) = self.keeping.as_mut().filter(|keeping| gone(keeping)) {
            if keeping.ended {
                self.give_up(Failure::setup(
                    "the copy of the process that was to be kept is gone: memory may be short",
                ));
            } else {
                keeping.ended = true;
            }
        }
    }

    fn trim(&mut self) {
        let old = self
            .copies
            .iter()
            .rposition(|copy| copy.taken.elapsed() >= self.plan.window);
        let Some(old) = old else {
            return;
        };
        for copy in self.copies.drain(..old).collect::<Vec<_>>() {
            if let Some(slot) = CHECKPOINTS.of(&self.shm).copy(copy.slot) {
                slot.give(order::END);
            }
        }
        if let Some(first) = self.copies.front() {
            let (places, needed) = (places(&first.prologue), needed(&first.prologue));
            self.tapes.forget(&places, &needed);
            self.ended.retain(|id, _| needed(*id));
            self.forgot = true;
        }
    }

    /// The program has ended so; what there is is kept if it is wanted.
    pub fn ends(&mut self, summary: Summary, wanted: bool) {
        self.at_end = Some(summary);
        if wanted || self.plan.always {
            self.keep();
        }
    }

    /// Whether a recording is being kept.
    pub fn is_keeping(&self) -> bool {
        self.keeping.is_some()
    }

    /// Lets all copies go. What was kept, and why the last one was not.
    pub fn close(mut self) -> (Vec<KeptFlight>, Option<Failure>) {
        for copy in std::mem::take(&mut self.copies) {
            if let Some(slot) = self.checkpoints().copy(copy.slot) {
                slot.give(order::END);
            }
        }
        // Nobody needs it any more.
        let _ = std::fs::remove_dir_all(&self.work);
        (self.kept, self.failure)
    }

    /// Begins to keep what there is.
    fn keep(&mut self) {
        let begun = self.begin_keeping();
        match begun {
            Ok(Some(keeping)) => self.keeping = Some(keeping),
            Ok(None) => {
                let done = self.whole();
                self.note(done);
            }
            Err(failure) => self.note(Err(failure)),
        }
    }

    fn folder(&self) -> PathBuf {
        let place = &self.plan.place;
        match self.kept.len() {
            0 => place.clone(),
            n => {
                let mut name = place.as_os_str().to_owned();
                name.push(format!(".{}", n + 1));
                name.into()
            }
        }
    }

    /// Wakes the oldest copy; `None`: everything is here from the program's beginning on.
    fn begin_keeping(&mut self) -> Result<Option<Keeping>> {
        if !self.forgot {
            return Ok(None);
        }
        let Some(copy) = self.copies.pop_front() else {
            return Err(Failure::setup(
                "nothing can be kept: all copies of the process are gone. Memory may be short",
            ));
        };
        let folder = self.folder();
        let writer =
            TraceWriter::create(&folder, &self.manifest.of_excerpt()).map_err(Failure::setup)?;
        let index = IndexWriter::create(&folder, ImageSet::Begin).map_err(Failure::setup)?;
        if let Some(slot) = self.checkpoints().copy(copy.slot) {
            slot.give(order::WRITE);
        }
        Ok(Some(Keeping {
            folder,
            writer,
            index,
            copy,
            ended: false,
        }))
    }

    /// Keeps everything from the program's beginning on.
    fn whole(&mut self) -> Result<KeptFlight> {
        let folder = self.folder();
        let mut writer = TraceWriter::create(&folder, &self.manifest).map_err(Failure::setup)?;
        self.write(&mut writer, &BTreeMap::new())?;
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

    fn write(&self, writer: &mut TraceWriter, from: &BTreeMap<TapeId, u64>) -> Result<()> {
        writer.add_pieces(&self.pieces).map_err(Failure::setup)?;
        let no = |e: std::io::Error| Failure::setup(format!("a recording cannot be kept: {e}"));
        std::fs::copy(input_path(&self.work), input_path(writer.directory())).map_err(no)?;
        let (theirs, ours) = (relive_trace::FileStore::new(&self.work), writer.files());
        for id in theirs.ids().map_err(Failure::setup)? {
            ours.take(id, &theirs).map_err(Failure::setup)?;
        }
        // Schedules last: before each turn all earlier events are there.
        let (schedules, others): (Vec<_>, Vec<_>) =
            self.tapes.ids().partition(|id| id.is_schedule());
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

    /// Puts the recording together whose first image has come.
    fn finish(
        &self,
        keeping: Keeping,
        prologue: Prologue,
        mut image: ImageWriter,
    ) -> Result<KeptFlight> {
        let Keeping {
            folder,
            mut writer,
            mut index,
            copy,
            ..
        } = keeping;
        let state = &prologue.state;
        let marks = state.marks();
        let excerpt = Excerpt {
            images: index.number(),
            order: prologue.next.0,
            processes: vec![state.begins()],
            tapes: marks
                .iter()
                .map(|(id, mark)| BeginTape::new(*id, *mark))
                .collect(),
            cut: self.at_end.is_none(),
        };
        image.describe(prologue.head(0), encoding::to_bytes(state));
        image.finish(&mut index).map_err(Failure::setup)?;
        self.write(&mut writer, &places(&prologue))?;
        index.finish().map_err(Failure::setup)?;
        writer.begins(excerpt);
        let span = copy.taken.elapsed();
        let summary = self
            .at_end
            .as_ref()
            .map(|whole| self.part(whole, &prologue, span));
        writer.finish(summary.as_ref()).map_err(Failure::setup)?;
        Ok(KeptFlight {
            folder,
            span,
            whole: false,
        })
    }

    /// The totals of the part behind a copy.
    fn part(&self, whole: &Summary, prologue: &Prologue, span: Duration) -> Summary {
        let marks = prologue.state.marks();
        let needed = needed(prologue);
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

    fn give_up(&mut self, failure: Failure) {
        if let Some(keeping) = self.keeping.take() {
            let _ = std::fs::remove_dir_all(&keeping.folder);
            self.note(Err(failure));
        }
    }

    /// Tells of what was kept, or not.
    fn note(&mut self, done: Result<KeptFlight>) {
        let answer = match &done {
            Ok(kept) => format!("{}\n", kept.folder.display()),
            Err(failure) => format!("!{}\n", failure.text()),
        };
        // Whoever asked may be gone.
        let _ = std::fs::write(self.work.join(ANSWER), answer);
        match done {
            Ok(kept) => self.kept.push(kept),
            Err(failure) => self.failure = Some(failure),
        }
    }
}

/// Where the tapes go on behind a copy.
fn places(prologue: &Prologue) -> BTreeMap<TapeId, u64> {
    let marks = prologue.state.marks();
    marks
        .into_iter()
        .map(|(id, mark)| (id, mark.offset))
        .collect()
}

/// Which tapes a replay needs that begins with a copy: those that go on, and those that began later.
fn needed(prologue: &Prologue) -> impl Fn(TapeId) -> bool + use<> {
    let (begins, next) = (prologue.state.begins(), prologue.next.1);
    let there = places(prologue);
    move |id: TapeId| match id.process == begins.process {
        true => there.contains_key(&id) || id.is_schedule() || id.thread >= begins.threads,
        false => id.process >= next,
    }
}
