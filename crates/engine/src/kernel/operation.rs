//! The steps of a call that the engine takes part in: *prepare* reads the arguments once, the mode brings
//! the *outcome* about (from the kernel, or from the tape), *apply* changes the engine's state. A call
//! that the engine answers by itself has one step, the same in every mode. The meaning of a call must
//! never depend on the mode.

use super::generic::generic;
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::reply::Reply;
use crate::failure::{Failure, Result};
use crate::task::Task;

/// How the engine takes part in a call.
#[derive(Clone, Copy)]
pub enum Handling {
    /// It computes the result from its own state, in every mode; a replay compares it with the tape.
    Computes(fn(&mut Task, &Call, RecordedResult) -> Result<Reply>),
    /// The kernel decides, and the engine keeps nothing of it: the call is only made in a way of its
    /// own. A replay takes the result from the tape.
    Makes(fn(&mut Task, &Call) -> Result<i64>),
    /// The kernel decides, and the engine follows: see [`follow`].
    Follows(fn(&mut Task, &Call, Option<&Answer>) -> Result<Reply>),
    /// It makes or ends a task, or sets all registers, and is logged on the way: its function prepares it,
    /// and hands the recorded outcome to the mode as it is.
    Flows(fn(&mut Task, &Call, Option<&Answer>) -> Result<Reply>),
    /// The request, which is the first argument, decides.
    ByRequest(&'static Requests),
}

impl Handling {
    /// The outcome of a call, with its effect on the engine's state; `told`: the recorded outcome.
    ///
    /// # Errors
    /// Divergence, an unsupported operation.
    pub fn outcome(self, task: &mut Task, call: &Call, told: Option<&Answer>) -> Result<Reply> {
        match self {
            Self::Computes(compute) => compute(task, call, told.map(|a| a.result)),
            Self::Makes(make) => {
                let result = told.map_or_else(|| make(task, call), |a| Ok(a.result));
                result.map(Reply::Value)
            }
            Self::Follows(bring_about) | Self::Flows(bring_about) => bring_about(task, call, told),
            Self::ByRequest(requests) => requests.part(call).outcome(task, call, told),
        }
    }
}

/// A call of many requests.
pub struct Requests {
    /// The requests that the engine takes part in.
    pub listed: &'static [(i32, Handling)],
    /// All others.
    pub others: Handling,
}

impl Requests {
    /// How the engine takes part in the request at hand.
    fn part(&self, call: &Call) -> Handling {
        let mut listed = self.listed.iter();
        let found = listed.find(|(request, _)| *request == call.int(0));
        found.map_or(self.others, |(_, part)| *part)
    }
}

/// The result on the tape, for a call that is computed: only where older versions of Relive answered
/// otherwise, and recordings of theirs must replay.
pub type RecordedResult = Option<i64>;

/// A call of which the kernel decides the outcome, and which changes the engine's state.
pub trait Operation {
    /// The arguments that lie in guest memory, or that have a meaning only together.
    type Plan;

    /// Reads the arguments, in every mode, before anything has changed. `Err`: the result, which needs
    /// no kernel.
    fn prepare(task: &mut Task, call: &Call) -> Prepared<Self::Plan>;

    /// Changes the state that must hold before the outcome, in every mode: a signal mask of the call's own, the
    /// order of the call among others.
    ///
    /// # Errors
    /// That order is lost.
    fn enter(task: &mut Task, call: &Call, plan: &Self::Plan) -> Result<()> {
        let _ = (task, call, plan);
        Ok(())
    }

    /// Brings the outcome about where the guest's calls are made: makes the call, notes in `task.log` the
    /// memory that it wrote and the data that `apply` needs. Must not change the engine's state.
    ///
    /// # Errors
    /// An unsupported operation.
    fn perform(task: &mut Task, call: &Call, plan: &mut Self::Plan) -> Result<i64> {
        let _ = plan;
        generic(task, call)
    }

    /// Changes the engine's state, in every mode. Returns the result of the call.
    ///
    /// # Errors
    /// Divergence, an unsupported operation.
    fn apply(task: &mut Task, call: &Call, plan: Self::Plan, outcome: &Outcome<'_>) -> Result<i64> {
        let _ = (task, call, plan);
        Ok(outcome.result)
    }
}

/// The outcome of `prepare`: a plan, or the call's result.
pub type Prepared<P> = std::result::Result<P, i64>;

/// The outcome of a call, brought about by the kernel or told by a tape.
pub struct Outcome<'a> {
    /// Its result.
    pub result: i64,
    /// The recorded outcome, in a replay.
    pub told: Option<&'a Answer>,
}

impl Outcome<'_> {
    /// The data that `perform` has noted.
    pub fn extra<'b>(&'b self, task: &'b Task) -> &'b [u8] {
        match self.told {
            Some(answer) => &answer.extra,
            None => &task.log.extra,
        }
    }

    /// The first bytes that the call has written at an address. `None`: it has not.
    #[must_use]
    pub fn written<const N: usize>(&self, task: &Task, at: u64) -> Option<[u8; N]> {
        let Some(answer) = self.told else {
            let mut spans = task.log.spans.iter();
            spans.find(|&&(start, len)| start == at && len >= N as u64)?;
            return task.read(at).ok();
        };
        let (_, bytes) = answer.writes().find(|&(start, _)| start == at)?;
        bytes.first_chunk().copied()
    }

    /// Whether the call succeeded.
    #[must_use]
    pub fn is_good(&self) -> bool {
        !(-4095..0).contains(&self.result)
    }

    /// The result of a call that the kernel has granted, but whose effect on guest memory it refuses
    /// with `error`, a negative one.
    ///
    /// # Errors
    /// A replay, whose tape says that it did not.
    pub fn refused(&self, call: &Call, error: i64) -> Result<i64> {
        match self.told {
            None => Ok(error),
            Some(_) => Err(Failure::setup(format!(
                "replaying {call}: the kernel refuses the map (errno {})",
                -error
            ))),
        }
    }
}

/// The three steps of an operation, with the outcome that the tape tells, if there is one.
///
/// # Errors
/// Divergence, an unsupported operation.
pub fn follow<O: Operation>(task: &mut Task, call: &Call, told: Option<&Answer>) -> Result<Reply> {
    let mut plan = match O::prepare(task, call) {
        Ok(plan) => plan,
        Err(result) => return Ok(Reply::Value(result)),
    };
    O::enter(task, call, &plan)?;
    let result = match told {
        Some(answer) => answer.result,
        None => O::perform(task, call, &mut plan)?,
    };
    let outcome = Outcome { result, told };
    O::apply(task, call, plan, &outcome).map(Reply::Value)
}
