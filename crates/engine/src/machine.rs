//! The state of one host process as a whole: its mode, the guest's memory with its
//! translations, its threads, the memory shared with the supervisor.
//!
//! Lock order: process state, then memory. No lock may be held while the guest runs; the locks of a mode
//! are described in its folder.

use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock};

use relive_dbt::Stats;

use crate::descriptor_kinds::DescriptorKinds;
use crate::memory::Memory;
use crate::mode::{Mode, Name};
use crate::registry::Registry;
use crate::shm::Shm;

/// The host process.
pub struct Machine {
    /// How it runs its guest.
    pub mode: &'static dyn Mode,
    /// The name of the mode, for the next program's host.
    pub name: Name,
    /// The guest's memory and its translations.
    pub memory: Mutex<Memory>,
    /// The guest's threads.
    pub registry: Registry,
    /// The memory shared with the supervisor and the other processes of the tree.
    pub shm: Option<Shm>,
    /// Directory of the trace, absolute (recording and replay).
    pub trace: PathBuf,
    /// The kinds of files behind the guest's descriptors.
    pub descriptor_kinds: DescriptorKinds,
    /// No descriptor of the host's has a lower number.
    pub fd_floor: i32,
}

/// The machine of this host process. Process-wide: callbacks of the translator and of signal handlers get
/// no argument for it, and tasks refer to it for ever.
static MACHINE: OnceLock<Machine> = OnceLock::new();

/// Sets up the machine of this process, once.
pub fn install(new: Machine) -> &'static Machine {
    assert!(MACHINE.set(new).is_ok(), "a host process has one machine");
    machine()
}

/// The machine of this host process, for functions without an argument for it: callbacks of the
/// translator, the counters and signal handlers. All others take it from their task ([`Task::machine`]),
/// or from an argument, or, in hooks of a replay without a task, from the replay's shared state.
///
/// [`Task::machine`]: crate::task::Task::machine
pub fn machine() -> &'static Machine {
    MACHINE
        .get()
        .expect("the machine is installed before any guest thread starts")
}

/// Lets the translator count into a slot of its process's counters.
pub fn count_translations(at: NonNull<Stats>) {
    // SAFETY: the slot lies in a mapping that is never removed, and is this process's
    // until it ends; the translator is used by one thread at a time.
    unsafe { machine().memory().translator.count_in(at) };
}

impl Machine {
    /// Locks the guest's memory map and translations.
    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().expect("no thread panics: panics abort")
    }
}
