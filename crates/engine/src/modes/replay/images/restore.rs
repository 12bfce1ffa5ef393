//! A replay that begins with a session image: tasks, turns and memory are made as the image says, and
//! the tapes are read on from there. The image may come from a stranger, as all of the recording: the
//! process is confined, and each later event is checked.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;

use relive_trace::{FileId, ImageReader, ImageSet, TapeId, TapeMark};

use crate::failure::Failure;
use crate::machine::Machine;
use crate::memory::Source;
use crate::modes::replay::guided::track::Track;
use crate::modes::replay::hook_state::{self, with};
use crate::modes::replay::images::process_capture::capture;
use crate::modes::replay::linear::due::Linear;
use crate::modes::replay::mapped_copies::copy_of;
use crate::modes::replay::own_schedule::TurnSchedule;
use crate::modes::replay::session::Session;
use crate::modes::replay::stepper::process::Stepper;
use crate::process::Process;
use crate::session_state::{ImageResult, Refused, SessionState, ThreadState};
use crate::sharing::objects::{Objects, ROOM, SHARED_FILES};
use crate::space::Region;
use crate::tape::{Tape, TapeIn, TapeState};
use crate::task::Task;
use crate::translations;

/// The exact tapes that a replay which has found the turns writes, from here on; in an epoch they go on from those of the epochs
/// before, each with the switch by which its thread came to its place.
///
/// # Errors
/// There is no room for them.
pub fn write_exact(stepper: &mut Stepper, set: ImageSet) -> ImageResult<()> {
    let own = stepper.steps.unwrap_or_default();
    let others = stepper.session.tasks.values_mut();
    let others = others.map(|task| (u64::from(task.steps), task));
    for (steps, task) in others.chain([(own, &mut stepper.task)]) {
        let id = TapeId::new(task.process.index, task.index);
        if let Tape::In(tape) = &mut task.tape {
            tape.exact = hook_state::exact_tape(id)?;
            if let (Some(exact), ImageSet::Epochs) = (&mut tape.exact, set) {
                exact.goes_on(task.ctx.ticks(), steps as u32);
            }
        }
    }
    Ok(())
}

/// The state in an image, which belongs to this recording and this process.
///
/// # Errors
/// It does not, or is damaged.
pub fn state(image: &ImageReader, set: ImageSet, process: u32) -> ImageResult<SessionState> {
    let mut state = SessionState::of(image)?;
    if set == ImageSet::Epochs {
        with(|s| state.settle(&s.trace));
    }
    if set == ImageSet::Begin && with(|s| s.trace.has_found_turns()) {
        at_exact_tapes(&mut state);
    }
    if state.process.index != process {
        return Err(bad("it is of another process"));
    }
    share_memory(&mut state, hook_state::alone());
    let belongs = match set {
        ImageSet::Index => image.head().tapes == with(|s| s.trace.sum()),
        // The epoch before it is compared with it, and the tapes may still grow.
        ImageSet::Epochs => true,
        ImageSet::Begin => is_beginning(image, &state),
    };
    match belongs {
        true => Ok(state),
        false => Err(Refused::Image(
            "a session image is of another recording".to_owned(),
        )),
    }
}

/// The same process where its turns have been found: the exact tapes begin there.
fn at_exact_tapes(state: &mut SessionState) {
    for tape in state.threads.iter_mut().filter_map(|t| t.tape.as_mut()) {
        *tape = TapeState::at(TapeMark::default());
    }
}

/// Memory that is common and has no file is private in a replay of its process alone, and else shared with the children to come.
fn share_memory(state: &mut SessionState, alone: bool) {
    match alone {
        true => state.memory.keep_unnamed_private(),
        false => {
            let regions = state.memory.space.regions.iter_mut();
            let unnamed = regions.filter(|r| r.common && r.inode == 0);
            unnamed.for_each(|region| region.shared = true);
        }
    }
}

/// Whether the excerpt begins as the state of one of its processes says.
fn is_beginning(image: &ImageReader, state: &SessionState) -> bool {
    let excerpt = with(|s| s.trace.manifest().excerpt.clone());
    let Some(excerpt) = excerpt.filter(|excerpt| excerpt.images == image.number()) else {
        return false;
    };
    let index = state.process.index;
    let named = excerpt.tapes.iter().filter(|t| t.process == index);
    let named = named.map(|t| (t.id(), t.mark()));
    excerpt.process(index) == Some(&state.begins()) && named.eq(state.marks())
}

