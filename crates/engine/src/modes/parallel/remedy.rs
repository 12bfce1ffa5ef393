//! The failure where a thread of a parallel replay has left the recording, with what can be done about it. Must say
//! both sides.

use crate::failure::{Failure, FailureClass};

/// The remedy where a parallel replay leaves the recording.
const REMEDY: &str = "\n  what plain loads and stores of several threads do to each other is not on the tapes: `relive replay` without --parallel searches for an order that agrees";

/// A failure that ends a thread, with what can be done about it if it is a divergence. For the tops of threads: once.
pub fn remedied(failure: Failure) -> Failure {
    if failure.class() != FailureClass::Divergence {
        return failure;
    }
    let text = failure.text();
    // The registers may be cut off, and this should not.
    let at = text.find("\n  registers:").unwrap_or(text.len());
    let (head, tail) = text.split_at(at);
    Failure::divergence(format!("{head}{REMEDY}{tail}"))
}
