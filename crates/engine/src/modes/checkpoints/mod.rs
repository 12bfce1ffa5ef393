//! Checkpoints of a recorded process, for the modes that make them: when one is wanted, how threads at rest are described,
//! and the copy that writes itself down. The modes decide where a copy can be made. Must never know how the threads
//! of a process are ordered.

pub mod checkpointing;
pub mod copy_of_itself;
pub mod progress;
pub mod resting;
mod staying_files;

use std::sync::atomic::Ordering;

use crate::call::Call;
use crate::image_stream::{CHECKPOINTS, PR_KEEP};
use crate::sharing::processes::PROCESSES;
use crate::shm::Shm;
use crate::task::Task;
use checkpointing::Checkpointing;
use copy_of_itself::{PlannedCopy, SHARED_MAX};

/// A call of prctl(2) that tells those something who make checkpoints.
#[cold]
pub fn told_by_prctl(shm: Shm, call: &Call) {
    let checkpoints = CHECKPOINTS.of(&shm);
    match call.int(0) {
        // Orphans come to its process.
        libc::PR_SET_CHILD_SUBREAPER => checkpoints.adopts(),
        PR_KEEP => {
            checkpoints.ask_to_keep();
            shm.wake_supervisor();
        }
        _ => {}
    }
}

/// Whether the description of the task tells all of it.
pub fn is_plain(task: &Task) -> bool {
    task.vforked.is_none() && !task.lodges && task.traced.is_none() && !task.looks
}

/// Whether ids and parents of processes are what the descriptions say.
pub fn has_plain_ids(shm: Shm) -> bool {
    !crate::ids::may_differ() && !CHECKPOINTS.of(&shm).may_be_adopted()
}

/// The turns that a process has begun: by the baton, and each program of it one.
pub fn turns_of(shm: Shm, process: u32) -> u32 {
    let slot = PROCESSES.of(&shm).get(process);
    slot.map_or(0, |slot| slot.turns.load(Ordering::Acquire))
}

/// Plans a copy of the task's process, of which checkpoint `wanted` is asked for, and takes a place for it; `None`: it can
/// have no copy now. `shared`: others write to its memory.
pub fn plan_copy(
    shm: Shm,
    task: &Task,
    own: &Checkpointing,
    wanted: u32,
    shared: bool,
) -> Option<PlannedCopy> {
    let all = CHECKPOINTS.of(&shm);
    let asked = own.lacks(wanted);
    own.made(wanted);
    tracing::debug!(target: "checkpoint", "checkpoint {wanted} of {}", task.id());
    let (stay, bytes) = staying_files::of_process(shm, task);
    let twice = task.machine().memory().space.shows_unnamed_twice();
    if shared || twice || bytes > SHARED_MAX {
        all.left_out();
        // The supervisor asks again; before each sleep it would cost a look at the whole map.
        own.has_none();
        return None;
    }
    let place = match all.sleep() {
        false => None,
        true => {
            let place = all.new_copy(asked)?;
            own.copied();
            Some(place)
        }
    };
    Some(PlannedCopy {
        place,
        stay,
        shared: bytes,
    })
}
