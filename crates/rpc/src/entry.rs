//! Entry points: where a process receives requests.
//!
//! An entry point's handlers run side by side unless it is exclusive. **State that handlers share must
//! be reached through an exclusive entry point, a group or a [`crate::Lock`] only: of other state the
//! order of access is not recorded.**

use std::future::Future;
use std::sync::Arc;

use crate::gate::{Arrival, Gate, Permit, Side};
use crate::halt::Halt;
use crate::header::{Content, Header, Mark};
use crate::id::{Origin, Path, RequestId, TaskId};
use crate::name::Name;
use crate::outcome::OpenError;
use crate::payload::Sink;
use crate::record::{LaneKind, StreamId};
use crate::session::Session;
use crate::task::{self, Task};

/// Receives requests of one kind. Clones are the same entry point.
#[derive(Clone)]
pub struct EntryPoint {
    gate: Arc<Gate>,
    name: Name,
}

/// Entry points that share state: one of all their handlers runs at a time.
#[derive(Clone)]
pub struct Group {
    gate: Arc<Gate>,
}

impl Session {
    /// An entry point whose handlers run side by side, and share no state but behind locks of ours.
    pub fn entry_point(&self, name: &str) -> Result<EntryPoint, OpenError> {
        self.entry(LaneKind::Entry, name)
    }

    /// An entry point of which one handler runs at a time, from receipt to end: state that belongs to
    /// it alone needs no lock.
    pub fn exclusive(&self, name: &str) -> Result<EntryPoint, OpenError> {
        self.entry(LaneKind::Exclusive, name)
    }

    fn entry(&self, kind: LaneKind, text: &str) -> Result<EntryPoint, OpenError> {
        let name = Self::name(text)?;
        let gate = self.gate(kind, name.clone())?;
        Ok(EntryPoint { gate, name })
    }

    /// A group of entry points, with one order for all of them.
    pub fn group(&self, text: &str) -> Result<Group, OpenError> {
        let gate = self.gate(LaneKind::Exclusive, Self::name(text)?)?;
        Ok(Group { gate })
    }
}

impl Group {
    /// An entry point of the group.
    pub fn entry_point(&self, text: &str) -> Result<EntryPoint, OpenError> {
        let name = Session::name(text)?;
        let gate = self.gate.clone();
        Ok(EntryPoint { gate, name })
    }
}

/// An admitted request.
#[must_use = "the next request may wait for the end of this one"]
pub struct Admission {
    pub(crate) permit: Permit,
    pub(crate) task: Option<Task>,
}

impl EntryPoint {
    /// Waits until the request with this header is admitted; one without a header comes from outside
    /// of all recorded processes, and is known by its order and content. `content` is the receiver's own
    /// hash, which counts before the sender's.
    pub async fn receive(
        &self,
        header: Option<&Header>,
        content: Option<Content>,
    ) -> Result<Admission, Halt> {
        let permit = self.gate.receive(self.arrival(header, content)).await?;
        Ok(self.admission(permit))
    }

    /// As [`Self::receive`], for a request that has to wait for nothing; `None`: it has to.
    #[cfg(feature = "tower")]
    pub(crate) fn receive_now(
        &self,
        header: Option<&Header>,
        content: Option<Content>,
    ) -> Option<Admission> {
        let permit = self.gate.admit_now(&self.arrival(header, content))?;
        Some(self.admission(permit))
    }

