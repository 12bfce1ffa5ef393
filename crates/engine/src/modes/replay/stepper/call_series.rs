//! The short way of a replay that nothing looks at: from one system call to the next. Must never do
//! anything of its own; a stop for anything else than a call is left to [`super::execute`].

use relive_dbt::Stop;

use super::execute::{Began, Toward};
use super::process::Stepper;
use super::stops::{Pace, Stops};
use crate::failure::Result;
use crate::flow::Flow;
use crate::kernel::syscall;
use crate::modes::replay::news;

impl Stepper {
    /// Makes the call that is due at `ticks`, and those behind it, as long as only calls come.
    pub fn calls<S: Stops>(&mut self, stops: &mut S, mut ticks: u64) -> Result<Option<S::Why>> {
        loop {
            let task = &mut *self.task;
            let toward = Toward::own(ticks);
            let began = Began::here(task, toward)?;
            toward.grant(task, began.ticks, &Pace::<S::Why>::Free);
            let next = match task.go(false)? {
                Stop::Syscall { next, .. } => next,
                stop => return self.ran(stops, toward, began, stop),
            };
            let flow = syscall::syscall(task, next)?;
            self.steps = Some(0);
            match task.tape.next_call() {
                Some(next) if matches!(flow, Flow::Continue) && !task.parked && !news::any() => {
                    ticks = next;
                }
                _ => return self.settle(stops, flow),
            }
        }
    }
}
