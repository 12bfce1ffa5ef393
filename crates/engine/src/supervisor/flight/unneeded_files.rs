//! Copies of files in the work of a flight recording: those that nothing in it names any more are set aside, and go when
//! every process has been copied since. A process may have found a copy there and log its name only later: such a one comes
//! back. Must never remove a copy that an event or a state names.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use relive_trace::{FileId, FileStore, TapeMark};

use super::flight_store::FlightStore;
use crate::failure::{Failure, Result};
use crate::file_copies;
use crate::image_stream::Checkpoints;

/// Time between two looks, at least; and of the time that one takes so many times.
const SELDOM: Duration = Duration::from_secs(1);
const TIMES: u32 = 20;
/// Bytes that copies take on disk beyond those that were needed last: fewer are not worth a look at all tapes.
const MUCH: u64 = 32 << 20;

/// See the module.
pub struct UnneededFiles {
    looked: Instant,
    /// The time that the last look at all tapes took.
    took: Duration,
    /// Bytes of those that were needed.
    needed: u64,
    /// Set aside; processes that are copied with that number, or a higher one, have found none of them there since.
    aside: Option<(u32, BTreeSet<FileId>)>,
}

impl UnneededFiles {
    /// All are needed.
    pub fn new() -> Self {
        Self {
            looked: Instant::now(),
            took: Duration::ZERO,
            needed: 0,
            aside: None,
        }
    }

    /// Looks after them, now and then; nothing is being kept.
    ///
    /// # Errors
    /// The folder of the work cannot be read or written: then copies stay.
    pub fn tick(&mut self, store: &FlightStore, checkpoints: &Checkpoints) -> Result<()> {
        if self.looked.elapsed() < SELDOM.max(TIMES * self.took) {
            return Ok(());
        }
        self.looked = Instant::now();
        match &self.aside {
            None => self.set_aside(store, checkpoints),
            Some((number, _)) if store.files >= *number => self.settle(store),
            Some(_) => Ok(()),
        }
    }

    fn set_aside(&mut self, store: &FlightStore, checkpoints: &Checkpoints) -> Result<()> {
        let files = FileStore::new(&store.work);
        let ids = files.ids().map_err(Failure::setup)?;
        let room = |ids: &mut dyn Iterator<Item = &FileId>| -> u64 {
            ids.map(|id| files.own_room(*id)).sum()
        };
        if room(&mut ids.iter()) < self.needed + MUCH {
            return Ok(());
        }
        let named = self.named(store)?;
        let unnamed: BTreeSet<FileId> = ids
            .iter()
            .copied()
            .filter(|id| !named.contains(id))
            .collect();
        self.needed = room(&mut ids.iter().filter(|id| named.contains(id)));
        if unnamed.is_empty() {
            return Ok(());
        }
        let aside = FileStore::aside(&store.work).map_err(Failure::setup)?;
        // From now on processes make those anew that they map again.
        let _ = checkpoints.set_files_aside();
        tracing::debug!(target: "flight", "{} of {} copies of files are set aside", unnamed.len(), ids.len());
        let moved = unnamed.iter().try_for_each(|id| files.give(*id, &aside));
        // Who has found one of them there before has logged its name when it comes to a checkpoint with this number.
        self.aside = Some((checkpoints.set_files_aside(), unnamed));
        match moved {
            Ok(()) => Ok(()),
            Err(error) => {
                self.all_back(store)?;
                Err(Failure::setup(error))
            }
        }
    }

    /// All processes have been copied since: what they name by now is all that they will.
    fn settle(&mut self, store: &FlightStore) -> Result<()> {
        let named = self.named(store)?;
        self.come_back(store, |id| named.contains(&id))
    }

    /// Those that are needed come back, and the others go.
    fn come_back(&mut self, store: &FlightStore, needed: impl Fn(FileId) -> bool) -> Result<()> {
        let Some((_, ids)) = &self.aside else {
            return Ok(());
        };
        let files = FileStore::new(&store.work);
        let aside = FileStore::aside(&store.work).map_err(Failure::setup)?;
        for id in ids.iter().copied().filter(|id| aside.has(*id)) {
            match needed(id) {
                true => aside.give(id, &files),
                false => aside.remove(id),
            }
            .map_err(Failure::setup)?;
        }
        // Not before: what could not be moved is tried again.
        self.aside = None;
        Ok(())
    }

    /// Something is about to be kept: all are there.
    ///
    /// # Errors
    /// The folder of the work cannot be written.
    pub fn all_back(&mut self, store: &FlightStore) -> Result<()> {
        self.come_back(store, |_| true)
    }

    /// The copies that are named by what there is.
    fn named(&mut self, store: &FlightStore) -> Result<BTreeSet<FileId>> {
        let began = Instant::now();
        let mut named: BTreeSet<FileId> = store
            .tree
            .copies()
            .flat_map(|copy| &copy.files)
            .copied()
            .collect();
        let marks = store.tree.first_marks();
        for id in store.tapes.ids().filter(|id| !id.is_schedule()) {
            let from = marks.get(&id).copied().unwrap_or(TapeMark::default());
            let mut failed = None;
            let read = store.tapes.events(id, from, |event| {
                failed = file_copies::of_event(event, &mut named).err();
                failed.is_none()
            });
            read.map_err(Failure::setup)?;
            if let Some(failure) = failed {
                return Err(failure);
            }
        }
        self.took = began.elapsed();
        Ok(named)
    }
}