/// Whether a replay agrees with its image: described now, it has the same description, and its memory
/// and registers have the same checksum.
///
/// # Errors
/// It does not.
pub fn check(at: &Stepper, track: &Track, state: &SessionState) -> ImageResult<()> {
    let Some(mut again) = capture(at, track.capture())? else {
        return Err(bad("a process cannot be in this state"));
    };
    // The processes of an excerpt have one list of shared files.
    let known = |(file, len): &(u64, u64)| {
        let mut all = again.shared_files.iter();
        all.any(|(other, end)| other == file && end >= len)
    };
    if state.shared_files.iter().all(known) {
        again.shared_files.clone_from(&state.shared_files);
    }
    if again == *state {
        return Ok(());
    }
    tracing::debug!(target: "image", "described again: {again:#?}\nin the image: {state:#?}");
    Err(bad(&match again.sum == state.sum {
        true => "a process cannot be in this state".to_owned(),
        false => format!(
            "memory and registers have the checksum {:016x}, and had {:016x}",
            again.sum, state.sum
        ),
    }))
}

fn bad(what: &str) -> Refused {
    Refused::damaged(what)
}

/// The threads of the process, the one whose turn it is first.
///
/// # Errors
/// The trace has no such tapes.
pub fn tasks(machine: &'static Machine, state: &SessionState) -> ImageResult<Vec<Task>> {
    let process = Process::restore(state.process.clone());
    let task = |thread: &ThreadState| {
        let index = thread.task.index;
        let tape = match &thread.tape {
            None => Tape::Blank,
            Some(at) => {
                let id = TapeId::new(state.process.index, index);
                let reader = with(|s| s.trace.tape_at(id, &at.mark)).map_err(Failure::setup)?;
                let tape = TapeIn::restore(reader, at, thread.task.ticks);
                Tape::In(tape.ok_or_else(|| bad("impossible readings of clocks"))?)
            }
        };
        let process = process.clone();
        let mut task = Task::new(machine, process, index, thread.task.tid, tape);
        task.restore(thread.task.clone());
        if let Some(tape) = &thread.tape {
            (task.ctx.ops, task.ctx.marks) = (tape.order.ops, tape.order.marks);
        }
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
) -> ImageResult<()> {
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
    let mut refused = None;
    let mapped = memory.restore(&state.memory, |region| {
        let (file, offset) = match source(machine, objects, region) {
            Ok(None) => return Ok(Source::Anon),
            Ok(Some(found)) => found,
            Err(Refused::Failed(failure)) => return Err(failure),
            Err(image) => {
                let failure = Failure::setup(&image);
                refused = Some(image);
                return Err(failure);
            }
        };
        let descriptor = file.as_raw_fd();
        open.push(file);
        Ok(Source::File(descriptor, offset))
    });
    if let Some(refused) = refused {
        return Err(refused);
    }
    mapped?;
    image.pages(|addr, bytes| match memory.fill(addr, bytes) {
        Ok(true) => Ok(()),
        Ok(false) => Err(bad("pages where nothing is mapped")),
        Err(failure) => Err(Refused::Failed(failure)),
    })
}

/// The file that a region shows, and the offset in it, if not zeros.
fn source(
    machine: &Machine,
    objects: &Objects,
    region: &Region,
) -> ImageResult<Option<(File, u64)>> {
    if !region.shared {
        let copy = |id: FileId| copy_of(machine, id).map(|file| (file, region.offset));
        return Ok(region.copy.map(copy).transpose()?);
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
) -> ImageResult<Stepper> {
    let replayed = &state.replayed;
    with(|s| s.children = replayed.children.clone());
    hook_state::begin_at(replayed.events, replayed.maps_shared);
    let turns = TurnSchedule::restore(machine, state.process.index, state.turn, state.schedule)?;
    let mut tasks = tasks.into_iter();
    let first = tasks
        .next()
        .ok_or_else(|| bad("a process without threads"))?;
    let others: BTreeMap<u32, Box<Task>> = tasks.map(|task| (task.slot, Box::new(task))).collect();
    let mut linear = Linear::of(machine, state.process.index)?;
    if let Some(linear) = &mut linear {
        linear.begins_amid(&first, &others);
    }
    let stepper = Stepper::new(Session::resumed(turns, linear, others), Box::new(first));
    Ok(Stepper {
        turn: replayed.turns,
        ..stepper
    })
}
