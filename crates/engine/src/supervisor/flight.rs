//! A recording that keeps its last part only (the Flight Data Recorder of Xu, Bodik and Hill, ISCA 2003, in software): the
//! tapes lie in memory, and copies of the processes sleep at places on the way. What stands before the oldest copies that
//! are needed goes. To keep what there is, those copies write themselves down, and the tapes from there on become an
//! excerpt. Must never forget anything behind the place with which a kept recording would begin.

mod attaching;
mod cut_choice;
mod flight_store;
mod incoming;
mod keep_requests;
mod keeping;
mod onward;
mod plan;
mod unneeded_files;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use relive_trace::{Manifest, Piece, Summary, TapeId};

use crate::failure::{Failure, Result};
use crate::image_stream::{
    CHECKPOINTS, Checkpoints, CopyPlace, IncomingImage, TreeState, is_image,
};
use crate::input::shared_store::SHARED;
use crate::sharing::processes::{PROCESSES, ProcessSlot};
use crate::shm::Shm;
use crate::shm::ring::{RINGS, state};
use crate::supervisor::forwarding;
use flight_store::FlightStore;
pub use flight_store::{FlightPart, KeptFlight};
use keeping::Keeping;
use onward::Onward;
pub use plan::{ANSWER, FlightPlan, FlightWindow, KeepRequest, RUNS};
use unneeded_files::UnneededFiles;

/// Of the window, the time between two copies; not less than [`OFTEN`].
const PART: u32 = 4;
/// The same where the window is one of bytes, of the time that is kept at present.
const PART_OF_BYTES: u32 = 8;
const OFTEN: Duration = Duration::from_millis(5);
const SELDOM: Duration = Duration::from_secs(10);
/// The same where nothing of the past is to be kept, and so many bytes of tapes have come since the last one.
const HASTE: Duration = Duration::from_secs(1);
const MUCH: u64 = 16 << 20;
/// Where nothing is to be kept, and processes have no copies: so many bytes of tapes go all the same.
const MOST: u64 = 256 << 20;
/// Fewer bytes of input are not worth it that files which are read again are stored again.
const INPUT: u64 = 16 << 20;
/// Of the time between two copies, the time between two looks at what is not needed any more.
const LOOKS: u32 = 4;

