//! The state for the hooks of a replaying process while the stepper holds its tasks: the trace, the
//! number of consumed events, the ancestors of the process, output. Must never hold its lock while
//! guest code runs.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use relive_trace::{TapeId, Trace};

use super::epoch::EpochEnd;
use super::linear::wanted;
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::tape::{ExactTape, Tape, TapeIn, TapeOut};

/// A file for each process with the changes that other processes made to its memory.
pub type ForeignFiles = BTreeMap<u32, File>;

/// The session's state that hooks need while the loop holds the tasks.
pub struct ReplayState {
    /// The recording.
    pub trace: Trace,
    /// Indices of the children of this process, by pid in the recording.
    pub(super) children: BTreeMap<u32, u32>,
    /// The one file that all processes of the replay map in place of files that are mapped shared.
    pub pool: File,
    /// Nothing is written to the standard streams.
    pub quiet: bool,
    /// Output that would be written, where a debugger wants it.
    pub caught: Option<crate::guide::protocol::Output>,
    /// The number behind that of its last output.
    pub(super) outputs: u64,
    /// Set for a timeline: the one process to replay, behind the processes that it comes
    /// from. Nothing forks and nothing waits for other processes then.
    pub(super) follow: Option<Vec<u32>>,
    /// The list of this process's pages, once it has been asked for; `Some(None)`: there is none.
    pub(super) pages: Option<Option<File>>,
    /// The changes of other processes; `None`: no replay has looked for them.
    pub(super) foreign: Option<ForeignFiles>,
    /// The end of its epoch, if that is not the end of the recording.
    pub(super) epoch_end: Option<EpochEnd>,
    /// The first page that differs there; 0: none is known to.
    pub(super) other_page: u64,
}

/// The state, and beside its lock the parts that hooks may ask for in any place.
struct Shared {
    machine: &'static Machine,
    /// Events of this process that have been consumed.
    events: AtomicU64,
    /// A file is mapped shared.
    maps_shared: AtomicBool,
    state: Mutex<ReplayState>,
}

/// Process-wide: the mode's hooks have no session, which the stepper holds while they run.
static SHARED: OnceLock<Shared> = OnceLock::new();

impl ReplayState {
    /// Of a replay that begins.
    pub(super) fn new(
        trace: Trace,
        pool: File,
        follow: Option<Vec<u32>>,
        foreign: Option<ForeignFiles>,
    ) -> Self {
        Self {
            trace,
            children: BTreeMap::new(),
            pool,
            quiet: std::env::var_os("RELIVE_QUIET").is_some(),
            caught: None,
            outputs: 0,
            follow,
            pages: None,
            foreign,
            epoch_end: None,
            other_page: 0,
        }
    }

    /// Makes it the state that hooks see, once.
    pub(super) fn install(self, machine: &'static Machine) -> Result<()> {
        let shared = Shared {
            machine,
            events: AtomicU64::new(0),
            maps_shared: AtomicBool::new(false),
            state: Mutex::new(self),
        };
        SHARED
            .set(shared)
            .map_err(|_| Failure::internal("a replay starts once"))
    }
}

fn shared() -> &'static Shared {
    SHARED.get().expect("a replay has a session")
}

/// Runs `f` with the shared part.
pub fn with<R>(f: impl FnOnce(&mut ReplayState) -> R) -> R {
    f(&mut shared()
        .state
        .lock()
        .expect("no thread panics: panics abort"))
}

/// The machine of the replay, for hooks that are handed no task.
pub fn machine() -> &'static Machine {
    shared().machine
}

/// Events of this process that have been consumed: none before the replay has begun.
pub fn events() -> u64 {
    SHARED
        .get()
        .map_or(0, |shared| shared.events.load(Ordering::Relaxed))
}

/// Counts an event of this process, and of the whole tree.
pub fn count_event(machine: &Machine) {
    // Only the one thread of a replay writes it.
    let events = &shared().events;
    events.store(events.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    if let Some(shm) = machine.shm.as_ref() {
        shm.header().events.fetch_add(1, Ordering::Relaxed);
    }
}

/// Events of all processes that have the memory of this one in common, compared with the recording.
pub fn compared(machine: &Machine) -> u64 {
    let shm = machine.shm.as_ref();
    shm.map_or(0, |shm| shm.header().events.load(Ordering::Relaxed))
}

/// The replay begins where so many events of its process have been consumed, and files may have been
/// mapped shared.
pub fn begin_at(events: u64, shared: bool) {
    self::shared().events.store(events, Ordering::Relaxed);
    self::shared().maps_shared.store(shared, Ordering::Relaxed);
}

/// A file has been mapped shared.
pub fn maps_shared() {
    shared().maps_shared.store(true, Ordering::Relaxed);
}

/// Whether a file has ever been mapped shared.
pub fn has_mapped_shared() -> bool {
    shared().maps_shared.load(Ordering::Relaxed)
}

/// Whether output is suppressed.
#[must_use]
pub fn quiet() -> bool {
    with(|s| s.quiet)
}

/// Keeps output, where a debugger wants it.
pub fn caught(stream: u8, bytes: &[u8]) {
    with(|s| {
        if let Some(output) = &mut s.caught {
            output.push(stream, bytes);
        }
    });
}

/// The process has made the output with this number.
pub fn made_output(order: u64) {
    with(|s| s.outputs = order + 1);
}

/// The replay begins where outputs with lower numbers had been made.
pub fn begin_at_output(order: u64) {
    with(|s| s.outputs = order);
}

/// The process has made all of its outputs with lower numbers.
#[must_use]
pub fn outputs_made() -> u64 {
    with(|s| s.outputs)
}

/// Whether this replay is of one process alone.
#[must_use]
pub fn alone() -> bool {
    with(|s| s.follow.is_some())
}

/// The number of the next output that is there, from this one on.
#[must_use]
pub fn output_from(order: u64) -> u64 {
    with(|s| {
        let excerpt = &s.trace.manifest().excerpt;
        excerpt.as_ref().map_or(order, |e| e.output_from(order))
    })
}

/// Opens the tape of a task; where the replay linearises, with the exact one that it becomes.
///
/// # Errors
/// The trace is damaged; no room for the exact tape.
pub fn task_tape(id: TapeId) -> Result<Tape> {
    let mut tape = open_tape(id)?;
    if let Tape::In(tape) = &mut tape {
        tape.exact = exact_tape(id)?;
    }
    Ok(tape)
}

/// The exact tape of a task, if the replay writes one.
///
/// # Errors
/// There is no room for it.
pub fn exact_tape(id: TapeId) -> Result<Option<ExactTape>> {
    let writes = wanted::is_wanted() && wanted::is_written();
    let shm = machine().shm.filter(|_| writes);
    let tape = shm.map(|shm| TapeOut::create(shm, id));
    Ok(tape.transpose()?.map(ExactTape::new))
}

/// Opens a tape. A thread may have none: its process ended before its first turn.
///
/// # Errors
/// The trace is damaged.
pub fn open_tape(id: TapeId) -> Result<Tape> {
    match with(|s| s.trace.tape(id)) {
        Ok(tape) => Ok(Tape::In(TapeIn::new(tape))),
        Err(relive_trace::Error::NoTape { .. }) => Ok(Tape::Blank),
        Err(e) => Err(Failure::setup(e)),
    }
}
