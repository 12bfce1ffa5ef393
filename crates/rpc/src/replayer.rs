//! The recording that one process replays: the histories of its lanes, and the state that its gates share. Must never
//! change a history once a session is open: each gate goes along its own by itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::name::{Name, NameId};
use crate::outcome::OpenError;
use crate::record::LaneKind;
use crate::shared::Shared;
use crate::tape::{End, Lane, Tape};
use crate::watch::watch;

/// See the module's page.
pub(crate) struct Replayer {
    pub(crate) lanes: HashMap<NameId, Arc<Lane>>,
    pub(crate) shared: Arc<Shared>,
}

impl Replayer {
    /// Of the tape at this place.
    pub(crate) fn new(
        mut tapes: Vec<Tape>,
        at: usize,
        alone: bool,
        limit: Option<Duration>,
    ) -> Self {
        let names = tapes
            .iter()
            .flat_map(Tape::names)
            .map(|name| (name.id(), name.clone()));
        let names: HashMap<_, _> = names.collect();
        let cut = tapes.iter().enumerate().filter(|(other, tape)| {
            let says_so = alone || *other != at;
            says_so && tape.end != End::Closed
        });
        let cut = cut.map(|(_, tape)| tape.process.id()).collect();
        let tape = tapes.swap_remove(at);
        let receipts = tape.lanes.iter().map(|lane| lane.receipts.len() as u64);
        let shared = Shared::new(tape.process, names, alone, cut, receipts.sum());
        if let Some(limit) = limit {
            let watched = Arc::downgrade(&shared);
            std::thread::spawn(move || watch(&watched, limit));
        }
        let lanes = tape
            .lanes
            .into_iter()
            .map(|lane| (lane.name.id(), Arc::new(lane)));
        Self {
            lanes: lanes.collect(),
            shared,
        }
    }

    /// The history of a lane; an empty one if the recording does not have it.
    pub(crate) fn lane(&self, kind: LaneKind, name: &Name) -> Result<Arc<Lane>, OpenError> {
        match self.lanes.get(&name.id()) {
            Some(lane) if lane.kind == kind => Ok(lane.clone()),
            Some(lane) => Err(OpenError::Kind(name.clone(), kind, lane.kind)),
            None => Ok(Arc::new(Lane::empty(kind, name.clone()))),
        }
    }
}
