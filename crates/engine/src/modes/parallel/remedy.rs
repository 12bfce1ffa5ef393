//! The failure where a thread of a parallel replay has left the recording, with what can be done about it. Must say
//! both sides.

use crate::failure::{Failure, FailureClass};
use crate::modes::replay::report::divergence;
use crate::task::Task;

/// The remedy where a parallel replay leaves the recording.
const REMEDY: &str = "\n  what plain loads and stores of several threads do to each other is not on the tapes: `relive replay` without --parallel searches for an order that agrees";

/// The failure where a thread has left the recording, or cannot go on.
#[cold]
pub fn diverged(task: &Task, recorded: &str, actual: &str) -> Failure {
    remedied(divergence(task, recorded, actual))
}

/// Says in a divergence what can be done about it.
pub fn remedied(failure: Failure) -> Failure {
    let text = failure.text();
    if failure.class() != FailureClass::Divergence || text.contains(REMEDY) {
        return failure;
    }
    // The registers may be cut off, and this should not.
    let at = text.find("\n  registers:").unwrap_or(text.len());
    let (head, tail) = text.split_at(at);
    Failure::divergence(format!("{head}{REMEDY}{tail}"))
}
