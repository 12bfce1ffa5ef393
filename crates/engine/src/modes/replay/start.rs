//! The start of a replay: everything that it needs of the machine is opened, then it confines itself.
//! Must never open anything behind [`super::confine::enter`].

use std::convert::Infallible;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};

use relive_host::sys;
use relive_trace::{ImageSet, Kind, TapeId, Trace};

use super::checksum::Checksums;
use super::confine::{self, ReplayRights};
use super::epoch::{Epoch, EpochEnd};
use super::guided::track::Track;
use super::hook_state::{ReplayState, task_tape};
use super::host_thread::get_ready;
use super::images::first_processes::{self, ProcessImage};
use super::linear::{disagreement, wanted};
use super::other_writers;
use super::races::learning::Learning;
use super::races::mark_check::MarkCheck;
use super::session::Session;
use super::stepper::process::Stepper;
use super::stepper::stops::NoStops;
use crate::broker;
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::process::Process;
use crate::process::state::ProcessState;
use crate::task::Task;

/// Asks for a descriptor of this process's memory, in place of that of the one that it was forked
/// from.
fn own_memory(old: i32, _: i32) -> Option<i32> {
    if old >= 0 {
        // SAFETY: the translator's, which uses it no more.
        drop(unsafe { OwnedFd::from_raw_fd(old) });
    }
    broker::proc_file(broker::Proc::Memory).map(IntoRawFd::into_raw_fd)
}

/// Replays the first process of the trace, and by forking all others.
///
/// # Errors
/// Divergence, a damaged trace.
pub fn main(machine: &'static Machine) -> Result<Infallible> {
    // All that a replay opens itself: afterwards there are no paths any more.
    let guide = crate::guide::start_variable::requested();
    let follow = guide.as_ref().map(|g| g.follow.clone());
    // Exact tapes may come to be there while others search too.
    let trace = match wanted::is_wanted() {
        true => Trace::open_recorded(&machine.trace),
        false => Trace::open(&machine.trace),
    };
    let trace = trace.map_err(Failure::setup)?;
    let image = guide
        .as_ref()
        .and_then(|guide| Some((guide.goal(), guide.image?)));
    let epoch = Epoch::requested()?;
    let mut images = match (image, epoch.begin) {
        (Some((goal, work)), _) => vec![ProcessImage::open(&trace, ImageSet::Index, goal, work)],
        (None, Some(work)) => vec![ProcessImage::open(&trace, ImageSet::Epochs, 0, work)],
        (None, None) => first_processes::open(&trace, follow.as_deref()),
    };
    let epoch_end = epoch.end.map(|work| EpochEnd::open(&trace, work));
    let epoch_end = epoch_end.transpose()?;
    let foreign = other_writers::open(follow.as_deref().unwrap_or_default())?;
    let rights = match guide.is_some() {
        true => ReplayRights::Guided,
        false => ReplayRights::Plain,
    };
    attach(machine, &trace, rights)?;
    if let (Some(_), Some(shm)) = (&guide, machine.shm.as_ref()) {
        shm.make_private()?;
    }
    let pool = crate::sharing::objects::pool().map_err(Failure::setup)?;
    let state = ReplayState {
        epoch_end,
        ..ReplayState::new(trace, pool, follow, foreign)
    };
    state.install(machine)?;
    if let Some(guide) = &guide {
        let begun = match images.pop() {
            Some(image) => image.resume(machine),
            None => begin(machine).map(|stepper| (stepper, Track::default())),
        };
        super::guided::serve::serve(begun, guide);
        // The socket is closed: nothing is left to be done.
        sys::exit_group(0)
    }
    if let Some(shm) = machine.shm.as_ref() {
        shm.register(std::process::id());
    }
    let mut stepper = match images.is_empty() {
        true => begin(machine)?,
        false => first_processes::begin(machine, images)?,
    };
    let ended = match Checksums::requested() {
        None => {
            let ended = match (Learning::requested()?, MarkCheck::requested()?) {
                (None, Some(mut check)) => {
                    let ended = stepper.run_to_end(&mut check);
                    check.outcome()?;
                    ended
                }
                (None, None) => stepper.run_to_end(&mut NoStops),
                (Some(mut learning), _) => {
                    let ended = stepper.run_to_end(&mut learning);
                    learning.tell(&stepper);
                    ended
                }
            };
            if ended.is_err() {
                disagreement::tell(machine.shm.as_ref(), &mut stepper);
            }
            ended?
        }
        Some(mut checksums) => stepper.run_to_end(&mut checksums)?,
    };
    stepper.session.end(ended)
}

/// Attaches the process to its supervisor and to the input of the trace, and confines it between these.
fn attach(machine: &'static Machine, trace: &Trace, rights: ReplayRights) -> Result<()> {
    broker::attach()?;
    machine.memory().translator.ask_for_memory(own_memory);
    confine::enter(rights)?;
    crate::input::recorded::attach(trace.input())
}

/// Begins a replay whose threads run beside each other: the first process of a trace, before its first event.
///
/// # Errors
/// Divergence, a damaged trace.
pub fn beside_others(machine: &'static Machine) -> Result<Stepper> {
    let trace = Trace::open_recorded(&machine.trace).map_err(Failure::setup)?;
    // The C library opens a file to shrink the heap of another arena.
    // SAFETY: a setting of the allocator's, made while there is one thread.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    attach(machine, &trace, ReplayRights::Threads)?;
    let pool = crate::sharing::objects::pool().map_err(Failure::setup)?;
    ReplayState::new(trace, pool, None, None).install(machine)?;
    if let Some(shm) = machine.shm.as_ref() {
        shm.register(std::process::id());
    }
    let mut stepper = begin(machine)?;
    stepper.session = Session::beside_others(machine, 0)?;
    Ok(stepper)
}

/// The first process of the trace, before its first event.
fn begin(machine: &'static Machine) -> Result<Stepper> {
    let root = TapeId::new(0, 0);
    let mut tape = task_tape(root)?;
    let pid = match tape.peek()?.map(|e| e.kind) {
        Some(Kind::Start(s)) => s.pid,
        _ => {
            return Err(Failure::setup(
                "the trace is empty: the recording was cut off before the program began",
            ));
        }
    };
    let process = Process::restore(ProcessState::new(0, pid));
    let mut task = Box::new(Task::new(machine, process, 0, pid, tape));
    get_ready(&mut task)?;
    Ok(Stepper::new(Session::first(machine)?, task))
}
