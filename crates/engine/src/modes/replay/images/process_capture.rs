//! The state of a replayed process as plain data. Must never be taken where a thread is in the midst of
//! something that the descriptions do not tell.

use crate::failure::{Failure, Result};
use crate::modes::replay::checksum;
use crate::modes::replay::hook_state::{self, with};
use crate::modes::replay::linear::wanted;
use crate::modes::replay::stepper::process::Stepper;
use crate::session_state::{ReplayedState, SessionState, ThreadState, TrackState};
use crate::sharing::objects::SHARED_FILES;
use crate::tape::Tape;
use crate::task::Task;

/// The state where a replay stands; `None` where it cannot be described: a little later it can.
///
/// # Errors
/// It cannot be described anywhere in this process.
pub fn capture(at: &Stepper, track: TrackState) -> Result<Option<SessionState>> {
    let amid = at.tasks().any(|task| task.vforked.is_some() || task.lodges);
    if at.steps != Some(0) || at.ended.is_some() || at.task.ctx.rip == 0 || amid {
        return Ok(None);
    }
    let threads = at.tasks().map(thread).collect::<Result<_>>()?;
    // It locks the memory itself.
    let machine = at.task.machine();
    let sum = checksum::process(machine, at.tasks())?;
    let shm = machine.shm.as_ref();
    let (turn, schedule) = at.session.turns().capture();
    let (children, events) = (with(|s| s.children.clone()), hook_state::events());
    let captured = SessionState {
        process: at.task.process.capture(),
        threads,
        memory: machine.memory().capture(),
        shared_files: shm.map_or_else(Vec::new, |shm| SHARED_FILES.of(shm).capture()),
        turn,
        schedule,
        replayed: ReplayedState {
            events,
            turns: at.turn,
            children,
            maps_shared: hook_state::has_mapped_shared(),
            track,
        },
        sum,
    };
    let possible = captured.check();
    possible.map_err(Failure::internal)?;
    Ok(Some(captured))
}

/// The operations and marks of a thread, which count where turns are found.
fn ordered(task: &Task) -> (u64, u64) {
    match wanted::is_wanted() {
        true => (task.ctx.ops, task.ctx.marks),
        false => (0, 0),
    }
}

fn thread(task: &Task) -> Result<ThreadState> {
    let tape = match &task.tape {
        Tape::In(tape) => Some(tape.capture(ordered(task)).ok_or_else(|| {
            Failure::unsupported(
                "session images of a recording whose threads ran at the same time: record it without --mode sketch",
            )
        })?),
        Tape::Blank => None,
        Tape::None | Tape::Out(_) => return Err(Failure::internal("a replay reads tapes")),
    };
    Ok(ThreadState {
        task: task.capture(),
        tape,
    })
}
