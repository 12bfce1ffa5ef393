//! The threads of a process that are without the baton, as a checkpoint finds them: asleep in a call, behind a switch,
//! or before their first turn; or as one that has quiet finds them. Must never be asked by another thread than that.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use crate::registry::RestPlace;
use crate::task::Task;

/// Where a thread has given its turn away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestingPlace {
    /// Inside the call that it stands at.
    Call,
    /// At a switch that is on its tape, so many instructions behind the last event or tick before.
    Switch(u32),
    /// Before its first event.
    Start,
    /// At the call that it is in, where threads take no turns.
    BeforeCall,
    /// In front of an instruction, so many behind the last event or tick before, where threads take no turns.
    Instruction(u32),
}

/// A thread at rest.
#[derive(Clone, Copy)]
pub struct RestingTask {
    task: *const Task,
    /// Where it rests.
    pub place: RestingPlace,
}

impl RestingTask {
    /// A thread that rests as long as another one has quiet; `None`: where it does cannot be described.
    ///
    /// # Safety
    /// Its task is at that address, and there is quiet.
    pub unsafe fn in_quiet(task: usize, place: RestPlace) -> Option<Self> {
        let task: *const Task = std::ptr::with_exposed_provenance(task);
        // SAFETY: as above: the thread is at rest, and its task stays where it is.
        let at = unsafe { &*task };
        let place = match place {
            RestPlace::Unknown => return None,
            RestPlace::Call | RestPlace::MemoryOfCall => RestingPlace::BeforeCall,
            RestPlace::SafePoint | RestPlace::Instruction => {
                RestingPlace::Instruction(if at.exact { at.steps } else { 0 })
            }
        };
        Some(Self { task, place })
    }
}

// SAFETY: the pointer is followed only between the two calls of its thread that put it here and take it away, both of
// which hold the baton, or as long as there is quiet; the task stays where it is meanwhile.
unsafe impl Send for RestingTask {}

impl RestingTask {
    /// The task.
    ///
    /// # Safety
    /// The caller holds the baton, or has quiet, or is a copy of the process that was made by the thread that did.
    pub unsafe fn task(&self) -> &Task {
        // SAFETY: as above; all that the thread changes meanwhile are the signals that its handler notes.
        unsafe { &*self.task }
    }
}

/// All of a process, by slot.
#[derive(Default)]
pub struct RestingTasks(Mutex<BTreeMap<u32, RestingTask>>);

impl RestingTasks {
    /// The table; only the holder of the baton asks for it.
    pub fn all(&self) -> MutexGuard<'_, BTreeMap<u32, RestingTask>> {
        self.0.lock().expect("no thread panics: panics abort")
    }

    /// The thread is about to give the baton away.
    pub fn rests(&self, task: &Task, place: RestingPlace) {
        let resting = RestingTask {
            task: std::ptr::from_ref(task),
            place,
        };
        self.all().insert(task.slot, resting);
    }

    /// It has it back.
    pub fn goes_on(&self, task: &Task) {
        self.all().remove(&task.slot);
    }
}
