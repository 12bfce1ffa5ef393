//! Events: the next one of the tape, and bringing it about with all checks of a replay. Must never
//! run guest code; the thread stands where the event is due.

use relive_dbt::Stop;
use relive_host::GuestAddr;
use relive_trace::{Ending, Kind};

use super::births::resume_parent;
use super::report::{divergence, show};
use crate::call::Call;
use crate::exits;
use crate::failure::{Failure, Result};
use crate::flow::{End, Flow};
use crate::kernel::syscall;
use crate::ptrace::change;
use crate::siginfo::SigInfo;
use crate::signals::deliver;
use crate::tape::{SYNCHRONOUS, Tape, digest};
use crate::task::Task;
use crate::task::ending;

/// Ticks that are never reached.
pub const NEVER: u64 = u64::MAX / 4;

/// The next event, as far as it decides how to run towards it.
pub enum NextEvent {
    /// At the end of the tape.
    End,
    /// First event of the tape.
    Start,
    /// The image of a program, before anything has run.
    Image,
    /// The thread itself causes it: system call, instruction, fault.
    Own { ticks: u64 },
    /// It happens to the thread at a position.
    Position(EventPosition),
}

/// An event that happens to a thread, and where.
pub struct EventPosition {
    pub ticks: u64,
    /// Instructions since the last tick or event.
    pub steps: u32,
    /// Of the registers there, 0 for none.
    digest: u32,
    pub what: Happening,
}

impl EventPosition {
    /// Whether the task stands there, so many steps behind its last tick or event.
    pub fn is_here(&self, task: &Task, steps: Option<u64>) -> bool {
        task.ctx.ticks() == self.ticks && steps == Some(u64::from(self.steps))
    }
}

/// An event that happens to a thread.
pub enum Happening {
    Signal(SigInfo),
    /// Its tracer changed it.
    Change(Vec<u8>),
    Switch,
    Killed(i32),
}

/// An event that is due.
pub enum DueEvent {
    /// The first one of the tape.
    Start,
    /// The image of a program, before anything has run.
    Image,
    /// The thread has the baton back inside the call in which it gave it away.
    Resumed,
    /// The vfork child that the task plays has ended or executed; its parent goes on.
    Parent,
    /// The thread has no event left, and its further work is of no use to any other.
    End,
    /// An event that happens to the thread.
    Position(EventPosition),
    /// An event that the thread causes: translated code has stopped.
    Stop(Stop),
}

impl DueEvent {
    /// Brings it about.
    ///
    /// # Errors
    /// Divergence.
    pub fn happen(self, task: &mut Task) -> Result<Flow> {
        match self {
            Self::Stop(stop) => exits::handle(task, stop),
            Self::Position(position) => arrive(task, position),
            Self::Resumed => syscall::syscall(task, GuestAddr(task.ctx.rip + 2)),
            Self::Start => consume(task).map(|()| Flow::Continue),
            Self::Image => first_image(task),
            Self::End => Ok(Flow::Park),
            Self::Parent => {
                task.parked = false;
                resume_parent(task, true).map(|_| Flow::Continue)
            }
        }
    }
}

