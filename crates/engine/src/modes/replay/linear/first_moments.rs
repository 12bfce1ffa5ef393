//! When threads began that a call is about to make: the call happens before that, however long it took. Must never
//! change a tape that is replayed: it opens its own reader.

use std::collections::BTreeMap;

use relive_trace::{Kind, TapeId, TapeReader};

use crate::course::{Clock, Note};
use crate::failure::{Failure, Result};
use crate::modes::replay::hook_state::with;

/// The first moments of threads, by index of the thread in its process and its recorded id.
#[derive(Default)]
pub struct FirstMoments(BTreeMap<(u32, u32), Option<u64>>);

impl FirstMoments {
    /// The first moment of a thread of this process; `None` if the call has made a process, or a thread whose tape has
    /// no moments.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn began(&mut self, process: u32, (index, id): (u32, u32)) -> Result<Option<u64>> {
        if let Some(began) = self.0.get(&(index, id)) {
            return Ok(*began);
        }
        let began = match with(|s| s.trace.tape(TapeId::new(process, index))) {
            Ok(tape) => first_moment(tape, id)?,
            Err(relive_trace::Error::NoTape { .. }) => None,
            Err(e) => return Err(Failure::setup(e)),
        };
        self.0.insert((index, id), began);
        Ok(began)
    }
}

/// The first moment on the tape of the thread that was recorded with this id.
fn first_moment(mut tape: TapeReader, id: u32) -> Result<Option<u64>> {
    let (mut clock, mut first) = (Clock::default(), None);
    while let Some(event) = tape.next().map_err(Failure::setup)? {
        match clock.read(event.ticks, &event.kind) {
            Some(Note::Moment { begin, .. }) => first = first.or(Some(begin)),
            Some(_) => {}
            None => {
                let is_it = matches!(event.kind, Kind::Start(start) if start.tid == id);
                return Ok(first.filter(|_| is_it));
            }
        }
    }
    Ok(None)
}
