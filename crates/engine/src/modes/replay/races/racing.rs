//! A run of a replay that looks for races: tells the detector of all that orders threads. Must never
//! stop the replay anywhere but between two pieces of guest code.

use std::time::{Duration, Instant};

use relive_dbt::Stop;

use super::call_order::{self, Called};
use super::tracking::{self, Tracking};
use crate::failure::Result;
use crate::flow::Flow;
use crate::modes::replay::events::{DueEvent, Happening};
use crate::modes::replay::stepper::process::Stepper;
use crate::modes::replay::stepper::stops::{Pace, Stops};
use crate::task::Task;

/// Ticks between two looks at the clock, at most.
const SLICE: u64 = 1 << 22;
/// Looks between two looks at the clock, at most.
const LOOKS: u32 = 1 << 10;

/// One run, for a while.
pub struct Racing {
    /// When a look ends it.
    until: Option<Instant>,
    looks: u32,
    /// The call that is being made, if an event is one.
    call: Option<Called>,
}

impl Racing {
    pub fn new(time: Duration) -> Self {
        Self {
            until: Instant::now().checked_add(time),
            looks: 0,
            call: None,
        }
    }
}

/// A search for races has begun amid a replay: all threads that there are have been seen by then.
///
/// # Errors
/// There is no memory for it.
pub fn meets_all(at: &mut Stepper) -> Result<()> {
    tracking::with(|t| t.enter(&mut at.task)).transpose()?;
    for task in at.session.tasks.values() {
        tracking::with(|t| t.detector.born(task.process.index, task.index));
    }
    Ok(())
}

/// The call that the task makes, or that it comes back to.
fn called(task: &Task) -> Called {
    let [rax, _, rdx, _, _, _, rsi, rdi, r8, r9, r10, ..] = task.ctx.gpr;
    Called {
        nr: rax as u32,
        args: [rdi, rsi, rdx, r10, r8, r9],
    }
}

impl Stops for Racing {
    type Why = ();

    fn look(&mut self, _: &mut Stepper) -> Result<Option<()>> {
        self.looks += 1;
        let passed = |until| Instant::now() >= until;
        let over = self.looks.is_multiple_of(LOOKS) && self.until.is_some_and(passed);
        Ok(over.then_some(()))
    }

    fn before_code(&mut self, at: &mut Stepper, _: bool) -> Result<Pace<()>> {
        tracking::with(|t| t.enter(&mut at.task)).transpose()?;
        Ok(Pace::Within(SLICE))
    }

    fn before_event(&mut self, at: &mut Stepper, due: &DueEvent) -> Result<Option<()>> {
        let begins = match due {
            DueEvent::Stop(Stop::Syscall { pc, .. }) => Some(pc.0),
            _ => None,
        };
        let resumes = matches!(due, DueEvent::Resumed);
        self.call = (begins.is_some() || resumes).then(|| called(&at.task));
        tracking::with(|t| {
            // Writes of an ending thread, for instance: its thread id's word synchronises.
            t.written.clear();
            t.enter(&mut at.task)?;
            match (due, &self.call, begins) {
                (DueEvent::Position(position), ..)
                    if matches!(position.what, Happening::Signal(_)) =>
                {
                    t.detector.takes_signal();
                }
                (_, Some(call), Some(site)) => {
                    t.detector.calls(site, call.nr, &call.args);
                    call_order::before(call, &t.descriptors, &mut t.detector);
                    if i64::from(call.nr) == libc::SYS_exit {
                        leaves(t, &at.task);
                    }
                    t.renews();
                }
                _ => {}
            }
            Ok(None)
        })
        .unwrap_or(Ok(None))
    }

    fn happened(&mut self, at: &mut Stepper, flow: &Flow) -> Result<()> {
        tracking::with(|t| {
            if matches!(flow, Flow::Exec(_)) {
                t.new_program();
                return;
            }
            let Some(call) = self.call.take().filter(|_| !at.task.parked) else {
                return;
            };
            for task in at.session.tasks.values() {
                t.detector.born(task.process.index, task.index);
            }
            if matches!(flow, Flow::Continue) {
                let result = at.task.ctx.gpr[0];
                call_order::behind(&call, result, &mut t.descriptors, &mut t.detector);
                t.take_written(&at.task, call.nr);
                t.renews();
            }
        });
        Ok(())
    }
}

/// A thread ends: a thread that finds its cleared thread id knows of all that it did.
fn leaves(t: &mut Tracking, task: &Task) {
    if task.clear_tid != 0 {
        t.detector.ends(task.clear_tid);
    }
}
