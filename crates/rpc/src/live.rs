//! Gates while recording or off: they admit requests as they come, one at a time where they are
//! exclusive, and note the order.
//!
//! A gate that is not exclusive takes one lock, its lane's, for one append; while off none.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use crate::lane::{LaneWriter, Notes, lock};

/// See the module's page.
pub(crate) struct LiveGate {
    /// `None`: nothing is recorded.
    pub(crate) notes: Option<Arc<Notes>>,
    turnstile: Option<Mutex<Turnstile>>,
}

/// Lets one in at a time, roughly as they come.
#[derive(Default)]
struct Turnstile {
    busy: bool,
    key: u64,
    queue: VecDeque<(u64, Waker)>,
}

/// A request's wait at the turnstile.
#[derive(Default)]
pub(crate) struct Wait {
    key: Option<u64>,
}

impl LiveGate {
    pub(crate) fn new(notes: Option<Arc<Notes>>, exclusive: bool) -> Self {
        Self {
            notes,
            turnstile: exclusive.then(Mutex::default),
        }
    }

    /// Whether it notes nothing and admits everybody.
    pub(crate) fn is_idle(&self) -> bool {
        self.notes.is_none() && self.turnstile.is_none()
    }

    /// Admits a request and gives its place, 0 while off; or lines it up, if it waits.
    pub(crate) fn admit(
        &self,
        waiting: Option<(&mut Wait, &Waker)>,
        receipt: impl FnOnce(&Arc<LaneWriter>) -> u64,
    ) -> Option<u64> {
        let mut turnstile = self.turnstile.as_ref().map(lock);
        if let Some(turnstile) = &mut turnstile {
            if turnstile.busy {
                if let Some((wait, waker)) = waiting {
                    turnstile.line_up(wait, waker);
                }
                return None;
            }
            turnstile.busy = true;
            if let Some((wait, _)) = waiting {
                turnstile.step_out(wait);
            }
        }
        // Under the turnstile's lock, so that the order noted is the order of admission.
        let notes = self.notes.as_ref();
        Some(notes.map_or(0, |notes| receipt(&notes.lane)))
    }

    /// Whether the end of an admitted request lets others in.
    pub(crate) fn gives_back(&self) -> bool {
        self.turnstile.is_some()
    }

    /// A request goes without having been admitted.
    pub(crate) fn leave(&self, wait: &mut Wait) {
        if wait.key.is_some()
            && let Some(turnstile) = &self.turnstile
        {
            let mut turnstile = lock(turnstile);
            turnstile.step_out(wait);
            // It may have been woken for a turn that it does not take.
            let next = turnstile.next();
            drop(turnstile);
            next.into_iter().for_each(Waker::wake);
        }
    }

    /// The work of the admitted request is over.
    pub(crate) fn release(&self) {
        if let Some(turnstile) = &self.turnstile {
            let mut turnstile = lock(turnstile);
            turnstile.busy = false;
            let next = turnstile.next();
            drop(turnstile);
            next.into_iter().for_each(Waker::wake);
        }
    }
}

impl Turnstile {
    fn line_up(&mut self, wait: &mut Wait, waker: &Waker) {
        let place = wait.key.and_then(|key| {
            let mut queue = self.queue.iter_mut();
            queue.find(|(other, _)| *other == key)
        });
        match place {
            Some((_, known)) => known.clone_from(waker),
            None => {
                wait.key = Some(self.key);
                self.queue.push_back((self.key, waker.clone()));
                self.key += 1;
            }
        }
    }

    fn step_out(&mut self, wait: &mut Wait) {
        if let Some(key) = wait.key.take() {
            self.queue.retain(|(other, _)| *other != key);
        }
    }

    fn next(&self) -> Option<Waker> {
        let free = !self.busy;
        self.queue
            .front()
            .filter(|_| free)
            .map(|(_, waker)| waker.clone())
    }
}
