//! A recording that keeps its last part only (the Flight Data Recorder of Xu, Bodik and Hill, ISCA 2003, in software): the
//! tapes lie in memory, and copies of the processes sleep at places on the way. What stands before the oldest copies that
//! are needed goes. To keep what there is, those copies write themselves down, and the tapes from there on become an
//! excerpt. Must never forget anything behind the place with which a kept recording would begin.

mod cut_choice;
mod keeping;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use relive_trace::{Decoder, Kind, Manifest, Piece, RecentTapes, Summary, TapeId, input_path};
use rustix::fs::{FallocateFlags, fallocate};

use crate::failure::{Failure, Result};
use crate::image_stream::{CHECKPOINTS, Checkpoints, IncomingImage, Prologue, TreeState, is_image};
use crate::input::shared_store::SHARED;
use crate::shm::ring::{RINGS, state};
use crate::shm::{Shm, alive};
use crate::supervisor::forwarding;
use cut_choice::{FlightTree, SleepingCopy};
use keeping::Keeping;

/// Of the window, the time between two copies; not less than [`OFTEN`].
const PART: u32 = 4;
/// The same where the window is one of bytes, of the time that is kept at present.
const PART_OF_BYTES: u32 = 8;
const OFTEN: Duration = Duration::from_millis(5);
const SELDOM: Duration = Duration::from_secs(10);
/// Fewer bytes of input are not worth it that files which are read again are stored again.
const INPUT: u64 = 16 << 20;
/// Of the time between two copies, the time between two looks at what is not needed any more.
const LOOKS: u32 = 4;

/// How much of the past a flight recording keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlightWindow {
    /// At least so much time.
    Time(Duration),
    /// About so many bytes of tapes at most, as they lie in memory.
    Bytes(u64),
}

