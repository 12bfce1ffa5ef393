//! Tasks: their operations and children, and how they end.
//!
//! A task is one sequence of deeds: its operations (requests, answers, primitives, acquisitions) and
//! its children are numbered in its own order. Code that runs side by side (`join!`, `spawn`, threads)
//! belongs into tasks of its own, made by [`crate::fork`]; else numbers depend on time. **While off
//! there are no tasks, and nothing here costs more than a branch.**

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Poll;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::halt::{Divergence, Halt, Kind};
use crate::header::Mark;
use crate::id::{Named, Origin, RequestId, TaskId};
use crate::lane::Notes;
use crate::name::Name;
use crate::record::Member;
use crate::shared::Shared;
use crate::tape::Lane;

/// A task of a recorded or replayed process.
#[derive(Clone)]
pub struct Task(Arc<State>);

struct State {
    id: TaskId,
    /// Operations begun.
    operations: AtomicU64,
    /// Children made.
    children: AtomicU32,
    /// Cancelled: it came to its limit.
    stopped: AtomicBool,
    side: Side,
}

/// The source of a task's results.
#[derive(Clone)]
pub(crate) enum Side {
    Record(Arc<Notes>),
    Replay(Arc<Lane>, Arc<Shared>),
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Task").field(&self.0.id).finish()
    }
}

impl Task {
    pub(crate) fn new(id: TaskId, side: Side) -> Self {
        Self(Arc::new(State {
            id,
            operations: AtomicU64::new(0),
            children: AtomicU32::new(0),
            stopped: AtomicBool::new(false),
            side,
        }))
    }

    /// Its identity.
    pub fn id(&self) -> TaskId {
        self.0.id
    }

    /// The next child.
    pub fn child(&self) -> Self {
        let step = self.0.children.fetch_add(1, Ordering::Relaxed);
        let id = TaskId {
            path: self.0.id.path.child(step),
            ..self.0.id
        };
        Self::new(id, self.0.side.clone())
    }

    pub(crate) fn side(&self) -> &Side {
        &self.0.side
    }

    pub(crate) fn member(&self) -> Member {
        let place = match self.0.id.origin {
            Origin::Gate(_, place) => place,
            Origin::Root(_) | Origin::Outside(_) => 0,
        };
        Member {
            place,
            path: self.0.id.path,
        }
    }

    /// How many operations it had begun when it was cancelled in the recording.
    fn limit(&self) -> Option<u64> {
        match &self.0.side {
            Side::Record(_) => None,
            Side::Replay(lane, _) => lane.cancelled.get(&self.member()).copied(),
        }
    }

    /// Begins an operation.
    pub(crate) fn begin(&self) -> Result<u64, Halt> {
        if let Some(limit) = self.limit()
            && self.operations() >= limit
        {
            self.0.stopped.store(true, Ordering::Relaxed);
            return Err(Halt::Cancelled);
        }
        Ok(self.0.operations.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether it was cancelled in the recording, and began an operation that it did not begin then.
    pub(crate) fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Relaxed)
    }

    /// Begins an operation; a cancelled task stays here, and is then stopped by its [`Scoped`].
    pub(crate) async fn begin_or_stay(&self) -> u64 {
        match self.begin() {
            Ok(number) => number,
            Err(_) => std::future::pending().await,
        }
    }

    /// Operations begun.
    pub(crate) fn operations(&self) -> u64 {
        self.0.operations.load(Ordering::Relaxed)
    }

    /// Whether it has done all that it did in the recording, if it was cancelled there.
    pub(crate) fn at_limit(&self) -> bool {
        let operations = self.operations();
        self.limit().is_none_or(|limit| operations >= limit)
    }

