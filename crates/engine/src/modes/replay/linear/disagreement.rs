//! Where a linearising replay left the recording, for its supervisor. It lies in memory that the replayed
//! processes write: a search that is told wrong things finds nothing, and no more than that.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::wanted::is_wanted;
use crate::modes::replay::stepper::process::Stepper;
use crate::section::{Section, Shareable};
use crate::shm::Shm;
use crate::tape::Tape;
use crate::task::Task;

/// The first disagreement of a replay.
#[repr(C)]
pub struct Told {
    state: AtomicU32,
    process: AtomicU32,
    thread: AtomicU32,
    _pad: u32,
    /// Moments, operations, ticks, ticks of the next event, and events.
    words: [AtomicU64; 5],
}

/// The first disagreement of a replay.
pub static TOLD: Section<Told> = Section::new();

// SAFETY: all that changes is atomic, and zeros are a value.
unsafe impl Shareable for Told {}

const NONE: u32 = 0;
const TELLING: u32 = 1;
const TOLD_ALL: u32 = 2;

/// Where a thread stood when the replay left the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// Index of the process.
    pub process: u32,
    /// Index of the thread.
    pub thread: u32,
    /// Moments behind the thread.
    pub moments: u64,
    /// Operations behind it.
    pub ops: u64,
    /// Its tick.
    pub ticks: u64,
    /// The tick of its next event, in the recording.
    pub recorded: u64,
    /// Events behind it.
    pub events: u64,
}

impl Told {
    /// Tells where a task stands that has left the recording, if none has been told before.
    pub fn tell(&self, task: &mut Task) {
        let change =
            self.state
                .compare_exchange(NONE, TELLING, Ordering::AcqRel, Ordering::Relaxed);
        if change.is_err() {
            return;
        }
        let ticks = task.ctx.ticks();
        let next = task.tape.outline().ok().flatten();
        let recorded = next.map_or(ticks, |next| next.ticks);
        let (moments, events) = match &task.tape {
            Tape::In(tape) => (tape.moments, tape.position()),
            _ => (0, 0),
        };
        self.process.store(task.process.index, Ordering::Relaxed);
        self.thread.store(task.index, Ordering::Relaxed);
        let words = [moments, task.ctx.ops, ticks, recorded, events];
        for (slot, word) in self.words.iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        self.state.store(TOLD_ALL, Ordering::Release);
    }

    /// The disagreement, if there was one.
    #[must_use]
    pub fn read(&self) -> Option<Disagreement> {
        if self.state.load(Ordering::Acquire) != TOLD_ALL {
            return None;
        }
        let [moments, ops, ticks, recorded, events] =
            std::array::from_fn(|i| self.words[i].load(Ordering::Relaxed));
        Some(Disagreement {
            process: self.process.load(Ordering::Relaxed),
            thread: self.thread.load(Ordering::Relaxed),
            moments,
            ops,
            ticks,
            recorded,
            events,
        })
    }
}

/// Tells the supervisor of a linearising replay where it has left the recording.
pub fn tell(shm: Option<&Shm>, stepper: &mut Stepper) {
    let Some(shm) = shm.filter(|_| is_wanted()) else {
        return;
    };
    let blamed = stepper.session.linear.as_ref().and_then(|l| l.blamed);
    let task = blamed.and_then(|slot| stepper.session.tasks.get_mut(&slot));
    TOLD.of(shm).tell(task.unwrap_or(&mut stepper.task));
}
