//! Inferior calls: a debugger calls a function of the guest, in a copy of the replay that is thrown away
//! afterwards. Such a task has left the recording: it has no tape, and a mode of its own that answers
//! system calls from a [`sandbox`](super::sandbox). It is run by the same stepper as the recording.
//! Nothing of this may ever be reached while the replay is to go on, and nothing of it reaches the
//! outside.

use std::collections::BTreeSet;

use relive_dbt::{Stop, TrapKind};
use relive_trace::{Kind, TapeId};

use super::drive::Driver;
use super::sandbox;
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::failure::{Failure, Result};
use crate::flow::Flow;
use crate::forbidden::Forbidden;
use crate::guide::protocol::{Hit, Ran, StopEvent, StopReason};
use crate::memory::content::{Content, ContentRequest};
use crate::mode::{
    Begun, Contents, HandedOn, Host, Lives, Mode, ModeTraits, Order, Outcomes, Reading, Signals,
    Turns,
};
use crate::modes::replay::events::DueEvent;
use crate::modes::replay::mode::Replay;
use crate::modes::replay::stepper::process::Stepper;
use crate::modes::replay::stepper::stops::{Pace, Stops};
use crate::shm::Logged;
use crate::siginfo::{SigInfo, signo};
use crate::tape::Tape;
use crate::task::Task;

/// Ticks between two looks for orders.
const SLICE: u64 = 1 << 20;

impl Driver {
    /// Runs the thread of a slot away from the recording until a breakpoint, a signal or an order; with `step` over one
    /// instruction. Returns also its output to the standard streams.
    pub fn inferior_call(
        &mut self,
        slot: u32,
        step: bool,
        wanted: &mut dyn FnMut() -> bool,
    ) -> Result<(Ran, Vec<u8>)> {
        self.make_current(slot)?;
        leave_recording(&mut self.at.task);
        let mut stops = CallStops {
            breakpoints: &self.guide.breakpoints,
            wanted,
            step,
            alone: true,
            begun: false,
            at_breakpoint: false,
        };
        let what = match self.at.run(&mut stops) {
            Ok(Some(Some(what))) => Some(what),
            Ok(_) => None,
            Err(e) => match sandbox::raised() {
                Some(sig) => Some(StopEvent::Signal(sig)),
                None => return Err(e),
            },
        };
        let status = self.status();
        let hit = what.map(|what| Hit {
            what,
            before: status.point,
            slot: status.slot,
            pc: status.pc,
        });
        let ran = Ran {
            why: match hit {
                Some(hit) => StopReason::Hit(hit),
                None if step => StopReason::Until,
                None => StopReason::Interrupted,
            },
            last: None,
            status,
            blind: false,
        };
        Ok((ran, sandbox::take_output()))
    }
}

/// From here on nothing of the recording concerns the task. Clocks show the present time, and the
/// recording's readings stay as they are; filters of the guest's are for its own calls.
fn leave_recording(task: &mut Task) {
    task.tape = Tape::None;
    task.parked = false;
    task.signals.restart = None;
    task.seccomp = None;
    task.filters_seen = task.process.filters_set();
    task.forbid(Forbidden::default());
    task.set_mode(&InferiorCall);
}

/// Where an inferior call ends: at a stop to report, or at an order (`None`).
struct CallStops<'c> {
    breakpoints: &'c BTreeSet<u64>,
    /// Says that there is a new order.
    wanted: &'c mut dyn FnMut() -> bool,
    /// One instruction is enough.
    step: bool,
    /// The next instruction runs alone: it has a breakpoint that has been reported, or touches
    /// watched memory.
    alone: bool,
    /// Something has run.
    begun: bool,
    at_breakpoint: bool,
}

impl Stops for CallStops<'_> {
    type Why = Option<StopEvent>;

    fn look(&mut self, at: &mut Stepper) -> Result<Option<Option<StopEvent>>> {
        if sandbox::is_refused() {
            return Ok(Some(Some(StopEvent::Signal(libc::SIGSYS))));
        }
        if std::mem::take(&mut self.at_breakpoint) {
            return Ok(Some(Some(StopEvent::Breakpoint(at.task.ctx.rip))));
        }
        let begun = std::mem::replace(&mut self.begun, true);
        // What touches watched memory has not been made yet.
        let made = self.step && !self.alone;
        Ok((begun && (made || (self.wanted)())).then_some(None))
    }

    fn before_code(&mut self, _: &mut Stepper, _: bool) -> Result<Pace<Option<StopEvent>>> {
        Ok(match std::mem::take(&mut self.alone) {
            true => Pace::Step,
            false => Pace::Within(SLICE),
        })
    }

    fn takes(&mut self, _: &mut Stepper, stop: &Stop, _: u64) -> Result<bool> {
        self.alone = matches!(stop, Stop::Watch { .. });
        self.at_breakpoint = matches!(stop, Stop::Breakpoint { .. });
        Ok(self.alone || self.at_breakpoint)
    }

    /// Nothing is delivered: an event that would be a signal ends the call.
    fn before_event(
        &mut self,
        at: &mut Stepper,
        due: &DueEvent,
    ) -> Result<Option<Option<StopEvent>>> {
        let DueEvent::Stop(stop) = due else {
            return Err(Failure::internal("an inferior call has no tape"));
        };
        let pc = at.task.ctx.rip;
        let what = match stop {
            Stop::Fault { .. } => StopEvent::Signal(signo(&at.task.ctx.fault.siginfo)),
            // Where a called function returns to nothing can be executed, if that is on the stack.
            Stop::NoCode { .. } | Stop::BadTarget { .. } if self.breakpoints.contains(&pc) => {
                StopEvent::Breakpoint(pc)
            }
            Stop::NoCode { .. } | Stop::BadTarget { .. } => StopEvent::Signal(libc::SIGSEGV),
            Stop::Trap { kind, .. } => StopEvent::Signal(match kind {
                TrapKind::Undefined => libc::SIGILL,
                TrapKind::Overflow | TrapKind::Gate => libc::SIGSEGV,
                TrapKind::Int3 | TrapKind::Int1 | TrapKind::Step => libc::SIGTRAP,
            }),
            _ => return Ok(None),
        };
        Ok(Some(Some(what)))
    }
}

