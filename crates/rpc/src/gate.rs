//! A gate: the place where requests of one entry point, group, lock or channel get their order.

use std::any::Any;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use crate::checker::{Checker, Holder};
use crate::halt::Halt;
use crate::header::{Content, Mark};
use crate::id::{Origin, Path, RequestId, TaskId};
use crate::lane::LaneWriter;
use crate::live::{LiveGate, Wait};
use crate::name::{Name, NameId};
use crate::record::Receipt;
use crate::replay::{ReplayGate, Visit};

/// See the module's page.
pub(crate) struct Gate {
    pub(crate) process: NameId,
    pub(crate) name: Name,
    pub(crate) side: Side,
    /// Whether a task asks for it and holds it, as a lock; else the handler of a request does.
    pub(crate) asked_by_tasks: bool,
    /// Of the debug mode; where only one is admitted at a time.
    pub(crate) checker: Option<Arc<Checker>>,
    /// The session, which ends when nothing of it is left.
    pub(crate) _session: Arc<dyn Any + Send + Sync>,
}

pub(crate) enum Side {
    Live(LiveGate),
    Replay(Arc<ReplayGate>),
}

/// A request that comes to a gate.
pub(crate) struct Arrival<'a> {
    /// Which entry point it comes to.
    pub(crate) entry: &'a Name,
    /// `None`: from outside of all recorded processes.
    pub(crate) id: Option<RequestId>,
    pub(crate) content: Option<Content>,
    /// How far its sender's recording was.
    pub(crate) sender: Option<Mark>,
}

/// An admitted request. Where only one is admitted at a time, the next one is when this is dropped.
pub(crate) struct Permit {
    /// `None`: its end is nothing to anybody.
    gate: Option<Arc<Gate>>,
    /// Its place in the gate's order; 0 while off.
    pub(crate) place: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(gate) = &self.gate else {
            return;
        };
        if let Some(checker) = &gate.checker {
            checker.releases(gate.name.id());
        }
        match &gate.side {
            Side::Live(gate) => gate.release(),
            Side::Replay(gate) => gate.release(),
        }
    }
}

impl Gate {
    /// Waits for the turn of a request. Dropping the future takes the request back.
    pub(crate) async fn receive(self: &Arc<Self>, arrival: Arrival<'_>) -> Result<Permit, Halt> {
        if let Some(permit) = self.admit_now(&arrival) {
            return Ok(permit);
        }
        let sender = arrival.id;
        let place = match &self.side {
            Side::Live(gate) => {
                let mut wait = OnDrop(Wait::default(), |wait| gate.leave(wait));
                poll_fn(|cx| {
                    let waiting = Some((&mut wait.0, cx.waker()));
                    gate.admit(waiting, |lane| self.note(lane, &arrival))
                        .map_or(Poll::Pending, Poll::Ready)
                })
                .await
            }
            Side::Replay(gate) => {
                let Arrival {
                    entry, id, content, ..
                } = arrival;
                let visit = Visit::new(entry.clone(), id, content);
                let mut visit = OnDrop(visit, |visit| gate.leave(visit));
                poll_fn(|cx| {
                    gate.poll(&mut visit.0, cx.waker())
                        .map_or(Poll::Pending, Poll::Ready)
                })
                .await?
            }
        };
        Ok(self.permit(place, sender))
    }

    /// The permit of a request that has to wait for nothing, as most have in a recording.
    pub(crate) fn admit_now(self: &Arc<Self>, arrival: &Arrival<'_>) -> Option<Permit> {
        let Side::Live(gate) = &self.side else {
            return None;
        };
        let place = gate.admit(None, |lane| self.note(lane, arrival))?;
        Some(self.permit(place, arrival.id))
    }

    fn note(&self, lane: &Arc<LaneWriter>, arrival: &Arrival<'_>) -> u64 {
        let outside = || RequestId {
            task: TaskId {
                process: self.process,
                origin: Origin::Outside(self.name.id()),
                path: Path::default(),
            },
            number: lane.next_outside(),
        };
        let receipt = Receipt {
            id: arrival.id.unwrap_or_else(outside),
            entry: arrival.entry.id(),
            content: arrival.content,
        };
        lane.receipt(&receipt, arrival.entry, arrival.sender)
    }

    fn permit(self: &Arc<Self>, place: u64, sender: Option<RequestId>) -> Permit {
        if let Some(checker) = &self.checker {
            let name = self.name.id();
            let holder = match (self.asked_by_tasks, sender) {
                (true, Some(sender)) => Holder::Task(sender.task),
                _ => Holder::Handler(Origin::Gate(name, place)),
            };
            checker.holds(name, holder);
        }
        let gives_back = match &self.side {
            Side::Live(gate) => gate.gives_back(),
            Side::Replay(_) => true,
        };
        let gate = gives_back.then(|| self.clone());
        Permit { gate, place }
    }
}

/// Does something with a value when it is dropped, also where a future is given up.
struct OnDrop<T, F: FnMut(&mut T)>(T, F);

impl<T, F: FnMut(&mut T)> Drop for OnDrop<T, F> {
    fn drop(&mut self) {
        (self.1)(&mut self.0);
    }
}
