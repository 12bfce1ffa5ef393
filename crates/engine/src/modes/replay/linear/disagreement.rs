//! Where a linearising replay left the recording, for its supervisor. It lies in memory that the replayed
//! processes write: a search that is told wrong things finds nothing, and no more than that.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::wanted::is_wanted;
use crate::guide::trials::Disagreement;
use crate::modes::replay::epoch_check::other_page;
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
    /// Moments, operations, ticks, ticks of the next event, events, and the page that differs.
    words: [AtomicU64; 6],
}

/// The first disagreement of a replay.
pub static TOLD: Section<Told> = Section::new();

// SAFETY: all that changes is atomic, and zeros are a value.
unsafe impl Shareable for Told {}

const NONE: u32 = 0;
const TELLING: u32 = 1;
const TOLD_ALL: u32 = 2;

/// Where a thread stands that has left the recording.
fn of(task: &mut Task) -> Disagreement {
    let ticks = task.ctx.ticks();
    let next = task.tape.outline().ok().flatten();
    let (moments, events) = match &task.tape {
        Tape::In(tape) => (tape.moments, tape.position()),
        _ => (0, 0),
    };
    Disagreement {
        process: task.process.index,
        thread: task.index,
        moments,
        ops: task.ctx.ops,
        ticks,
        recorded: next.map_or(ticks, |next| next.ticks),
        events,
        page: other_page(),
    }
}

impl Told {
    /// Tells of a disagreement, if none has been told before.
    fn tell(&self, at: Disagreement) {
        let change =
            self.state
                .compare_exchange(NONE, TELLING, Ordering::AcqRel, Ordering::Relaxed);
        if change.is_err() {
            return;
        }
        self.process.store(at.process, Ordering::Relaxed);
        self.thread.store(at.thread, Ordering::Relaxed);
        let words = [
            at.moments,
            at.ops,
            at.ticks,
            at.recorded,
            at.events,
            at.page,
        ];
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
        let [moments, ops, ticks, recorded, events, page] =
            std::array::from_fn(|i| self.words[i].load(Ordering::Relaxed));
        Some(Disagreement {
            process: self.process.load(Ordering::Relaxed),
            thread: self.thread.load(Ordering::Relaxed),
            moments,
            ops,
            ticks,
            recorded,
            events,
            page,
        })
    }
}

/// Where a linearising replay has left the recording.
pub fn in_replay(stepper: &mut Stepper) -> Option<Disagreement> {
    if !is_wanted() {
        return None;
    }
    let blamed = stepper.session.linear.as_ref().and_then(|l| l.blamed);
    let task = blamed.and_then(|slot| stepper.session.tasks.get_mut(&slot));
    Some(of(task.unwrap_or(&mut stepper.task)))
}

/// The thread that has left the recording does no more: others may go on.
pub fn abandon(stepper: &mut Stepper) {
    let running = stepper.task.slot;
    if let Some(linear) = &mut stepper.session.linear {
        let slot = linear.blamed.take().unwrap_or(running);
        linear.is_over(slot);
    }
    // It may stand in the midst of its event, which does not come.
    stepper.steps.get_or_insert(0);
}

/// Tells the supervisor of a linearising replay where it has left the recording.
pub fn tell(shm: Option<&Shm>, stepper: &mut Stepper) {
    if let (Some(shm), Some(at)) = (shm, in_replay(stepper)) {
        TOLD.of(shm).tell(at);
    }
}