/// The mode of a task that has left the recording.
struct InferiorCall;

/// The failure of an operation that an inferior call never comes to.
fn no<T>(what: &str) -> Result<T> {
    Err(Failure::internal(format!("{what} in an inferior call")))
}

impl Order for InferiorCall {}

impl Mode for InferiorCall {
    fn traits(&self) -> ModeTraits {
        Replay.traits()
    }

    fn host(&self) -> &'static dyn Host {
        Replay.host()
    }

    fn order(&self) -> &dyn Order {
        self
    }
}

impl Outcomes for InferiorCall {
    fn begin_call(&self, task: &mut Task, _: &Call) -> Result<Begun> {
        sandbox::answer(task)?;
        Ok(Begun::Flow(Flow::Continue))
    }

    fn end_call(&self, _: &mut Task, _: &Call, _: i64, _: Option<&Answer>) -> Result<()> {
        no("the end of a call")
    }

    fn plain_call(&self, _: &mut Task, _: u64, _: &[u64; 6], _: usize) -> Logged<Option<i64>> {
        Ok(None)
    }

    fn instruction(
        &self,
        task: &mut Task,
        _: u8,
        _: u8,
        values: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<[u64; 4]> {
        Ok(values(task))
    }

    fn reading(
        &self,
        task: &mut Task,
        _: u32,
        values: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<Reading> {
        let [value, extra, ..] = values(task);
        Ok(Reading::Values([value, extra], false))
    }
}

impl Turns for InferiorCall {
    fn asleep(&self, _: &mut Task, _: &mut dyn FnMut() -> i64) -> Result<i64> {
        Ok(-i64::from(libc::ENOSYS))
    }

    fn others_see(&self, _: &Task) -> bool {
        false
    }

    fn begin_slice(&self, _: &mut Task) {}

    fn end_budget(&self, _: &mut Task) -> Result<Flow> {
        Ok(Flow::Continue)
    }

    fn pause(&self, _: &mut Task) -> Result<()> {
        Ok(())
    }

    fn give_way(&self, _: &mut Task, _: &mut dyn FnMut(&mut Task) -> Result<i64>) -> Result<i64> {
        Ok(-i64::from(libc::ENOSYS))
    }
}

impl Signals for InferiorCall {
    fn send_signal(
        &self,
        _: &mut Task,
        _: &Call,
        _: i32,
        _: &mut dyn FnMut(&mut Task) -> Result<i64>,
    ) -> Result<i64> {
        no("a signal")
    }

    fn raised(&self, _: &mut Task, info: &SigInfo) -> Result<bool> {
        sandbox::raise(signo(info));
        no("a signal")
    }

    fn ends_thread_alone(&self, _: &mut Task) -> Result<bool> {
        Ok(false)
    }

    fn is_being_killed(&self, _: &Task) -> bool {
        false
    }
}

impl Contents for InferiorCall {
    fn content(&self, _: ContentRequest<'_>) -> Result<Content> {
        no("a map")
    }
}

impl Lives for InferiorCall {
    fn tape(&self, _: TapeId, _: &HandedOn) -> Result<Tape> {
        no("a new thread")
    }

    fn clone_thread(&self, _: &mut Task, _: &CloneArgs, _: Option<&Answer>) -> Result<Reply> {
        no("a new thread")
    }

    fn fork(&self, _: &mut Task, _: &CloneArgs, _: Option<&Answer>) -> Result<Reply> {
        no("a new process")
    }

    fn vfork(&self, _: &mut Task, _: &Call, _: &CloneArgs, _: Option<&Answer>) -> Result<Reply> {
        no("a new process")
    }

    fn thread_begins(&self, _: &mut Task, _: Kind<'_>) -> Result<()> {
        Ok(())
    }

    fn thread_ends(&self, _: &mut Task) {}

    fn process_ends(&self, _: &Task) {}

    fn handed_on(&self, _: &mut Task, _: bool) -> Result<HandedOn> {
        Ok(HandedOn::default())
    }

    fn executes(&self, _: &Task) {}
}