    /// Begins to wait for a request's receipt in this process. A cancelled task whose request was not
    /// received does not wait.
    pub(crate) async fn request(&self, is_to_come: impl Fn(&RequestId) -> bool) -> RequestId {
        let number = self.begin_or_stay().await;
        let id = RequestId {
            task: self.0.id,
            number,
        };
        if self.limit().is_some() && self.at_limit() && !is_to_come(&id) {
            self.0.stopped.store(true, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
        id
    }

    /// How far its process's recording is; `None` in a replay.
    pub(crate) fn mark(&self) -> Option<Mark> {
        match &self.0.side {
            Side::Record(notes) => Some(notes.lane.mark()),
            Side::Replay(..) => None,
        }
    }

    /// The digest of the mark that its lane got last.
    pub(crate) fn known(&self) -> Option<u32> {
        match &self.0.side {
            Side::Record(notes) => notes.lane.known(),
            Side::Replay(..) => None,
        }
    }

    /// Its operations from now on depend on records of another process.
    pub(crate) fn depends(&self, mark: Mark) {
        if let Side::Record(notes) = &self.0.side {
            notes.lane.depends(mark);
        }
    }

    /// Whether results come from a recording.
    pub(crate) fn is_replay(&self) -> bool {
        matches!(self.0.side, Side::Replay(..))
    }

    /// Notes the result of operation `number`; nothing while replaying.
    pub(crate) fn note<T: Serialize>(
        &self,
        number: u64,
        name: &str,
        value: &T,
    ) -> Result<(), Halt> {
        let Side::Record(notes) = &self.0.side else {
            return Ok(());
        };
        let name = Name::new(name).map_err(|malformed| Halt::TooMuch(malformed.0))?;
        let bytes = postcard::to_stdvec(value)
            .map_err(|_| Halt::TooMuch("the value of a primitive cannot be written"))?;
        match notes.lane.primitive(self.member(), number, &name, &bytes) {
            true => Ok(()),
            false => Err(Halt::TooMuch(
                "the value of a primitive is longer than 1 MiB",
            )),
        }
    }

    /// The recorded result of operation `number`; `None` while recording.
    pub(crate) fn recorded<T: DeserializeOwned>(
        &self,
        number: u64,
        name: &str,
    ) -> Result<Option<T>, Halt> {
        let Side::Replay(lane, shared) = &self.0.side else {
            return Ok(None);
        };
        if let Some(failure) = shared.failure() {
            return Err(Halt::Diverged(failure));
        }
        let member = self.member();
        let Some((recorded, bytes)) = lane.primitives.get(&(member, number)) else {
            let later = |(other, at): &(Member, u64)| *other == member && *at > number;
            if !lane.primitives.keys().any(later) {
                return Err(Halt::Over);
            }
            let expected = "no primitive".to_owned();
            return Err(self.diverged(lane, shared, Kind::Primitive, number, expected, name));
        };
        if recorded.as_str() != name {
            let expected = recorded.to_string();
            return Err(self.diverged(lane, shared, Kind::Primitive, number, expected, name));
        }
        shared.step();
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Ok(Some(value)),
            _ => {
                let expected = format!("{name}, a value of {} bytes", bytes.len());
                let actual = std::any::type_name::<T>();
                Err(self.diverged(lane, shared, Kind::Value, number, expected, actual))
            }
        }
    }

    /// Notes that request `number` failed. A replay in which it fails though it did not is at its end.
    pub(crate) fn note_failure(&self, number: u64, name: &str, text: &str) -> Result<(), Halt> {
        let Side::Replay(lane, shared) = &self.0.side else {
            return self.note(number, name, &text);
        };
        Err(match shared.end() {
            Some(end) if shared.receives => end,
            _ => {
                let expected = "an answer".to_owned();
                self.diverged(lane, shared, Kind::Transport, number, expected, text)
            }
        })
    }

    /// The recorded result of operation `number` if it has one.
    pub(crate) fn recorded_if_any<T: DeserializeOwned>(
        &self,
        number: u64,
        name: &str,
    ) -> Result<Option<T>, Halt> {
        let Side::Replay(lane, shared) = &self.0.side else {
            return Ok(None);
        };
        if lane.primitives.contains_key(&(self.member(), number)) {
            return self.recorded(number, name);
        }
        match shared.failure() {
            Some(failure) => Err(Halt::Diverged(failure)),
            None => Ok(None),
        }
    }

    /// Polls `future`, which has no end, until the replay has one. A task that was cancelled in the
    /// recording does so until it is dropped.
    pub(crate) async fn until_end(&self, future: impl Future) -> Halt {
        let Side::Replay(_, shared) = &self.0.side else {
            unreachable!("a recording does not know its end");
        };
        let mut future = pin!(future);
        poll_fn(|cx| {
            let _ = future.as_mut().poll(cx);
            match shared.poll_end(cx.waker()) {
                Some(_) if self.limit().is_some() && self.at_limit() => {
                    self.0.stopped.store(true, Ordering::Relaxed);
                    Poll::Pending
                }
                end => end.map_or(Poll::Pending, Poll::Ready),
            }
        })
        .await
    }

    /// Operation `number` is not as it was; of a replay.
    pub(crate) fn diverges(&self, kind: Kind, number: u64, expected: String, actual: &str) -> Halt {
        match &self.0.side {
            Side::Record(_) => unreachable!("a recording has nothing to differ from"),
            Side::Replay(lane, shared) => {
                self.diverged(lane, shared, kind, number, expected, actual)
            }
        }
    }

    fn diverged(
        &self,
        lane: &Lane,
        shared: &Shared,
        kind: Kind,
        number: u64,
        expected: String,
        actual: &str,
    ) -> Halt {
        let id = RequestId {
            task: self.0.id,
            number,
        };
        let expected = format!("{expected}, as operation {}", Named(id, shared));
        shared.fail(Divergence {
            position: self.member().place,
            ..shared.divergence(kind, &lane.name, expected, actual.to_owned())
        })
    }

    /// The task was given up before its end.
    pub(crate) fn given_up(&self) {
        let operations = self.operations();
        match &self.0.side {
            Side::Record(notes) => notes.lane.cancelled(self.member(), operations),
            Side::Replay(lane, shared) => {
                let goes_on = shared.left.load(Ordering::Relaxed) > 0;
                if goes_on && self.limit().is_none() && shared.failure().is_none() {
                    let expected = "it ends by itself".to_owned();
                    self.diverged(
                        lane,
                        shared,
                        Kind::Cancelled,
                        operations,
                        expected,
                        "given up",
                    );
                }
            }
        }
    }

    /// The task ended by itself; whether its result counts.
    pub(crate) fn ended(&self) -> bool {
        let Side::Replay(lane, shared) = &self.0.side else {
            return true;
        };
        let Some(limit) = self.limit() else {
            return true;
        };
        // A branch that lost is given up anyway, and nobody sees its result.
        if !self.0.id.path.is_empty() {
            return false;
        }
        let expected = "it is cancelled".to_owned();
        self.diverged(
            lane,
            shared,
            Kind::Cancelled,
            limit,
            expected,
            "ends by itself",
        );
        true
    }
}
