//! The threads of a process that are without the baton, as a checkpoint finds them: asleep in a call, behind a switch,
//! or before their first turn. Must never be asked by a thread that does not hold the baton.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

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
}

/// A thread at rest.
#[derive(Clone, Copy)]
pub struct RestingTask {
    task: *const Task,
    /// Where it rests.
    pub place: RestingPlace,
}

// SAFETY: the pointer is followed only between the two calls of its thread that put it here and take it away, both of
// which hold the baton; the task stays where it is meanwhile.
unsafe impl Send for RestingTask {}

impl RestingTask {
    /// The task.
    ///
    /// # Safety
    /// The caller holds the baton, or is a copy of the process that was made by the thread that held it.
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
