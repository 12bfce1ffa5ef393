//! What belongs to one host process as a whole: the mode, the guest's memory with its
//! translations, the baton, the shared memory of the recording.
//!
//! Lock order: baton, then process state, then memory. Nothing is locked while the guest
//! runs, and while recording only the holder of the baton locks anything.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock};

use crate::baton::Baton;
use crate::memory::Memory;
use crate::schedule::Schedule;
use crate::shm::Shm;

/// What this host process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Translate only; threads run on all cores.
    Run,
    /// Translate and log; one thread at a time.
    Record,
    /// Everything from the tapes; one host thread.
    Replay,
}

/// The host process.
pub struct Machine {
    /// What it does.
    pub mode: Mode,
    /// The guest's memory and its translations.
    pub memory: Mutex<Memory>,
    /// Who may run (recording only).
    pub baton: Baton,
    /// The memory shared with the supervisor and the other processes of the tree.
    pub shm: Option<Shm>,
    /// Where turns are logged (recording only).
    pub schedule: Mutex<Schedule>,
    /// Directory of the trace, absolute (recording and replay).
    pub trace: PathBuf,
    /// Seed of the schedule and whether it is a chaotic one (recording only).
    pub seed: Option<(u64, bool)>,
}

static MACHINE: OnceLock<Machine> = OnceLock::new();

/// Sets up the machine of this process, once.
pub fn install(machine: Machine) {
    assert!(
        MACHINE.set(machine).is_ok(),
        "a host process has one machine"
    );
}

/// The machine of this host process.
pub fn machine() -> &'static Machine {
    MACHINE
        .get()
        .expect("the machine is installed before any guest thread starts")
}

/// The shared memory, if there is any yet.
pub fn shm() -> Option<&'static Shm> {
    MACHINE.get().and_then(|m| m.shm.as_ref())
}

/// As [`shm`], or of a replay that begins and has no machine yet: who can be told why it ends.
pub fn teller() -> Option<&'static Shm> {
    shm().or_else(|| EARLY.get())
}

static EARLY: OnceLock<Shm> = OnceLock::new();

/// A replay has found the memory that it shares with its supervisor.
pub fn begins(shm: Shm) {
    // Once in a process; and the first is as good as a second.
    let _ = EARLY.set(shm);
}

impl Machine {
    /// Locks the guest's memory map and translations.
    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().expect("no thread panics: panics abort")
    }

    /// Locks the schedule; only the holder of the baton does.
    pub fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule
            .lock()
            .expect("no thread panics: panics abort")
    }
}
