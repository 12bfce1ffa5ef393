//! The recorder at work: reads the rings of the tree into the trace until the last process has ended.
//! Before each turn that is in the trace, all earlier events are in it too.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use relive_host::sys;
use relive_trace::{ExitStatus, Summary, TraceWriter};
use rustix::process::{Pid, Signal, kill_process};

use super::children::{has_children_besides, reap};
use super::deadlock::{Deadlock, Watch};
use super::epoch_finder::EpochFinder;
use super::flight::{Flight, KeptFlight};
use super::forwarding::{self, pass_on};
use super::kept_searches::KeptSearches;
use super::live_index::{LiveImages, LiveIndex, LiveIndexed};
use super::status::EndStatus;
use super::tape_store::TapeStore;
use crate::failure::{Failure, Result};
use crate::image_stream::{CHECKPOINTS, HeldOutputs, is_image};
use crate::modes::serial::sites::SITES;
use crate::ordered_sites::SITES as ORDERED_SITES;
use crate::remarks::REMARKS;
use crate::shm::ring::{RINGS, state};
use crate::shm::{Shm, alive};
use crate::stats::Totals;

/// How often everything that was logged is written out, at least.
const FLUSH: Duration = Duration::from_millis(50);
/// Bytes of schedule that would make a chunk of their own before the rest is stored.
const MANY_TURNS: usize = 64 * 1024;

/// Why a program is ended whose output is held back.
const NOT_COMMITTED: &str = "the program was ended, as the order of what it has done is not found, and its output is held back \
    until it is (--commit); of what it wrote since, nothing has left it";

/// A finished recording.
#[derive(Debug)]
pub struct Recording {
    /// How the program ended.
    pub status: EndStatus,
    /// It was killed because of the timeout.
    pub timed_out: bool,
    /// It was killed because of this deadlock, if those were looked for.
    pub deadlock: Option<Deadlock>,
    /// The trace's summary of itself.
    pub summary: Summary,
    /// The counters, if they were asked for.
    pub totals: Option<Totals>,
    /// Remarks for the user on programs that could not do something.
    pub remarks: Vec<String>,
    /// Instructions by which threads met, if the schedule looked for them.
    pub sites: Vec<u64>,
    /// The session images that were made on the way.
    pub indexed: Option<Result<LiveIndexed>>,
    /// The search for the order of its threads, which goes on.
    pub finder: Option<EpochFinder>,
    /// The searches for the orders of what was kept, which go on.
    pub kept_searches: Option<KeptSearches>,
    /// Output that was held back.
    pub outputs: Option<HeldOutputs>,
    /// For how long the program has waited for that of its own.
    pub held: Duration,
    /// Of a flight: what was kept.
    pub kept: Option<Vec<KeptFlight>>,
    /// Why the last one was not.
    pub keep_failure: Option<Failure>,
}

/// A recording that runs.
pub struct Drain {
    shm: Shm,
    store: TapeStore,
    /// Of the tapes that have ended: how many, their events and ticks.
    tapes: u32,
    events: u64,
    ticks: u64,
    started: Instant,
    /// Where session images are made.
    index: Option<LiveIndex>,
    /// It has got a signal that ends, and passed it on.
    asked_to_end: bool,
    /// Why there are none any more.
    index_failure: Option<Failure>,
    /// The search for the order of its threads, by epochs.
    finder: Option<EpochFinder>,
    /// The same of what is kept.
    kept_searches: Option<KeptSearches>,
    /// An image has come for which output may wait.
    epoch_ended: bool,
}

impl Drain {
    /// Of a recording that begins now.
    pub fn new(shm: Shm, writer: TraceWriter) -> Self {
        Self {
            shm,
            store: TapeStore {
                writer,
                flight: None,
            },
            tapes: 0,
            events: 0,
            ticks: 0,
            started: Instant::now(),
            index: None,
            asked_to_end: false,
            index_failure: None,
            finder: None,
            kept_searches: None,
            epoch_ended: false,
        }
    }

    /// The order of its threads is found meanwhile.
    pub fn with_finder(mut self, finder: EpochFinder) -> Self {
        self.finder = Some(finder);
        self
    }

    /// The orders of what a flight keeps are found.
    pub fn with_kept_searches(mut self, searches: KeptSearches) -> Self {
        self.kept_searches = Some(searches);
        self
    }

