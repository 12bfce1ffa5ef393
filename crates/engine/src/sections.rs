//! All sections of the shared memory, listed in the order of their places.

use std::sync::Once;

use crate::alarms::ALARMS;
use crate::image_stream::CHECKPOINTS;
use crate::input::shared_store;
use crate::kernel::stream_aliases::STREAM_ALIASES;
use crate::modes::replay::concurrency::CONCURRENCY;
use crate::modes::replay::linear::disagreement::TOLD;
use crate::modes::serial::flips::FLIPS;
use crate::modes::serial::sites::SITES;
use crate::ordered_sites::SITES as ORDERED_SITES;
use crate::ptrace::slots::SLOTS;
use crate::received::RECEIVED;
use crate::sharing::changes::CHANGES;
use crate::sharing::group::GROUP;
use crate::sharing::objects::SHARED_FILES;
use crate::sharing::processes::PROCESSES;
use crate::sharing::users::USERS;
use crate::shm::layout::Declared;
use crate::{cpuid, file_table, remarks, shm, stats};

/// Places the sections; before a process shares memory. Once is enough.
pub fn place() {
    /// Whether that has happened. Process-wide: the places are those of the executable, the same in all
    /// processes of a tree.
    static DONE: Once = Once::new();
    let all: [&'static dyn Declared; 21] = [
        &CONCURRENCY,
        &TOLD,
        &remarks::REMARKS,
        &cpuid::ANSWERS,
        &STREAM_ALIASES,
        &file_table::FILES,
        &file_table::CHECKED,
        &USERS,
        &CHANGES,
        &PROCESSES,
        &GROUP,
        &SHARED_FILES,
        &stats::COUNTERS,
        &shared_store::SHARED,
        &SITES,
        &FLIPS,
        &ALARMS,
        &SLOTS,
        &ORDERED_SITES,
        &CHECKPOINTS,
        &RECEIVED,
    ];
    DONE.call_once(|| shm::place(&all));
}