/// What a flight recording keeps, and where.
#[derive(Clone, Debug)]
pub struct FlightPlan {
    /// How much of the past.
    pub window: FlightWindow,
    /// A signal to the recorder that asks for what there is.
    pub signal: Option<i32>,
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
    /// The pieces of input behind `input`: what stands before has gone.
    pieces: Vec<Piece>,
    input: u64,
    /// Images on their way by ring, each with the number of recordings that had been begun to be kept.
    incoming: BTreeMap<u32, (u32, IncomingImage)>,
    tree: FlightTree,
    began: Instant,
    asked: Instant,
    looked: Instant,
    /// Of a window of bytes: nothing is needed that happened before.
    since: Instant,
    /// Something has gone that stood on tapes.
    forgot: bool,
    keeping: Option<Keeping>,
    /// How many were begun.
    keeps: u32,
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
        if let Some(signal) = plan.signal {
            forwarding::keep_on(signal);
        }
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
            input: 0,
            incoming: BTreeMap::new(),
            tree: FlightTree::default(),
            began: Instant::now(),
            asked: Instant::now(),
            looked: Instant::now(),
            since: Instant::now(),
            forgot: false,
            keeping: None,
            keeps: 0,
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
        if tape.thread == 0 && self.tree.awaits(tape.process) {
            self.begins(tape, bytes)?;
        }
        self.tapes.append(tape, bytes).map_err(Failure::setup)
    }

    /// A process begins with the event at the beginning of these bytes, which are its first.
    fn begins(&mut self, tape: TapeId, bytes: &[u8]) -> Result<()> {
        let first = Decoder::new().decode(bytes);
        let Ok((event, _)) = first else {
            return Err(Failure::internal("a tape without a beginning"));
        };
        let parent = match event.kind {
            Kind::Start(start) => Some(start.parent.process),
            _ => None,
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

    /// Bytes of an image, or of what a copy says of itself. Of an image that cannot be written nothing is kept.
    pub fn take(&mut self, ring: u32, bytes: &[u8]) {
        let keeps = self.keeps;
        let fresh = || (keeps, IncomingImage::default());
        let (number, image) = self.incoming.entry(ring).or_insert_with(fresh);
        let keeping = self.keeping.as_mut().filter(|_| *number == keeps);
        let taken = image.take(bytes, keeping.map(|keeping| &mut keeping.index));
        if let Err(failure) = taken {
            self.give_up(failure);
        }
    }

    /// No more comes in a ring.
    pub fn ring_ended(&mut self, ring: u32) {
        let Some((number, image)) = self.incoming.remove(&ring) else {
            return;
        };
        let is_kept = number == self.keeps;
        if let Some(text) = image.failure().filter(|_| is_kept) {
            self.give_up(Failure::setup(format!(
                "a process could not be described: {text}"
            )));
        }
        match image.finish() {
            Some((prologue, None)) => self.is_asleep(&prologue),
            Some((prologue, Some(image))) if is_kept => {
                let come = self.keeping.as_mut();
                match come.map_or(Ok(()), |keeping| keeping.has_come(prologue, image)) {
                    Ok(()) => self.finish_keeping(),
                    Err(failure) => self.give_up(failure),
                }
            }
            Some(_) | None => {}
        }
    }

    fn is_asleep(&mut self, prologue: &Prologue) {
        let Some(place) = prologue.sleeps else {
            return;
        };
        let pid = self.checkpoints().copy(place).and_then(|copy| copy.pid());
        let begins = prologue.state.begins();
        if let Some(pid) = pid {
            let copy = SleepingCopy {
                place,
                pid,
                taken: Instant::now(),
                tree: prologue.tree,
                threads: begins.threads,
                marks: prologue.state.marks(),
            };
            self.tree.add_copy(begins.process, copy);
        }
    }

    /// Looks after the copies: asks for the next ones, lets those go that are not needed, and with them what stands on
    /// tapes before. Answers who asks for what there is.
    pub fn tick(&mut self) {
        let every = self.every();
        if self.asked.elapsed() >= every {
            self.asked = Instant::now();
            self.checkpoints().want();
        }
        if self.keeping.is_some() {
            self.check_keeping();
            return;
        }
        if self.looked.elapsed() >= every / LOOKS {
            self.looked = Instant::now();
            self.look();
            self.trim();
        }
        let asked = [
            std::fs::remove_file(self.work.join(ASKED)).is_ok(),
            forwarding::asks_to_keep(),
            self.checkpoints().guest_asks_to_keep(),
        ];
        if asked.contains(&true) {
            self.keep();
        }
    }

    /// The time between two copies.
    fn every(&self) -> Duration {
        let every = match self.plan.window {
            FlightWindow::Time(window) => window / PART,
            FlightWindow::Bytes(_) => self.since.elapsed() / PART_OF_BYTES,
        };
        every.clamp(OFTEN, SELDOM)
    }

    /// Looks which processes and which copies there are.
    fn look(&mut self) {
        let now = Instant::now();
        let tree = TreeState::now(&self.shm);
        self.tree.number(tree.processes, now);
        let window = match self.plan.window {
            FlightWindow::Time(window) => window,
            FlightWindow::Bytes(_) => self.since.elapsed(),
        };
        let left = self.tree.look(&self.living(), tree, window, now);
        self.end(left);
        let store = SHARED.of(&self.shm);
        if store.floor() == self.input {
            store.raise_floor(INPUT);
        }
        let checkpoints = CHECKPOINTS.of(&self.shm);
        self.tree.retain_copies(|copy| {
            let lives = alive(copy.pid);
            if !lives && let Some(slot) = checkpoints.copy(copy.place) {
                slot.is_dead(copy.pid);
            }
            lives
        });
    }

    /// The processes of which more may come.
    fn living(&self) -> BTreeSet<u32> {
        let used = self.shm.header().rings_used.load(Ordering::Acquire);
        let rings = (0..used.min(RINGS as u32)).filter(|i| {
            let ring = self.shm.ring(*i);
            ring.state.load(Ordering::Acquire) != state::FREE
        });
        let tapes = rings.map(|i| self.shm.tape(i));
        tapes
            .filter(|id| !is_image(*id))
            .map(|id| id.process)
            .collect()
    }

    fn end(&self, copies: impl IntoIterator<Item = SleepingCopy>) {
        for copy in copies {
            self.checkpoints().end_copy(copy.place);
        }
    }

    /// The time since which all is to be kept; `None`: the program has not run so long.
    fn since(&self) -> Option<Instant> {
        let since = match self.plan.window {
            FlightWindow::Time(window) => {
                // A process may take long to end behind its last event.
                let now = self.tree.over().unwrap_or_else(Instant::now);
                now.checked_sub(window)?
            }
            FlightWindow::Bytes(_) => self.since,
        };
        (since > self.began).then_some(since)
    }

    /// Forgets what the window does not hold.
    fn trim(&mut self) {
        let FlightWindow::Bytes(most) = self.plan.window else {
            if let Some(at) = self.since() {
                self.forget_before(at);
            }
            return;
        };
        while self.tapes.bytes() > most {
            let later = self.tree.copies().map(|copy| copy.taken);
            let Some(at) = later.filter(|taken| *taken > self.since).min() else {
                return;
            };
            self.since = at;
            self.forget_before(at);
        }
    }

    fn forget_before(&mut self, at: Instant) {
        let Some(cut) = self.tree.choose(at, true) else {
            return;
        };
        let places = keeping::places(&self.tree, &cut);
        let (tree, ended) = (&self.tree, &mut self.ended);
        self.tapes.forget(&places, |id| tree.needs(&cut, id));
        ended.retain(|id, _| tree.needs(&cut, *id));
        let floor = self.tree.floor(&cut);
        if floor > self.input {
            self.forget_input(floor);
        }
        let left = self.tree.trim(&cut);
        self.end(left);
        self.forgot = true;
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
        let all: Vec<SleepingCopy> = self.tree.copies().cloned().collect();
        self.end(all);
        // Nobody needs it any more.
        let _ = std::fs::remove_dir_all(&self.work);
        (self.kept, self.failure.take())
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
