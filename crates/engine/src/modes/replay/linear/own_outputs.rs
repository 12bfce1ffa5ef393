//! The outputs of a process in the order in which its threads made them: each has a number. Must never change a tape
//! that is replayed: it opens its own readers.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use relive_trace::{Kind, TapeId};

use crate::failure::{Failure, Result};
use crate::modes::replay::hook_state;
use crate::tape::Tape;
use crate::task::Task;

/// The number of each output and the index of its thread, for each process that has been looked at.
#[derive(Default)]
pub struct OwnOutputs(BTreeMap<u32, Vec<(u64, u32)>>);

/// Whose output is next, seen from a thread in front of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputTurn {
    /// Its own, or the event is none.
    Own,
    /// That of the thread with this index in its process.
    Of(u32),
    /// That of another process, which may need other threads of this one for it: those that are to make it.
    Elsewhere,
}

impl OwnOutputs {
    /// Whose output is to be made before the one that is the task's next event.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn before(&mut self, task: &mut Task) -> Result<OutputTurn> {
        let Tape::In(tape) = &mut task.tape else {
            return Ok(OutputTurn::Own);
        };
        let Some(order) = tape.upcoming()?.and_then(|next| next.output) else {
            return Ok(OutputTurn::Own);
        };
        let done = hook_state::outputs_made();
        let is_next = |made: u64| order <= made;
        let whole = task.machine().shm.filter(|_| !hook_state::alone());
        if is_next(done)
            || whole.is_some_and(|shm| is_next(shm.header().next_order.load(Ordering::Acquire)))
        {
            return Ok(OutputTurn::Own);
        }
        let all = match self.0.entry(task.process.index) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(unknown) => {
                unknown.insert(outputs_of(task.process.index)?)
            }
        };
        let from = all.partition_point(|&(other, _)| other < done);
        Ok(match all.get(from).filter(|o| o.0 < order) {
            Some(&(_, thread)) => OutputTurn::Of(thread),
            None if whole.is_some() => OutputTurn::Elsewhere,
            None => OutputTurn::Own,
        })
    }
}

fn outputs_of(process: u32) -> Result<Vec<(u64, u32)>> {
    hook_state::with(|s| {
        let mut all = Vec::new();
        let tapes = s.trace.tapes().iter().map(|tape| tape.id);
        let own: Vec<TapeId> = tapes.filter(|id| id.process == process).collect();
        for id in own {
            let mut tape = s.trace.tape(id).map_err(Failure::setup)?;
            while let Some(event) = tape.next().map_err(Failure::setup)? {
                if let Kind::Syscall(call) = event.kind
                    && call.stream != 0
                {
                    all.extend(call.order.map(|order| (order, id.thread)));
                }
            }
        }
        all.sort_unstable();
        Ok(all)
    })
}
