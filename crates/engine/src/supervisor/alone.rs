//! Which processes can be replayed by themselves, as their tapes say.

use relive_trace::{Kind, TapeId, Trace};

use super::foreign_writes::waits_for_others;
use crate::failure::{Failure, Result};

/// Whether no other process writes to the memory of this one, or of those that it comes from: only then can it be
/// replayed by itself.
///
/// # Errors
/// The trace is damaged.
pub fn is_alone(trace: &Trace, process: u32) -> Result<bool> {
    let mut at = process;
    loop {
        if waits_for_others(trace, at)? {
            return Ok(false);
        }
        let mut tape = trace.tape(TapeId::new(at, 0)).map_err(Failure::setup)?;
        match tape.next().map_err(Failure::setup)?.map(|e| e.kind) {
            // A parent has a smaller index.
            Some(Kind::Start(start)) if start.parent.process < at => at = start.parent.process,
            _ => return Ok(true),
        }
    }
}
