//! The outcomes of calls and instructions: prepared by the engine, decided by the kernel, the processor or
//! the tape, applied by the engine.

use crate::call::Call;
use crate::call::answer::Answer;
use crate::failure::{Failure, Result};
use crate::flow::Flow;
use crate::shm::Logged;
use crate::task::Task;

/// The begin of a system call.
pub enum Begun {
    /// The kernel decides its outcome.
    Live,
    /// The tape has its outcome.
    Told(Answer),
    /// The call is not made now; the flow says how the task goes on.
    Flow(Flow),
}

/// A reading of a clock that translated code left to the engine.
pub enum Reading {
    /// Its values, and whether an event was logged or consumed for it.
    Values([u64; 2], bool),
    /// The recording ended before it.
    Over,
}

/// The source of outcomes, and their destination.
pub trait Outcomes {
    /// The task stands at the `syscall` instruction of `call`.
    ///
    /// # Errors
    /// Divergence.
    fn begin_call(&self, task: &mut Task, call: &Call) -> Result<Begun>;

    /// Whether a tracer changes the task at its call before its filters judge it: the change is made, and the
    /// call is to be looked at anew.
    ///
    /// # Errors
    /// A damaged trace.
    fn changed(&self, _task: &mut Task) -> Result<bool> {
        Ok(false)
    }

    /// The call has its result, and `task.log` its effects: logs it; or checks it, and applies the other
    /// effects that the tape has.
    ///
    /// # Errors
    /// Divergence.
    fn end_call(
        &self,
        task: &mut Task,
        call: &Call,
        result: i64,
        told: Option<&Answer>,
    ) -> Result<()>;

    /// The failure when the engine cannot reproduce the outcome that the call has.
    fn diverged(&self, _task: &Task, expected: &str, actual: &str) -> Failure {
        Failure::internal(format!("{expected}: {actual}"))
    }

    /// Handles a plain call (`kernel::plain`) as a whole, by its number, registers and number of
    /// arguments. `None`: it must take the long way, and nothing has been done.
    ///
    /// # Errors
    /// Its event is lost.
    fn plain_call(
        &self,
        task: &mut Task,
        nr: u64,
        args: &[u64; 6],
        used: usize,
    ) -> Logged<Option<i64>>;

    /// The values of a non-deterministic instruction, for which `values` asks the processor; only the
    /// first `n` count.
    ///
    /// # Errors
    /// Divergence.
    fn instruction(
        &self,
        task: &mut Task,
        number: u8,
        n: u8,
        values: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<[u64; 4]>;

    /// Whether the tape has the instruction, a reading of a clock, as an event of its own, as
    /// recordings before version 1.3 of the format do.
    ///
    /// # Errors
    /// A damaged trace.
    fn reads_by_event(&self, _task: &mut Task, _number: u8) -> Result<bool> {
        Ok(false)
    }

    /// A reading from `source` that translated code left to the engine.
    ///
    /// # Errors
    /// Divergence.
    fn reading(
        &self,
        task: &mut Task,
        source: u32,
        values: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<Reading>;
}