/// The next event of the tape.
pub fn target(task: &mut Task) -> Result<NextEvent> {
    if matches!(task.tape, Tape::None) {
        // An inferior call: the thread causes every event.
        return Ok(NextEvent::Own { ticks: NEVER });
    }
    match task.tape.outline()? {
        None => return Ok(NextEvent::End),
        Some(o) if o.syscall => return Ok(NextEvent::Own { ticks: o.ticks }),
        Some(_) => {}
    }
    let Some(e) = task.tape.peek()? else {
        return Ok(NextEvent::End);
    };
    let (ticks, digest) = (e.ticks, e.digest);
    Ok(match e.kind {
        Kind::Start(_) => NextEvent::Start,
        Kind::Exec(_) if ticks == 0 && task.ctx.rip == 0 => NextEvent::Image,
        Kind::Signal(s) if s.signo == change::SIGNO && s.steps != SYNCHRONOUS => {
            NextEvent::Position(EventPosition {
                ticks,
                steps: s.steps,
                digest,
                what: Happening::Change(s.siginfo.to_vec()),
            })
        }
        Kind::Signal(s) if s.steps != SYNCHRONOUS => {
            let mut info = [0; 128];
            let n = s.siginfo.len().min(128);
            info[..n].copy_from_slice(&s.siginfo[..n]);
            NextEvent::Position(EventPosition {
                ticks,
                steps: s.steps,
                digest,
                what: Happening::Signal(info),
            })
        }
        Kind::Switch { steps } => NextEvent::Position(EventPosition {
            ticks,
            steps,
            digest,
            what: Happening::Switch,
        }),
        Kind::End {
            how: Ending::Killed,
            code,
            steps,
        } if steps != SYNCHRONOUS => NextEvent::Position(EventPosition {
            ticks,
            steps,
            digest,
            what: Happening::Killed(code),
        }),
        _ => NextEvent::Own { ticks },
    })
}

/// Brings about the event at a position that the thread has been brought to.
fn arrive(task: &mut Task, position: EventPosition) -> Result<Flow> {
    let EventPosition {
        steps,
        digest: recorded,
        what,
        ..
    } = position;
    if recorded != 0 && recorded != digest(&task.ctx) {
        return Err(diverged(task, "other register values at that position"));
    }
    consume(task)?;
    task.steps = steps;
    match what {
        Happening::Signal(info) => deliver::deliver_recorded(task, &info),
        Happening::Change(bytes) => change::replay(task, &bytes).map(|()| Flow::Continue),
        Happening::Switch if std::mem::take(&mut task.parked) => Ok(Flow::Continue),
        Happening::Switch => Ok(Flow::Park),
        Happening::Killed(sig) => {
            ending::release_locks(task)?;
            Ok(Flow::ProcessEnd(End::Signal(sig)))
        }
    }
}

fn first_image(task: &mut Task) -> Result<Flow> {
    let flow = match task.tape.peek()?.map(|e| e.kind) {
        Some(Kind::Exec(image)) => Flow::exec(image),
        _ => {
            return Err(diverged(task, "a program without an image"));
        }
    };
    consume(task)?;
    Ok(flow)
}

/// A stop on the way to a position: only those that leave no event may come.
///
/// # Errors
/// Divergence.
pub fn pass(task: &mut Task, stop: Stop) -> Result<()> {
    let quiet = match &stop {
        Stop::CacheFull { .. }
        | Stop::Refused(_)
        | Stop::Internal(_)
        | Stop::Unsupported { .. } => true,
        Stop::Instr { op, .. } => !crate::instr::logged(op) || crate::instr::is_reading(op),
        _ => false,
    };
    if quiet {
        return match exits::handle(task, stop)? {
            Flow::Park => Err(diverged(
                task,
                "a reading of a clock that is not in the recording",
            )),
            _ => Ok(()),
        };
    }
    let actual = match &stop {
        Stop::Syscall { .. } => Call::at(&task.ctx).to_string(),
        other => format!("{other:?}"),
    };
    Err(diverged(task, &actual))
}

/// The thread does something else than the next event of its tape.
pub fn diverged(task: &mut Task, actual: &str) -> Failure {
    match describe(task) {
        Ok(expected) => divergence(task, &expected, actual),
        Err(e) => e,
    }
}

pub fn describe(task: &mut Task) -> Result<String> {
    Ok(task
        .tape
        .peek()?
        .map_or("the end of the recording".to_owned(), |e| show(&e)))
}

/// Consumes the next event of the task's tape.
///
/// # Errors
/// A damaged trace, or a divergence: there are readings of clocks before it.
pub fn consume(task: &mut Task) -> Result<()> {
    if let Some(batch) = task.tape.unread() {
        let expected = format!("{} ({} in all)", batch.next(), batch.left());
        let actual = "its next event without them";
        return Err(divergence(task, &expected, actual));
    }
    task.tape.skip()?;
    super::hook_state::count_event(task.machine());
    task.at_event();
    Ok(())
}