    fn arrival(&self, header: Option<&Header>, content: Option<Content>) -> Arrival<'_> {
        Arrival {
            entry: &self.name,
            id: header.map(|header| header.id),
            content: content.or_else(|| header.and_then(|header| header.content)),
            sender: header.map(|header| Mark {
                process: header.id.task.process,
                epoch: header.epoch,
            }),
        }
    }

    fn admission(&self, permit: Permit) -> Admission {
        let side = self.gate.task_side();
        let task = side.map(|side| Task::new(self.task_id(&permit), side));
        Admission { permit, task }
    }

    /// Receives a request and handles it.
    pub async fn serve<F: Future>(
        &self,
        header: Option<&Header>,
        content: Option<Content>,
        handler: F,
    ) -> Result<F::Output, Halt> {
        if self.is_idle() {
            return Ok(handler.await);
        }
        Ok(self.receive(header, content).await?.handle(handler).await)
    }

    /// Receives a request of which the bytes are known, and handles it. They are its content; a recording
    /// with [`Keep::Payloads`](crate::Keep::Payloads) keeps them, so that [`Session::requests`] brings
    /// them in a replay of this process alone. The answer is compared in every replay.
    pub async fn serve_bytes<F: Future<Output = Vec<u8>>>(
        &self,
        header: Option<&Header>,
        bytes: Vec<u8>,
        handler: impl FnOnce(Vec<u8>) -> F,
    ) -> Result<Vec<u8>, Halt> {
        if self.is_idle() {
            return Ok(handler(bytes).await);
        }
        let admission = self.receive(header, Some(Content::of(&bytes))).await?;
        let sink = admission.sink(StreamId::Request);
        sink.map_or(Ok(()), |sink| sink.note_whole(&bytes))?;
        let task = admission.task.clone();
        admission
            .handle(async move {
                let answer = handler(bytes).await;
                match task {
                    Some(task) => task.answers(Content::of(&answer)).map(|()| answer),
                    None => Ok(answer),
                }
            })
            .await
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Whether it neither records, nor replays, nor lets one in at a time.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(&self.gate.side, Side::Live(gate) if gate.is_idle())
    }

    #[cfg(feature = "tower")]
    pub(crate) fn is_replay(&self) -> bool {
        matches!(self.gate.side, Side::Replay(_))
    }

    fn task_id(&self, permit: &Permit) -> TaskId {
        TaskId {
            process: self.gate.process,
            origin: Origin::Gate(self.gate.name.id(), permit.place),
            path: Path::default(),
        }
    }
}

impl Admission {
    /// Runs the handler as the request's task; the request's work is over when the handler is.
    pub async fn handle<F: Future>(self, handler: F) -> F::Output {
        let Self { permit, task } = self;
        // Inside of the task, so that a handler that is stopped gives it back.
        let handling = async move {
            let _permit = permit;
            handler.await
        };
        match task {
            Some(task) => task.scope(handling).await,
            None => handling.await,
        }
    }

    /// Where bytes of its task go; `None` if they are not kept.
    pub(crate) fn sink(&self, stream: StreamId) -> Option<Sink> {
        self.task.as_ref().and_then(|task| Sink::new(task, stream))
    }

    /// The task that handles the request; `None` while off.
    pub fn task(&self) -> Option<&Task> {
        self.task.as_ref()
    }
}

impl Gate {
    /// Where results of its handlers come from; `None` while off.
    fn task_side(self: &Arc<Self>) -> Option<task::Side> {
        match &self.side {
            Side::Live(gate) => {
                let notes = gate.notes.clone()?;
                Some(task::Side::Record(notes))
            }
            Side::Replay(gate) => {
                let lane = gate.lane.clone();
                Some(task::Side::Replay(lane, gate.shared().clone()))
            }
        }
    }

    /// The current task asks for admission, as it asks for a lock.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Result<Permit, Halt> {
        let id = match (&self.side, Task::current()) {
            (Side::Live(gate), _) if gate.notes.is_none() => None,
            (_, None) => return Err(Halt::NoTask(self.name.to_string())),
            (side, Some(task)) => {
                let to_come = |id: &RequestId| match side {
                    Side::Live(_) => true,
                    Side::Replay(gate) => gate.is_to_come(id),
                };
                Some(task.request(to_come).await)
            }
        };
        let entry = &self.name;
        let arrival = Arrival {
            entry,
            id,
            content: None,
            sender: None,
        };
        self.receive(arrival).await
    }
}
