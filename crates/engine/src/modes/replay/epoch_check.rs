//! The end of an epoch: the replay is compared with the session image behind it. Must never take an epoch for over that has not been.

use super::checksum;
use super::epoch::EpochEnd;
use super::hook_state::with;
use crate::difference::differs;
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::task::Task;
use crate::task::plain_task::TaskState;

/// Ends a replay all of whose threads stand at the end of their epoch; these are all that there are.
///
/// # Errors
/// The process is not as the image says.
pub fn end<'a>(machine: &Machine, tasks: impl Iterator<Item = &'a Task>) -> Result<()> {
    let end = with(|s| s.epoch_end.take());
    let mut end = end.ok_or_else(|| Failure::internal("an epoch ends once"))?;
    end.compare(machine, &tasks.collect::<Vec<_>>())
}

/// The first page that differs at the end of the epoch, once that has been found; else 0.
pub fn other_page() -> u64 {
    with(|s| s.other_page)
}

/// Checks that the process may end: not before its epoch does.
///
/// # Errors
/// The epoch has not ended.
pub fn check_ended() -> Result<()> {
    match with(|s| s.epoch_end.is_some()) {
        false => Ok(()),
        true => Err(Failure::divergence(
            "the process ends before the end of the epoch, at which it went on in the recording",
        )),
    }
}

impl EpochEnd {
    /// Compares the image with the replay, all of whose threads stand at their places.
    ///
    /// # Errors
    /// They differ: both sides.
    fn compare(&mut self, machine: &Machine, tasks: &[&Task]) -> Result<()> {
        let sum = checksum::process(machine, tasks.iter().copied())?;
        let found = self.state_difference(machine, tasks);
        if found.is_none() && sum == self.state.sum {
            return Ok(());
        }
        let page = match sum == self.state.sum {
            true => String::new(),
            false => self.tell_other_page(machine)?,
        };
        Err(Failure::divergence(format!(
            "the epoch that ends at event {} of the process ends otherwise{}{page}",
            self.state.replayed.events,
            found.map_or(String::new(), |found| format!(": {found}")),
        )))
    }

    /// The first field that differs.
    fn state_difference(&self, machine: &Machine, tasks: &[&Task]) -> Option<String> {
        let image = &self.state;
        let mut wanted: Vec<u32> = image.threads.iter().map(|t| t.task.index).collect();
        let mut there: Vec<u32> = tasks.iter().map(|task| task.index).collect();
        wanted.sort_unstable();
        there.sort_unstable();
        if let Some(found) = differs("threads", &wanted, &there) {
            return Some(found);
        }
        for thread in &image.threads {
            let task = tasks.iter().find(|t| t.index == thread.task.index)?;
            let mut now = task.capture();
            // How far it is behind a tick the recorder did not always know.
            let mut wanted = TaskState {
                steps: now.steps,
                exact: now.exact,
                parked: now.parked,
                ..thread.task.clone()
            };
            // A component with its initial value is an unused one, once the thread has left translated code.
            // And flags that no code reads any more are as the last stop left them.
            let dead = task.dead_flags();
            for state in [&mut now, &mut wanted] {
                state.registers.extended.settle();
                state.registers.rflags &= !dead;
            }
            let order = thread
                .tape
                .as_ref()
                .map_or((0, 0), |tape| (tape.order.ops, tape.order.marks));
            let orders = (task.ctx.ops, task.ctx.marks);
            let found = differs("thread", &wanted, &now).or_else(|| {
                differs(
                    "operations and marks of a thread",
                    &(task.index, order),
                    &(task.index, orders),
                )
            });
            if found.is_some() {
                return found;
            }
        }
        let process = tasks.first()?.process.capture();
        let (mut wanted, mut memory) = (image.memory.clone(), machine.memory().capture());
        // Nobody else has memory in common with it that has no file.
        for state in [&mut wanted, &mut memory] {
            state.keep_unnamed_private();
        }
        differs(
            "process",
            &image.process.without_unrecorded(),
            &process.without_unrecorded(),
        )
        .or_else(|| differs("memory", &wanted.without_hints(), &memory.without_hints()))
    }

    /// The first page of the image that has another content in the replay.
    fn tell_other_page(&mut self, machine: &Machine) -> Result<String> {
        let memory = machine.memory();
        let found = self.image.first_other(|at, page| {
            memory
                .content(at, at + page.len() as u64)
                .is_ok_and(|there| there == page)
        });
        let found = found.map_err(Failure::setup)?;
        with(|s| s.other_page = found.unwrap_or(0));
        Ok(match found {
            Some(at) => format!("\n  memory differs in the page at {at:#x}"),
            None => "\n  memory or registers differ in what the image does not have".to_owned(),
        })
    }
}
