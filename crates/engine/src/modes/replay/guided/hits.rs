//! The event that is happening, and the hits to report when it has.

use relive_kabi::Makes;
use relive_trace::{Ending, Kind};

use crate::call::Call;
use crate::call::clone_args::{THREAD, UNTRACED, VFORK, VM};
use crate::failure::Result;
use crate::flow::Flow;
use crate::guide::point::Point;
use crate::guide::protocol::{Hit, OTHERS, StopEvent, StopSet, Watchpoint};
use crate::modes::replay::stepper::process::Stepper;
use crate::task::Task;

/// An event that is happening.
pub struct Event {
    pub before: Point,
    pc: u64,
    /// Index of the process that makes it.
    process: u32,
    /// The system call that it is, and whether that is to make a process.
    call: Option<u32>,
    forks: Option<bool>,
    pub slot: u32,
    /// The thread's pc behind it.
    pc_behind: u64,
    outcome: EventEffect,
    /// Watched memory that was written for the kernel.
    written: Option<(Watchpoint, u64)>,
}

/// The outcome of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EventEffect {
    Continue,
    Exec,
    Other,
}

impl Event {
    /// An event that is about to happen at `before`.
    pub fn due(at: &Stepper, before: Point, call: Option<u32>, stops: &StopSet) -> Self {
        Self {
            before,
            pc: at.task.ctx.rip,
            process: at.task.process.index,
            call,
            forks: call.filter(|_| stops.forks).map(|_| forks(&at.task)),
            slot: 0,
            pc_behind: 0,
            outcome: EventEffect::Other,
            written: None,
        }
    }

    /// It has happened.
    pub fn happened(&mut self, at: &Stepper, flow: &Flow, written: Option<(Watchpoint, u64)>) {
        self.slot = at.task.slot;
        self.pc_behind = at.task.ctx.rip;
        self.written = written;
        self.outcome = match flow {
            Flow::Continue => EventEffect::Continue,
            Flow::Exec(_) => EventEffect::Exec,
            _ => EventEffect::Other,
        };
    }

    /// Whether its thread goes on.
    pub fn goes_on(&self) -> bool {
        self.outcome != EventEffect::Other
    }

    /// The hit for writes of others before the turn that begins.
    pub fn others(&self, written: (Watchpoint, u64)) -> Hit {
        let (watch, addr) = written;
        Hit {
            what: StopEvent::Watchpoint {
                watch,
                addr,
                call: Some(OTHERS),
            },
            before: self.before,
            slot: self.slot,
            pc: self.pc_behind,
        }
    }

    /// The hits at it that the stops ask for. `goal`: the process that is replayed.
    pub fn hits(
        &self,
        at: &Stepper,
        stops: &StopSet,
        goal: u32,
    ) -> impl Iterator<Item = Hit> + use<> {
        let written = self.written.map(|(watch, addr)| StopEvent::Watchpoint {
            watch,
            addr,
            call: self.call.or(Some(u32::MAX)),
        });
        let began = self.outcome == EventEffect::Exec && at.task.process.index == self.process;
        let execs = (began && stops.execs).then_some(StopEvent::Exec);
        let forked = match stops.forks {
            true => self.forked(at, goal),
            false => None,
        };
        let all = [written, execs, forked].into_iter().flatten();
        let (before, slot, pc) = (self.before, self.slot, self.pc);
        all.map(move |what| Hit {
            what,
            before,
            slot,
            pc,
        })
    }

    /// The call that has returned with it.
    pub fn returned(&self, at: &Stepper) -> Option<u32> {
        let same = at.task.process.index == self.process;
        self.call
            .filter(|_| same && self.outcome == EventEffect::Continue)
    }

    /// The child process that it just made.
    fn forked(&self, at: &Stepper, goal: u32) -> Option<StopEvent> {
        let now = &at.task;
        let pid = u32::try_from(now.ctx.gpr[0] as i64).ok();
        let pid = pid.filter(|p| *p > 0)?;
        let vfork = self.process != now.process.index;
        let made = match vfork {
            // Its parent goes on, with the child's id as result.
            true => now.process.index == goal,
            false => self.outcome == EventEffect::Continue && self.forks?,
        };
        made.then_some(StopEvent::Fork { pid, vfork })
    }
}

/// Whether the call that the thread stands at is to make a process with turns of its own.
fn forks(task: &Task) -> bool {
    let call = Call::at(&task.ctx);
    let flags = match call.row.map_or(Makes::Nothing, |row| row.makes) {
        Makes::Nothing => return false,
        Makes::Process => return true,
        Makes::Flags(argument) => call.arg(argument),
        Makes::FlagsBehind(argument) => task.read_u64(call.arg(argument)).unwrap_or(0),
    };
    let lodger = VM | UNTRACED;
    flags & THREAD == 0 && flags & (lodger | VFORK) != lodger
}

/// The number of the signal that the tape has next.
pub fn next_signal(task: &mut Task) -> Result<Option<i32>> {
    Ok(match task.tape.peek()?.map(|e| e.kind) {
        Some(Kind::Signal(s)) => Some(s.signo.into()).filter(|&sig| sig != 0),
        Some(Kind::End {
            how: Ending::Killed,
            code,
            ..
        }) => Some(code),
        _ => None,
    })
}
