//! Gates while replaying: each admits the recorded requests in the recorded order.
//!
//! A request that is early waits for its turn; one that the recording does not have waits for the end,
//! since it may be one that is cancelled before anybody receives it. **Nobody waits for ever:** the
//! first divergence, the time limit and the end of the recording answer all that wait.

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use crate::halt::{Divergence, Halt, Kind};
use crate::header::Content;
use crate::id::{Named, Origin, Path, RequestId, TaskId};
use crate::lane::lock;
use crate::name::{Name, NameId};
use crate::record::Receipt;
use crate::shared::{NAMED, Shared, Standing, Waits};
use crate::tape::Lane;

/// Requests that one gate lets wait.
const HELD_MAX: usize = 1 << 16;

/// The order of one entry point, group, lock or channel.
pub(crate) struct ReplayGate {
    pub(crate) name: Name,
    pub(crate) lane: Arc<Lane>,
    history: Vec<Receipt>,
    exclusive: bool,
    state: Mutex<State>,
    shared: Arc<Shared>,
}

struct State {
    /// Place of the request that is admitted next.
    next: usize,
    /// The request whose work goes on, where only one may.
    busy: Option<RequestId>,
    /// For each recorded request, how often it is still to come.
    to_come: HashMap<RequestId, u32>,
    /// Recorded requests from outside that nobody was given yet, by content.
    outside: HashMap<Option<Content>, VecDeque<RequestId>>,
    waiting: HashMap<RequestId, VecDeque<(u64, Waker)>>,
    held: usize,
    key: u64,
}

impl Waits for ReplayGate {
    fn wakers(&self) -> Vec<Waker> {
        let state = lock(&self.state);
        let queues = state.waiting.values().flatten();
        queues.map(|(_, waker)| waker.clone()).collect()
    }

    fn place(&self) -> (NameId, u64) {
        (self.name.id(), lock(&self.state).next as u64)
    }

    fn standing(&self) -> Standing {
        let state = lock(&self.state);
        Standing {
            name: self.name.clone(),
            next: state.next,
            of: self.history.len(),
            expected: self.history.get(state.next).map(|receipt| receipt.id),
            busy: state.busy,
            waiting: state.waiting.keys().copied().collect(),
            last: self.last(&state),
        }
    }
}

/// One request at one gate, from its coming to its admission or its end.
pub(crate) struct Visit {
    pub(crate) entry: Name,
    pub(crate) id: Option<RequestId>,
    pub(crate) content: Option<Content>,
    stage: Stage,
}

enum Stage {
    New,
    /// Came under this key; whether the recording has it.
    Here {
        key: u64,
        known: bool,
    },
    Done,
}

impl Visit {
    pub(crate) fn new(entry: Name, id: Option<RequestId>, content: Option<Content>) -> Self {
        Self {
            entry,
            id,
            content,
            stage: Stage::New,
        }
    }
}

