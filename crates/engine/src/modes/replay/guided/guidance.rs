//! The state of a guided replay: the way that it has gone, its stops, the hits that it has
//! reported. Must never decide where a run ends; that is the run's own.

use std::collections::BTreeSet;

use super::guard::WatchGuard;
use super::track::{Track, point};
use crate::guide::point::{Point, Steps};
use crate::guide::protocol::{RunRequest, StopSet};
use crate::machine::Machine;
use crate::modes::replay::stepper::process::Stepper;
use crate::tape::digest;

/// The state of a guided replay's way and its stops.
pub struct Guidance {
    /// Index of the process to replay.
    pub goal: u32,
    pub stops: StopSet,
    pub breakpoints: BTreeSet<u64>,
    pub track: Track,
    pub guard: WatchGuard,
    pub told: Reported,
}

impl Guidance {
    /// Before any report. `goal`: see there.
    pub fn new(machine: &'static Machine, goal: u32) -> Self {
        Self {
            goal,
            stops: StopSet::default(),
            breakpoints: BTreeSet::new(),
            track: Track::default(),
            guard: WatchGuard::new(machine),
            told: Reported::default(),
        }
    }

    /// The present position.
    pub fn here(&self, at: &Stepper) -> Point {
        let steps = match at.steps {
            Some(n) => Steps::Exact(n),
            None => Steps::At {
                pc: at.task.ctx.rip,
                digest: self.guard.amid().unwrap_or_else(|| digest(&at.task.ctx)),
            },
        };
        point(at, steps)
    }
}

/// Hits that were reported at the replay's position, and are not to be reported again.
#[derive(Default)]
pub struct Reported {
    /// A signal or call, by the number of its event.
    pub event: Option<u64>,
    /// A breakpoint: slot and pc.
    pub passed: Option<(u32, u64)>,
}

impl Reported {
    /// A run begins.
    pub fn begin(&mut self, at: &Stepper, run: &RunRequest) {
        self.passed = run.leave.then(|| place(at));
        if !run.leave {
            self.event = None;
        }
    }
}

/// The thread and its pc.
pub fn place(at: &Stepper) -> (u32, u64) {
    (at.task.slot, at.task.ctx.rip)
}
