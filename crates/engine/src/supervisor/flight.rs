//! A recording that keeps its last part only (the Flight Data Recorder of Xu, Bodik and Hill, ISCA 2003, in software): the
//! tapes lie in memory, and copies of the processes sleep at places on the way. What stands before the oldest copies that
//! are needed goes. To keep what there is, those copies write themselves down, and the tapes from there on become an
//! excerpt. Must never forget anything behind the place with which a kept recording would begin.

mod cut_choice;
mod flight_store;
mod keeping;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use relive_trace::{Manifest, Summary};

use crate::failure::{Failure, Result};
use crate::image_stream::{
    CHECKPOINTS, Checkpoints, CopyPlace, IncomingImage, Prologue, TreeState, is_image,
};
use crate::input::shared_store::SHARED;
use crate::shm::Shm;
use crate::shm::ring::{RINGS, state};
use crate::supervisor::forwarding;
use cut_choice::SleepingCopy;
use flight_store::FlightStore;
pub use flight_store::KeptFlight;
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

/// The name of the file by which `relive keep` asks, in the folder of the work.
pub const ASKED: &str = "keep";
/// The name of the file with the process id of the recorder.
pub const RUNS: &str = "pid";
/// The name of the file that answers.
pub const ANSWER: &str = "kept";

/// See the module.
pub struct Flight {
    shm: Shm,
    plan: FlightPlan,
    store: FlightStore,
    /// Images on their way by ring, each with the number of recordings that had been begun to be kept.
    incoming: BTreeMap<u32, (u32, IncomingImage)>,
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
            store: FlightStore::new(manifest, work)?,
            incoming: BTreeMap::new(),
            asked: Instant::now(),
            looked: Instant::now(),
            since: Instant::now(),
            forgot: false,
            keeping: None,
            keeps: 0,
            kept: Vec::new(),
            failure: None,
        })
    }

    fn checkpoints(&self) -> &Checkpoints {
        CHECKPOINTS.of(&self.shm)
    }

    /// What there is.
    pub fn store(&mut self) -> &mut FlightStore {
        &mut self.store
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
        let begins = prologue.state.begins();
        if self.checkpoints().copy_lives(place) {
            let copy = SleepingCopy {
                place,
                taken: Instant::now(),
                work: begins.work,
                tree: prologue.tree,
                threads: begins.threads,
                marks: prologue.state.marks(),
            };
            if !self.store.tree.add_copy(begins.process, copy) {
                self.end([place]);
            }
        }
    }

    /// Looks after the copies: asks for the next ones, lets those go that are not needed, and with them what stands on
    /// tapes before. Answers who asks for what there is.
    pub fn tick(&mut self) {
        let (span, part) = self.span();
        let every = (span / part).clamp(OFTEN, SELDOM);
        if self.asked.elapsed() >= every {
            self.asked = Instant::now();
            self.checkpoints().want();
        }
        if let Some(keeping) = &mut self.keeping {
            if keeping.is_lost(CHECKPOINTS.of(&self.shm)) {
                self.give_up(Failure::setup(
                    "a copy of a process that was to be kept is gone: memory may be short",
                ));
            }
            return;
        }
        if self.looked.elapsed() >= every / LOOKS {
            self.looked = Instant::now();
            self.look();
            self.trim();
        }
        let asked = [
            std::fs::remove_file(self.store.work.join(ASKED)).is_ok(),
            forwarding::asks_to_keep(),
            self.checkpoints().guest_asks_to_keep(),
        ];
        if asked.contains(&true) {
            self.keep();
        }
    }

    /// The time that the window holds, and the part of it between two copies.
    fn span(&self) -> (Duration, u32) {
        match self.plan.window {
            FlightWindow::Time(window) => (window, PART),
            FlightWindow::Bytes(_) => (self.since.elapsed(), PART_OF_BYTES),
        }
    }

    /// Looks which processes and which copies there are.
    fn look(&mut self) {
        let now = Instant::now();
        let tree = TreeState::now(&self.shm);
        self.store.tree.number(tree.processes, now);
        let (span, _) = self.span();
        let left = self.store.tree.look(&self.living(), tree, span, now);
        self.end(left);
        let store = SHARED.of(&self.shm);
        if store.floor() == self.store.input {
            store.raise_floor(INPUT);
        }
        let checkpoints = CHECKPOINTS.of(&self.shm);
        let lives = |place| checkpoints.copy_lives(place);
        self.store.tree.drop_dead(lives);
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

    fn end(&self, copies: impl IntoIterator<Item = CopyPlace>) {
        for place in copies {
            self.checkpoints().end_copy(place);
        }
    }

    /// The time since which all is to be kept; `None`: the program has not run so long.
    fn since(&self) -> Option<Instant> {
        let since = match self.plan.window {
            FlightWindow::Time(window) => {
                // A process may take long to end behind its last event.
                let now = self.store.tree.over().unwrap_or_else(Instant::now);
                now.checked_sub(window)?
            }
            FlightWindow::Bytes(_) => self.since,
        };
        (since > self.store.began).then_some(since)
    }

    /// Forgets what the window does not hold.
    fn trim(&mut self) {
        let FlightWindow::Bytes(most) = self.plan.window else {
            if let Some(at) = self.since() {
                self.forget_before(at);
            }
            return;
        };
        while self.store.tapes.bytes() > most {
            let later = self.store.tree.copies().map(|copy| copy.taken);
            let Some(at) = later.filter(|taken| *taken > self.since).min() else {
                return;
            };
            self.since = at;
            self.forget_before(at);
        }
    }

    fn forget_before(&mut self, at: Instant) {
        if let Some(cut) = self.store.tree.choose(at, true) {
            let left = self.store.forget_before(&cut);
            self.end(left);
            self.forgot = true;
        }
    }

    /// The program has ended so; what there is is kept if it is wanted.
    pub fn ends(&mut self, summary: Summary, wanted: bool) {
        self.store.at_end = Some(summary);
        if wanted || self.plan.always {
            self.keep();
        }
    }

    /// Whether a recording is being kept.
    pub fn is_keeping(&self) -> bool {
        self.keeping.is_some()
    }

    /// Lets all copies go. What was kept, and why the last one was not.
    pub fn close(self) -> (Vec<KeptFlight>, Option<Failure>) {
        self.end(self.store.tree.copies().map(|copy| copy.place));
        // Nobody needs it any more.
        let _ = std::fs::remove_dir_all(&self.store.work);
        (self.kept, self.failure)
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

    /// Begins to keep what there is.
    fn keep(&mut self) {
        let folder = self.folder();
        if !self.forgot {
            let done = self.store.write_whole(&folder);
            self.note(done);
            return;
        }
        self.look();
        let (tree, at) = (&self.store.tree, self.since().unwrap_or(self.store.began));
        let cut = tree.choose(at, true).or_else(|| tree.choose(at, false));
        tracing::debug!(target: "flight", "begins with {cut:?} of {tree:?}");
        let begun = match cut {
            Some(cut) => Keeping::begin(&self.store, self.checkpoints(), cut, &folder),
            None => Err(Failure::setup(
                "nothing can be kept: copies of the processes are gone. Memory may be short",
            )),
        };
        match begun {
            Ok(keeping) => {
                self.keeps += 1;
                self.keeping = Some(keeping);
            }
            Err(failure) => self.note(Err(failure)),
        }
    }

    /// Puts the recording together that is being kept, if all of its images have come.
    fn finish_keeping(&mut self) {
        let Some(keeping) = self.keeping.take_if(|keeping| keeping.is_whole()) else {
            return;
        };
        let folder = keeping.folder.clone();
        let done = keeping.finish(&self.store);
        if done.is_err() {
            // Half of a recording is of no use.
            let _ = std::fs::remove_dir_all(folder);
        }
        self.note(done);
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
        let _ = std::fs::write(self.store.work.join(ANSWER), answer);
        match done {
            Ok(kept) => self.kept.push(kept),
            Err(failure) => self.failure = Some(failure),
        }
    }
}