impl ReplayGate {
    pub(crate) fn open(lane: Arc<Lane>, shared: &Arc<Shared>) -> Arc<Self> {
        let history = lane.receipts.clone();
        let mut to_come = HashMap::new();
        let mut outside: HashMap<_, VecDeque<_>> = HashMap::new();
        for receipt in &history {
            *to_come.entry(receipt.id).or_insert(0) += 1;
            if let Origin::Outside(_) = receipt.id.task.origin {
                outside
                    .entry(receipt.content)
                    .or_default()
                    .push_back(receipt.id);
            }
        }
        let gate = Arc::new(Self {
            name: lane.name.clone(),
            exclusive: lane.kind.is_exclusive(),
            lane,
            history,
            state: Mutex::new(State {
                next: 0,
                busy: None,
                to_come,
                outside,
                waiting: HashMap::new(),
                held: 0,
                key: 0,
            }),
            shared: shared.clone(),
        });
        let waits: Arc<dyn Waits> = gate.clone();
        shared.add(Arc::downgrade(&waits));
        gate
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whether the recording still has this request.
    pub(crate) fn is_to_come(&self, id: &RequestId) -> bool {
        lock(&self.state)
            .to_come
            .get(id)
            .is_some_and(|left| *left > 0)
    }

    /// Admits the visitor if it is its turn, and gives the place; else its waker is kept.
    pub(crate) fn poll(&self, visit: &mut Visit, waker: &Waker) -> Option<Result<u64, Halt>> {
        let mut state = lock(&self.state);
        let refusal = self.poll_locked(&mut state, visit, waker);
        match refusal {
            None => None,
            Some(Ok(place)) => {
                let wake = self.expected(&state);
                drop(state);
                self.shared.step();
                self.shared.one_less();
                wake.into_iter().for_each(Waker::wake);
                Some(Ok(place))
            }
            Some(Err(refusal)) => {
                drop(state);
                Some(Err(match refusal {
                    Refusal::Halt(halt) => halt,
                    Refusal::Diverged(divergence) => self.shared.fail(*divergence),
                }))
            }
        }
    }

    fn poll_locked(
        &self,
        state: &mut State,
        visit: &mut Visit,
        waker: &Waker,
    ) -> Option<Result<u64, Refusal>> {
        if let Some(end) = self.shared.end() {
            return Some(Err(Refusal::Halt(end)));
        }
        if let Stage::New = visit.stage
            && let Err(refusal) = self.arrive(state, visit)
        {
            return Some(Err(refusal));
        }
        let (Stage::Here { key, .. }, Some(id)) = (&visit.stage, visit.id) else {
            unreachable!("a visitor that was answered does not ask again");
        };
        let key = *key;
        let receipt = self.history.get(state.next).filter(|next| next.id == id);
        let Some(receipt) = receipt.filter(|_| state.busy.is_none()) else {
            let queue = state.waiting.entry(id).or_default();
            match queue.iter_mut().find(|(other, _)| *other == key) {
                Some((_, known)) => known.clone_from(waker),
                None => queue.push_back((key, waker.clone())),
            }
            return None;
        };
        if receipt.entry != visit.entry.id() {
            let named = |entry: &dyn Display| format!("{} to {entry}", Named(id, &*self.shared));
            let expected = named(&Named(receipt.entry, &*self.shared));
            let actual = named(&visit.entry);
            let divergence = self.divergence(Kind::Entry, state, expected, actual);
            return Some(Err(Refusal::Diverged(Box::new(divergence))));
        }
        if receipt.content != visit.content {
            let text = |content| {
                format!(
                    "{} with {}",
                    Named(id, &*self.shared),
                    Content::show(content)
                )
            };
            let (expected, actual) = (text(receipt.content), text(visit.content));
            let divergence = self.divergence(Kind::Content, state, expected, actual);
            return Some(Err(Refusal::Diverged(Box::new(divergence))));
        }
        state.forget(id, key);
        visit.stage = Stage::Done;
        let place = state.next as u64;
        state.next += 1;
        if self.exclusive {
            state.busy = Some(id);
        }
        Some(Ok(place))
    }

    /// The first look at a visitor: which recorded request it is.
    fn arrive(&self, state: &mut State, visit: &mut Visit) -> Result<(), Refusal> {
        if state.held >= HELD_MAX {
            let halt = Halt::TooMuch("too many requests wait for their turn of the replay");
            return Err(Refusal::Halt(halt));
        }
        let id = match visit.id {
            Some(id) => id,
            None => {
                let same = state.outside.get_mut(&visit.content);
                let unknown = || self.unknown(state.key);
                same.and_then(VecDeque::pop_front).unwrap_or_else(unknown)
            }
        };
        let known = match state.to_come.get_mut(&id) {
            None => false,
            Some(0) => {
                let named = Named(id, &*self.shared);
                let actual = format!("{named} once more, with {}", Content::show(visit.content));
                let expected = self.history.get(state.next);
                let expected = expected.map_or("nothing more".to_owned(), |receipt| {
                    Named(receipt.id, &*self.shared).to_string()
                });
                let divergence = self.divergence(Kind::Twice, state, expected, actual);
                return Err(Refusal::Diverged(Box::new(divergence)));
            }
            Some(left) => {
                *left -= 1;
                true
            }
        };
        visit.id = Some(id);
        visit.stage = Stage::Here {
            key: state.key,
            known,
        };
        state.key += 1;
        state.held += 1;
        Ok(())
    }

    /// An identity for a request from outside that the recording does not have.
    fn unknown(&self, key: u64) -> RequestId {
        RequestId {
            task: TaskId {
                process: self.shared.process.id(),
                origin: Origin::Outside(self.name.id()),
                path: Path::default(),
            },
            number: u64::MAX - key,
        }
    }

    /// The visitor goes. One that came back later would be counted anew.
    pub(crate) fn leave(&self, visit: &mut Visit) {
        let Stage::Here { key, known } = std::mem::replace(&mut visit.stage, Stage::Done) else {
            return;
        };
        let id = visit.id.expect("a visitor that is here has an identity");
        let mut state = lock(&self.state);
        state.forget(id, key);
        if known {
            *state.to_come.entry(id).or_insert(0) += 1;
            if let Origin::Outside(_) = id.task.origin {
                let same = state.outside.entry(visit.content).or_default();
                same.push_front(id);
            }
        }
        let wake = self.expected(&state);
        drop(state);
        wake.into_iter().for_each(Waker::wake);
    }

    /// The work of the admitted request is over.
    pub(crate) fn release(&self) {
        let mut state = lock(&self.state);
        state.busy = None;
        let wake = self.expected(&state);
        drop(state);
        self.shared.step();
        wake.into_iter().for_each(Waker::wake);
    }

    /// The waker of the request whose turn it is.
    fn expected(&self, state: &State) -> Option<Waker> {
        let receipt = self.history.get(state.next)?;
        let queue = state.waiting.get(&receipt.id)?;
        let free = state.busy.is_none();
        queue
            .front()
            .filter(|_| free)
            .map(|(_, waker)| waker.clone())
    }

    fn divergence(
        &self,
        kind: Kind,
        state: &State,
        expected: String,
        actual: String,
    ) -> Divergence {
        Divergence {
            position: state.next as u64,
            last: self.shared.texts(&self.last(state)),
            ..self.shared.divergence(kind, &self.name, expected, actual)
        }
    }

    /// The last requests that were admitted.
    fn last(&self, state: &State) -> Vec<RequestId> {
        let before = &self.history[state.next.saturating_sub(NAMED)..state.next];
        before.iter().map(|receipt| receipt.id).collect()
    }
}

impl State {
    fn forget(&mut self, id: RequestId, key: u64) {
        self.held -= 1;
        if let Some(queue) = self.waiting.get_mut(&id) {
            queue.retain(|(other, _)| *other != key);
            if queue.is_empty() {
                self.waiting.remove(&id);
            }
        }
    }
}

enum Refusal {
    Halt(Halt),
    Diverged(Box<Divergence>),
}
