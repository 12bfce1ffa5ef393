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

impl OwnOutputs {
    /// The thread of the task's process whose output comes before the one that is the task's next event, and has not
    /// been made.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn before(&mut self, task: &mut Task) -> Result<Option<u32>> {
        let Tape::In(tape) = &mut task.tape else {
            return Ok(None);
        };
        let Some(order) = tape.upcoming()?.and_then(|next| next.output) else {
            return Ok(None);
        };
        let done = hook_state::outputs_made();
        let is_next = |made: u64| order <= made;
        let whole = task.machine().shm.filter(|_| !hook_state::alone());
        if is_next(done)
            || whole.is_some_and(|shm| is_next(shm.header().next_order.load(Ordering::Acquire)))
        {
            return Ok(None);
        }
        let all = match self.0.entry(task.process.index) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(unknown) => {
                unknown.insert(outputs_of(task.process.index)?)
            }
        };
        let from = all.partition_point(|&(other, _)| other < done);
        Ok(all.get(from).filter(|o| o.0 < order).map(|o| o.1))
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
