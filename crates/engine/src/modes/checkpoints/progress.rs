//! How far a recorded process is, as a replay of it counts: events and turns, and where each thread last gave its turn
//! away. Each thread adds what it has logged when it gives the baton away, so that no look at another one is needed. Only
//! the holder of the baton, or a thread that has quiet, may ask.

use std::collections::BTreeMap;

use crate::elapsed::Elapsed;
use crate::guide::point::{Point, Steps};
use crate::shm::Shm;
use crate::tape::Tape;
use crate::task::Task;

use super::resting::RestingPlace;

/// See the module.
#[derive(Default)]
pub struct RecordedProgress {
    total: Elapsed,
    /// What of each ring is in the total.
    counted: BTreeMap<u32, Elapsed>,
    /// Where each thread last gave its turn away.
    pub left: BTreeMap<u32, Point>,
    /// The past of the child that is about to be forked.
    child: Elapsed,
    /// The children of vfork(2) that are in this memory, by the rings of their parents' threads: several threads may have
    /// one at the same time, and one may have one of its own.
    visitors: BTreeMap<u32, Visitor>,
}

/// A child of vfork(2) in its parent's memory: its events are among those of the parent's way.
struct Visitor {
    ring: u32,
    /// How it leaves, if that is known; it may be killed.
    leaves: Option<VisitorEnd>,
}

enum VisitorEnd {
    Executes,
    Ends,
}

impl RecordedProgress {
    /// Of a process that begins with this past; what `ring` counts so far is in it.
    pub fn new(shm: Shm, past: Elapsed, ring: Option<u32>) -> Self {
        let counted = ring.map(|ring| (ring, Elapsed::of_ring(shm, ring)));
        Self {
            total: past,
            counted: counted.into_iter().collect(),
            ..Self::default()
        }
    }

    fn count_ring(&mut self, shm: Shm, ring: u32) {
        let now = Elapsed::of_ring(shm, ring);
        let counted = self.counted.entry(ring).or_default();
        self.total = self.total.with_growth(*counted, now);
        // A call may be counted that is not logged yet.
        *counted = Elapsed {
            events: counted.events.max(now.events),
            ..now
        };
    }

    /// The past of the process, of which the task is the thread that runs.
    pub fn at(&mut self, shm: Shm, task: &Task) -> Elapsed {
        if let Tape::Out(tape) = &task.tape {
            self.count_ring(shm, tape.ring);
        }
        self.total
    }

    /// The task is about to give its turn away.
    pub fn leaves(&mut self, shm: Shm, task: &Task, place: RestingPlace) {
        let now = self.at(shm, task);
        let (event, steps) = match place {
            // The last two are places without turns.
            RestingPlace::Start | RestingPlace::BeforeCall | RestingPlace::Instruction(_) => return,
            RestingPlace::Call => (now.events, Steps::Event),
            // The switch is logged.
            RestingPlace::Switch(steps) => (now.events - 1, Steps::Exact(steps.into())),
        };
        let point = Point {
            event,
            turn: now.turns,
            ticks: task.ctx.ticks(),
            steps,
        };
        self.left.insert(task.slot, point);
    }

    /// A turn is logged, or a replay counts one.
    pub fn turns(&mut self) {
        self.total.turns += 1;
    }

    /// The task has logged its last event.
    pub fn ends(&mut self, shm: Shm, task: &Task) {
        self.at(shm, task);
        if let Tape::Out(tape) = &task.tape {
            // Another thread may get the ring.
            self.counted.remove(&tape.ring);
        }
    }

    /// A child is about to be forked by a call that is not logged yet.
    pub fn forks(&mut self, shm: Shm, task: &Task) {
        self.child = self.at(shm, task).with_call();
    }

    /// The process is that child.
    pub fn is_child(&mut self) {
        self.total = self.child;
        self.counted.clear();
        self.visitors.clear();
    }

    /// The task is that of a child of vfork(2), which begins with its tape. The call that made it is logged when it has
    /// left, but replays count it here.
    pub fn visitor_begins(&mut self, shm: Shm, task: &Task) {
        let parent = task.vforked.as_ref().map(|parent| &parent.tape);
        let (Tape::Out(tape), Some(Tape::Out(parent))) = (&task.tape, parent) else {
            return;
        };
        self.count_ring(shm, parent.ring);
        self.counted.entry(parent.ring).or_default().events += 1;
        self.total.events += 1;
        self.counted.remove(&tape.ring);
        let visitor = Visitor {
            ring: tape.ring,
            leaves: None,
        };
        self.visitors.insert(parent.ring, visitor);
    }

    /// It is about to become another program, which its tape will say. Gives the past of that.
    pub fn visitor_executes(&mut self, shm: Shm, task: &Task) -> Elapsed {
        let mut past = self.at(shm, task);
        self.visitor_leaves(task, VisitorEnd::Executes);
        // A replay counts a turn where it leaves the place of its parent's thread.
        past.turns += u64::from(task.slot != task.index);
        past
    }

    /// It has logged its last event.
    pub fn visitor_ends(&mut self, shm: Shm, task: &Task) {
        self.at(shm, task);
        self.visitor_leaves(task, VisitorEnd::Ends);
    }

    fn visitor_leaves(&mut self, task: &Task, end: VisitorEnd) {
        let Tape::Out(tape) = &task.tape else {
            return;
        };
        let visitor = self.visitors.values_mut().find(|v| v.ring == tape.ring);
        if let Some(visitor) = visitor {
            visitor.leaves = Some(end);
        }
    }

    /// It has left, and the task of its parent goes on.
    pub fn visitor_left(&mut self, shm: Shm, task: &Task) {
        let Tape::Out(parent) = &task.tape else {
            return;
        };
        let Some(Visitor { ring, leaves }) = self.visitors.remove(&parent.ring) else {
            return;
        };
        match leaves {
            // The ring goes on with the program, whose image is its next event.
            Some(VisitorEnd::Executes) => self.total.events += 1,
            Some(VisitorEnd::Ends) => {}
            None => self.count_ring(shm, ring),
        }
        self.counted.remove(&ring);
    }
}