    /// The last part is kept only.
    pub fn with_flight(mut self, flight: Flight) -> Self {
        self.store.flight = Some(flight);
        self
    }

    /// Session images are made on the way.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn with_images(mut self, plan: LiveImages) -> Result<Self> {
        let folder = self.store.writer.directory();
        self.index = Some(LiveIndex::begin(self.shm, folder, plan)?);
        Ok(self)
    }

    /// Records until the last process has ended; the first one is `root`.
    ///
    /// # Errors
    /// The failure of a host process, or the trace cannot be written.
    pub fn run(
        mut self,
        root: i32,
        timeout: Option<Duration>,
        mut watch: Option<Watch>,
    ) -> Result<Recording> {
        let mut deadlock = None;
        let mut status = None;
        let mut timed_out = false;
        let mut flushed = Instant::now();
        loop {
            let seen = self.shm.header().wake.load(Ordering::Acquire);
            let born = self.shm.all_born();
            let open = self.drain()?;
            if let Some(failure) = self.shm.failure() {
                return self.give_up(failure);
            }
            if flushed.elapsed() >= FLUSH || std::mem::take(&mut self.epoch_ended) {
                self.store.flush_all()?;
                flushed = Instant::now();
            }
            let mut ended = false;
            while let Some((pid, s)) = reap() {
                ended = true;
                if pid == root {
                    status = Some(EndStatus::from_wait(s));
                    forwarding::program_has_ended(&self.shm);
                }
                self.child_is_gone(pid as u32);
            }
            if ended {
                // Their rings are whole now.
                continue;
            }
            // A child whose parent has ended may have no tape yet; one that was killed before it
            // had a tape never gets one, but then no child is left in the end.
            let complete = born.is_some() && born == self.shm.all_born()
                || !has_children_besides(&self.own_children());
            if status.is_some() && !open && complete {
                break;
            }
            if status.is_none() {
                self.asked_to_end |= pass_on(&self.shm, root);
                self.index.iter_mut().for_each(LiveIndex::tick);
            }
            if let Err(failure) = self.find_epochs() {
                return self.give_up(failure);
            }
            self.store.flight.iter_mut().for_each(Flight::tick);
            self.search_kept();
            if let (Some(limit), None, false) = (timeout, status, timed_out)
                && self.started.elapsed() > limit
            {
                timed_out = true;
                self.kill_all();
            }
            if let (Some(watch), None, None, false) = (&mut watch, status, &deadlock, timed_out) {
                deadlock = watch.look(&self.shm);
                if deadlock.is_some() {
                    self.kill_all();
                }
            }
            sys::futex_wait(
                &self.shm.header().wake,
                seen,
                Some(match status {
                    Some(_) => 5,
                    None if CHECKPOINTS.of(&self.shm).commits() => 2,
                    None => 20,
                }),
            );
        }
        let status = status.unwrap_or(EndStatus::Code(0));
        let summary = Summary {
            exit: match status {
                EndStatus::Code(c) => ExitStatus::Code(c),
                EndStatus::Signal(s) => ExitStatus::Signal(s),
            },
            processes: self.shm.processes().into(),
            threads: self.tapes.into(),
            wall_ms: self.started.elapsed().as_millis() as u64,
            asleep: deadlock.as_ref().is_some_and(Deadlock::is_of_all),
            events: self.events,
            ticks: self.ticks,
            raw_bytes: 0,
            stored_bytes: 0,
        };
        self.store.writer.orders(ORDERED_SITES.of(&self.shm).met());
        let folder = self.store.writer.directory().to_owned();
        let bad = status != EndStatus::Code(0) || self.asked_to_end;
        let (kept, keep_failure) = self.end_flight(&summary, bad)?;
        let manifest = match kept {
            None => Some(
                self.store
                    .writer
                    .finish(Some(&summary))
                    .map_err(Failure::setup)?,
            ),
            Some(_) => None,
        };
        let indexed = self.index.map(|index| index.finish(&folder));
        let held = CHECKPOINTS.of(&self.shm).were_held();
        Ok(Recording {
            status,
            timed_out,
            deadlock,
            summary: manifest.and_then(|m| m.summary).unwrap_or(summary),
            finder: self.finder,
            kept_searches: self.kept_searches,
            held,
            outputs: CHECKPOINTS.of(&self.shm).held_outputs(),
            kept,
            keep_failure,
            totals: crate::stats::COUNTERS.of(&self.shm).totals(),
            remarks: REMARKS.of(&self.shm).sentences(),
            sites: SITES.of(&self.shm).all(),
            indexed: self.index_failure.map(Err).or(indexed),
        })
    }

    /// Ends the program; what there is of the recording stays.
    fn give_up(mut self, failure: Failure) -> Result<Recording> {
        self.kill_all();
        self.store.flush_all()?;
        Err(failure)
    }

    /// Children that are no part of the program.
    fn own_children(&self) -> Vec<u32> {
        let mut own = CHECKPOINTS.of(&self.shm).copies();
        own.extend(self.finder.as_ref().map(EpochFinder::pid));
        own.extend(self.kept_searches.as_ref().and_then(KeptSearches::pid));
        own
    }

    fn child_is_gone(&mut self, pid: u32) {
        let mut finder = self.finder.iter_mut();
        if let Some(finder) = finder.find(|finder| finder.pid() == pid) {
            finder.is_gone();
        }
        if let Some(searches) = &mut self.kept_searches {
            searches.is_gone(pid);
        }
    }

    /// What a flight has kept is searched.
    fn search_kept(&mut self) {
        if let (Some(searches), Some(flight)) = (&mut self.kept_searches, &self.store.flight) {
            searches.look(flight.kept());
        }
    }

    /// Takes the news of the search for the order of its threads: the program waits for it, or no longer.
    ///
    /// # Errors
    /// Output is held back, and will never be let out.
    fn find_epochs(&mut self) -> Result<()> {
        let Some(finder) = &mut self.finder else {
            return Ok(());
        };
        let before = finder.disagreed();
        let waits = finder.tick();
        if let (Some(index), true) = (&mut self.index, finder.disagreed() > before) {
            index.shorten();
        }
        let checkpoints = CHECKPOINTS.of(&self.shm);
        checkpoints.hold(waits);
        if checkpoints.commits() {
            let committed = finder.committed().map_err(|why| why.of(NOT_COMMITTED))?;
            checkpoints.found_up_to(committed);
        }
        Ok(())
    }

    /// Of a flight: keeps what there is, if the program has ended badly. `None`: it is none.
    fn end_flight(
        &mut self,
        summary: &Summary,
        bad: bool,
    ) -> Result<(Option<Vec<KeptFlight>>, Option<Failure>)> {
        match &mut self.store.flight {
            None => return Ok((None, None)),
            Some(flight) => flight.ends(summary.clone(), bad),
        }
        while self.store.flight.as_ref().is_some_and(Flight::is_keeping) {
            let seen = self.shm.header().wake.load(Ordering::Acquire);
            self.drain()?;
            while let Some((pid, _)) = reap() {
                self.child_is_gone(pid as u32);
            }
            self.store.flight.iter_mut().for_each(Flight::tick);
            sys::futex_wait(&self.shm.header().wake, seen, Some(5));
        }
        self.search_kept();
        let closed = self.store.flight.take().map(Flight::close);
        Ok(closed.map_or((None, None), |(kept, failure)| (Some(kept), failure)))
    }

    /// Marks the trace complete. All processes have ended, and their rings are empty. `like`: the totals of a recording that
    /// was not cut off.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn finish(self, like: Option<&Summary>) -> Result<()> {
        let summary = like.map(|like| Summary {
            events: self.events,
            ..like.clone()
        });
        let finished = self.store.writer.finish(summary.as_ref());
        finished.map(drop).map_err(Failure::setup)
    }

    /// Reads all rings once; says whether any tape can still grow.
    ///
    /// Schedules are read first and stored last: before each turn that is in the trace, all
    /// earlier events are in it too, however the recording is cut off.
    pub(super) fn drain(&mut self) -> Result<bool> {
        let used = self
            .shm
            .header()
            .rings_used
            .load(Ordering::Acquire)
            .min(RINGS as u32);
        let (mut schedules, mut turns) = (Vec::new(), 0);
        for i in (0..used).filter(|&i| self.readable(i) && self.shm.tape(i).is_schedule()) {
            let closing = self.gone(i);
            let mut bytes = Vec::new();
            self.shm.pull(i, |b| bytes.extend_from_slice(b));
            turns += bytes.len();
            schedules.push((i, closing, bytes));
        }
        let mut open = false;
        for i in (0..used)
            .filter(|&i| self.readable(i) && !self.shm.tape(i).is_schedule())
            .collect::<Vec<_>>()
        {
            let (tape, closing) = (self.shm.tape(i), self.gone(i));
            if is_image(tape) {
                open |= !self.image(i, closing);
                continue;
            }
            let (shm, store) = (self.shm, &mut self.store);
            let mut result = Ok(());
            shm.pull(i, |bytes| {
                if result.is_ok() {
                    // The pieces that these events refer to were noted before they were logged.
                    result = store.add_pieces(&crate::input::shared_store::SHARED.of(&shm).take());
                }
                if result.is_ok() {
                    result = store.append(tape, bytes);
                }
            });
            result?;
            if closing {
                let ring = self.shm.ring(i);
                let events = ring.events.load(Ordering::Acquire);
                let ticks = ring.ticks.load(Ordering::Acquire);
                self.tapes += 1;
                self.events += events;
                self.ticks += ticks;
                if let Some(flight) = &mut self.store.flight {
                    flight.tape_ended(tape, events, ticks);
                }
            }
            open |= !self.close(i, closing)?;
        }
        if turns > MANY_TURNS {
            self.store.flush_all()?;
        }
        for (i, closing, bytes) in schedules {
            self.store.append(self.shm.tape(i), &bytes)?;
            open |= !self.close(i, closing)?;
        }
        Ok(open)
    }

    /// Reads the ring of an image; says whether that was the last of it.
    fn image(&mut self, i: u32, closing: bool) -> bool {
        if let Some(flight) = &mut self.store.flight {
            self.shm.pull(i, |bytes| flight.take(i, bytes));
            if closing {
                flight.ring_ended(i);
                self.shm.ring(i).state.store(state::FREE, Ordering::Release);
            }
            return closing;
        }
        let (shm, index) = (self.shm, &mut self.index);
        let mut result = Ok(());
        shm.pull(i, |bytes| {
            if let (Some(index), true) = (index.as_mut(), result.is_ok()) {
                result = index.take(i, bytes);
            }
        });
        if closing {
            let ended = match index {
                Some(index) if result.is_ok() => index.ended(i),
                _ => Ok(None),
            };
            match (ended, &mut self.finder) {
                (Ok(Some(work)), Some(finder)) => {
                    finder.image_made(work);
                    // Output may wait for what is on the tapes before.
                    self.epoch_ended = CHECKPOINTS.of(&shm).commits();
                }
                (Ok(_), _) => {}
                (Err(failure), _) => result = Err(failure),
            }
            shm.ring(i).state.store(state::FREE, Ordering::Release);
        }
        if let Err(failure) = result {
            // The recording is worth more.
            (self.index, self.index_failure) = (None, Some(failure));
        }
        closing
    }

    fn readable(&self, i: u32) -> bool {
        matches!(
            self.shm.ring(i).state.load(Ordering::Acquire),
            state::ACTIVE | state::CLOSED
        )
    }

    /// Whether nothing more will come into a ring than is in it now.
    fn gone(&self, i: u32) -> bool {
        let ring = self.shm.ring(i);
        ring.state.load(Ordering::Acquire) == state::CLOSED
            || !alive(ring.pid.load(Ordering::Acquire))
    }

    /// Gives a ring back if its tape has ended.
    fn close(&mut self, i: u32, closing: bool) -> Result<bool> {
        if closing {
            self.store.flush(self.shm.tape(i))?;
            self.shm.ring(i).state.store(state::FREE, Ordering::Release);
        }
        Ok(closing)
    }

    fn kill_all(&self) {
        for i in 0..self.shm.header().rings_used.load(Ordering::Acquire) {
            let ring = self.shm.ring(i);
            if ring.state.load(Ordering::Acquire) == state::ACTIVE {
                let pid = Pid::from_raw(ring.pid.load(Ordering::Acquire) as i32);
                // It may have ended meanwhile.
                let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
            }
        }
    }
}