/// See the module.
pub struct Flight {
    shm: Shm,
    plan: FlightPlan,
    store: FlightStore,
    files: UnneededFiles,
    /// Images on their way by ring, each with the number of recordings that had been begun to be kept.
    incoming: BTreeMap<u32, (u32, IncomingImage)>,
    asked: Instant,
    looked: Instant,
    /// Of a window of bytes: nothing is needed that happened before.
    since: Instant,
    /// Something has gone that stood on tapes.
    forgot: bool,
    keeping: Option<Keeping>,
    /// How often one was lost of the copies with which it was to begin.
    lost: u32,
    /// What is being kept goes on.
    goes_on: bool,
    /// Since when copies are looked for with which a recording begins that goes on.
    attaching: Option<Instant>,
    /// The recording that goes on.
    onward: Option<Onward>,
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
            files: UnneededFiles::new(),
            incoming: BTreeMap::new(),
            asked: Instant::now(),
            looked: Instant::now(),
            since: Instant::now(),
            forgot: false,
            keeping: None,
            lost: 0,
            goes_on: false,
            attaching: None,
            onward: None,
            keeps: 0,
            kept: Vec::new(),
            failure: None,
        })
    }

    fn checkpoints(&self) -> &Checkpoints {
        CHECKPOINTS.of(&self.shm)
    }

    /// Adds bytes to a tape.
    ///
    /// # Errors
    /// There is no memory; the tape does not begin as one.
    pub fn append(&mut self, tape: TapeId, bytes: &[u8]) -> Result<()> {
        let Some(onward) = &mut self.onward else {
            return self.store.append(tape, bytes);
        };
        onward.append(tape, bytes);
        self.store.pass(tape, bytes)
    }

    /// Notes pieces of input, before events that refer to them.
    pub fn add_pieces(&mut self, pieces: &[Piece]) {
        self.store.add_pieces(pieces);
        self.onward
            .iter_mut()
            .for_each(|onward| onward.add_pieces(pieces));
    }

    /// What has been collected for a tape, or for all, is written, if it is to be.
    pub fn flush(&mut self, tape: Option<TapeId>) {
        self.onward.iter_mut().for_each(|onward| onward.flush(tape));
    }

    /// A tape has ended, with so many events and ticks.
    pub fn tape_ended(&mut self, tape: TapeId, events: u64, ticks: u64) {
        self.store.tape_ended(tape, events, ticks);
    }

    /// Looks after the copies: asks for the next ones, lets those go that are not needed, and with them what stands on
    /// tapes before. Answers who asks for what there is.
    pub fn tick(&mut self) {
        if let Some(onward) = &mut self.onward {
            onward.tick(&self.store);
            if let Some(failure) = onward.failure().cloned() {
                self.end_onward(Some(failure));
            }
        } else if let Some(keeping) = &mut self.keeping {
            if keeping.is_lost(CHECKPOINTS.of(&self.shm)) {
                self.keep_again();
            }
            return;
        } else {
            self.look_after_copies();
        }
        if let Some(asked) = self.asked() {
            self.answer(asked);
        }
        if let Some(since) = self.attaching {
            self.attach(since);
        }
    }

    fn look_after_copies(&mut self) {
        let (span, part) = self.span();
        let every = match self.plan.window {
            FlightWindow::Nothing if self.store.tapes.bytes() > MUCH => HASTE,
            FlightWindow::Nothing => SELDOM,
            _ => (span / part).clamp(OFTEN, SELDOM),
        };
        if self.asked.elapsed() >= every {
            self.asked = Instant::now();
            self.checkpoints().want();
        }
        if self.looked.elapsed() >= every / LOOKS && self.attaching.is_none() {
            self.looked = Instant::now();
            self.look();
            self.trim();
            let checkpoints = CHECKPOINTS.of(&self.shm);
            if let Err(failure) = self.files.tick(&self.store, checkpoints) {
                // They only take room.
                tracing::debug!(target: "flight", "copies of files stay: {failure}");
            }
        }
    }

    /// The time that the window holds, and the part of it between two copies.
    fn span(&self) -> (Duration, u32) {
        match self.plan.window {
            FlightWindow::Time(window) => (window, PART),
            FlightWindow::Bytes(_) => (self.since.elapsed(), PART_OF_BYTES),
            FlightWindow::Nothing => (Duration::ZERO, PART),
        }
    }

    /// Looks which processes and which copies there are.
    fn look(&mut self) {
        let now = Instant::now();
        let tree = TreeState::now(&self.shm);
        self.store.tree.number(tree.processes, now);
        let (span, _) = self.span();
        let membership = |index| {
            let slot = PROCESSES.of(&self.shm).get(index);
            slot.map(ProcessSlot::membership).unwrap_or_default()
        };
        let living = self.living();
        let left = self.store.tree.look(&living, tree, membership, span, now);
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
            FlightWindow::Nothing => Instant::now(),
        };
        (since > self.store.began).then_some(since)
    }

    /// Forgets what the window does not hold.
    fn trim(&mut self) {
        let FlightWindow::Bytes(most) = self.plan.window else {
            if let Some(at) = self.since() {
                self.forget_before(at);
            }
            if self.plan.window == FlightWindow::Nothing && self.store.tapes.bytes() > MOST {
                self.start_over();
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
        if self.onward.is_some() {
            self.end_onward(None);
        } else if self.attaching.take().is_some() {
            self.note(Err(Failure::setup(
                "the program has ended before a recording could begin",
            )));
        } else if (wanted || self.plan.always) && self.plan.window != FlightWindow::Nothing {
            self.keep();
        }
    }

    /// What was kept by now.
    pub fn kept(&self) -> &[KeptFlight] {
        &self.kept
    }

    /// Whether a recording is being kept.
    pub fn is_keeping(&self) -> bool {
        self.keeping.is_some()
    }

    /// Lets all copies go. What was kept, and why the last one was not.
    pub fn close(self) -> (Vec<KeptFlight>, Option<Failure>) {
        self.end(self.store.tree.copies().map(|copy| copy.place));
        (self.kept, self.failure)
    }
}
