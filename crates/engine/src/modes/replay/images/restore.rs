//! A replay that begins with a session image: tasks, turns and memory are made as the image says, and
//! the tapes are read on from there. The image may come from a stranger, as all of the recording: the
//! process is confined, and each later event is checked.

use std::fs::File;
use std::os::fd::AsRawFd;

use relive_trace::{Error, FileId, ImageReader, TapeId};

use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::memory::Source;
use crate::modes::replay::guided::track::Track;
use crate::modes::replay::hook_state::{self, with};
use crate::modes::replay::images::process_capture::capture;
use crate::modes::replay::mapped_copies::copy_of;
use crate::modes::replay::own_schedule::TurnSchedule;
use crate::modes::replay::session::Session;
use crate::modes::replay::stepper::process::Stepper;
use crate::process::Process;
use crate::session_state::{LAYOUT, SessionState, ThreadState, useless};
use crate::sharing::objects::{Objects, ROOM, SHARED_FILES};
use crate::space::Region;
use crate::tape::{Tape, TapeIn};
use crate::task::Task;
use crate::translations;

/// The state in an image, which belongs to this recording and this process.
///
/// # Errors
/// It does not, or is damaged.
pub fn state(image: &ImageReader, process: u32) -> Result<SessionState> {
    let head = image.head();
    if head.layout != LAYOUT || head.tapes != with(|s| s.trace.sum()) {
        return Err(useless(
            "a session image is of another recording, or of another version of Relive",
        ));
    }
    let state = SessionState::decode(image.state())?;
    match state.process.index == process {
        true => Ok(state),
        false => Err(bad("it is of another process")),
    }
}

/// Whether a replay agrees with its image: described now, it has the same description, and its memory
/// and registers have the same checksum.
///
/// # Errors
/// It does not.
pub fn check(at: &Stepper, track: &Track, state: &SessionState) -> Result<()> {
    match capture(at, track.capture())? {
        Some(again) if again == *state => Ok(()),
        Some(again) if again.sum != state.sum => Err(bad(&format!(
            "memory and registers have the checksum {:016x}, and had {:016x}",
            again.sum, state.sum
        ))),
        _ => Err(bad("a process cannot be in this state")),
    }
}

fn bad(what: &str) -> Failure {
    useless(format!("a session image is damaged: {what}"))
}

/// The threads of the process, the one whose turn it is first.
///
/// # Errors
/// The trace has no such tapes.
pub fn tasks(machine: &'static Machine, state: &SessionState) -> Result<Vec<Task>> {
    let process = Process::restore(state.process.clone());
    let task = |thread: &ThreadState| {
        let index = thread.task.index;
        let tape = match &thread.tape {
            None => Tape::Blank,
            Some(at) => {
                let id = TapeId::new(state.process.index, index);
                let reader = with(|s| s.trace.tape_at(id, &at.mark)).map_err(Failure::setup)?;
                let tape = TapeIn::restore(reader, at);
                Tape::In(tape.ok_or_else(|| bad("impossible readings of clocks"))?)
            }
        };
        let process = process.clone();
        let mut task = Task::new(machine, process, index, thread.task.tid, tape);
        task.restore(thread.task.clone());
        Ok(task)
    };
    state.threads.iter().map(task).collect()
}

/// Brings memory to the state of the image; the calling thread is ready for a task, so that a write which
/// fails has an answer.
///
/// # Errors
/// It cannot be mapped, or a page is damaged.
pub fn memory(
    machine: &'static Machine,
    state: &SessionState,
    image: &mut ImageReader,
) -> Result<()> {
    let objects = machine.shm.as_ref().map(|shm| SHARED_FILES.of(shm));
    let objects = objects.ok_or_else(|| Failure::internal("a replay has shared memory"))?;
    for (file, len) in &state.shared_files {
        if !objects.restore(*file, *len) {
            return Err(bad("too many shared files, or too long ones"));
        }
    }
    let mut memory = machine.memory();
    translations::load_served(&mut memory, &state.process.state.exe);
    // Open until they are mapped.
    let mut open = Vec::new();
    memory.restore(&state.memory, |region| {
        let (file, offset) = match source(machine, objects, region)? {
            None => return Ok(Source::Anon),
            Some(found) => found,
        };
        let descriptor = file.as_raw_fd();
        open.push(file);
        Ok(Source::File(descriptor, offset))
    })?;
    image.pages(|addr, bytes| match memory.fill(addr, bytes) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Refused::Failed(bad("pages where nothing is mapped"))),
        Err(failure) => Err(Refused::Failed(failure)),
    })?;
    Ok(())
}

/// Why pages were not taken.
enum Refused {
    Damaged(Error),
    Failed(Failure),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Damaged(error)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Damaged(error) => useless(error),
            Refused::Failed(failure) => failure,
        }
    }
}

/// The file that a region shows, and the offset in it, if not zeros.
fn source(machine: &Machine, objects: &Objects, region: &Region) -> Result<Option<(File, u64)>> {
    if !region.shared {
        let copy = |id: FileId| copy_of(machine, id).map(|file| (file, region.offset));
        return region.copy.map(copy).transpose();
    }
    if region.inode == 0 {
        return Ok(None);
    }
    let end = region.offset + (region.end - region.start);
    let base = objects.base(region.inode).filter(|_| end <= ROOM);
    let base = base.ok_or_else(|| bad("a map of a shared file that it does not name"))?;
    let no = |e: std::io::Error| Failure::setup(format!("no memory for a shared file: {e}"));
    let pool = with(|s| s.pool.try_clone()).map_err(no)?;
    objects.reach(&pool, base + end).map_err(no)?;
    Ok(Some((pool, base + region.offset)))
}

/// The replay, with tasks and memory of the image.
///
/// # Errors
/// The trace has no such schedule.
pub fn stepper(
    machine: &'static Machine,
    state: &SessionState,
    tasks: Vec<Task>,
) -> Result<Stepper> {
    let replayed = &state.replayed;
    with(|s| s.children = replayed.children.clone());
    hook_state::begin_at(replayed.events, replayed.maps_shared);
    let turns = TurnSchedule::restore(machine, state.process.index, state.turn, state.schedule)?;
    let mut tasks = tasks.into_iter();
    let first = tasks
        .next()
        .ok_or_else(|| bad("a process without threads"))?;
    let others = tasks.map(|task| (task.slot, Box::new(task))).collect();
    let stepper = Stepper::new(Session::resumed(turns, others), Box::new(first));
    Ok(Stepper {
        turn: replayed.turns,
        ..stepper
    })
}
