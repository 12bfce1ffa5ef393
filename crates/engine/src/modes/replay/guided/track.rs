//! The way that a guided replay has gone: the data of a [`Point`] and a [`Past`]. It is kept in all
//! runs of the stepper, and must never decide where one ends.

use std::collections::BTreeMap;

use relive_trace::Image;

use crate::elapsed::EVENT_WORK;
use crate::failure::{Failure, Result};
use crate::flow::Flow;
use crate::guide::point::{Point, Steps};
use crate::guide::protocol::Past;
use crate::modes::replay::hook_state;
use crate::modes::replay::stepper::process::Stepper;
use crate::session_state::TrackState;

/// Of the sixteen registers.
const RSP: usize = 4;

/// See the module.
#[derive(Default)]
pub struct Track {
    /// See [`Past`].
    base: u64,
    began: Option<Point>,
    left: BTreeMap<u32, Point>,
    /// See `ReplayStatus::work`.
    pub work: u64,
    /// The program that runs: its path and where its first stack began.
    program: (Vec<u8>, u64),
    /// The event that is happening.
    event: Option<EventUnderWay>,
}

/// An event that is happening.
struct EventUnderWay {
    before: Point,
    /// Ticks of the thread when it was due.
    ticks: u64,
    /// Of the thread.
    slot: u32,
    /// The thread gives its turn away.
    parks: bool,
    /// The program that begins.
    image: Option<Image>,
}

/// The present position with these steps.
pub fn point(at: &Stepper, steps: Steps) -> Point {
    Point {
        event: hook_state::events(),
        turn: at.turn,
        ticks: at.task.ctx.ticks(),
        steps,
    }
}

impl Track {
    /// The description of the way, between two events.
    pub fn capture(&self) -> TrackState {
        let (program, stack) = self.program.clone();
        TrackState {
            base: self.base,
            began: self.began,
            left: self.left.clone(),
            work: self.work,
            program,
            stack,
        }
    }

    /// The way that is described.
    pub fn restore(state: TrackState) -> Self {
        Self {
            base: state.base,
            began: state.began,
            left: state.left,
            work: state.work,
            program: (state.program, state.stack),
            event: None,
        }
    }

    /// The program that runs: its path, and the stack pointer that it began with.
    pub fn program(&self) -> (&[u8], u64) {
        (&self.program.0, self.program.1)
    }

    /// The past of the thread of a slot.
    pub fn past(&self, at: &Stepper, slot: u32) -> Past {
        let running = slot == at.task.slot;
        Past {
            running,
            base: self.base,
            began: self.began.filter(|_| running),
            left: self.left.get(&slot).copied(),
        }
    }

    /// No thread has given its turn away.
    pub fn forget_turns(&mut self) {
        self.left.clear();
    }

    /// An event is about to happen at `before`.
    pub fn before_event(&mut self, at: &Stepper, before: Point) {
        self.event = Some(EventUnderWay {
            before,
            ticks: at.task.ctx.ticks(),
            slot: at.task.slot,
            parks: false,
            image: None,
        });
    }

    /// It has happened.
    pub fn happened(&mut self, at: &Stepper, flow: &Flow) -> Result<()> {
        let Some(event) = &mut self.event else {
            return Ok(());
        };
        self.work += (hook_state::events() - event.before.event) * EVENT_WORK;
        self.work += at.task.ctx.ticks().saturating_sub(event.ticks);
        event.slot = at.task.slot;
        event.parks = matches!(flow, Flow::Park);
        if let Flow::Exec(image) = flow {
            event.image = Some(Image::decode(&image.0).map_err(Failure::setup)?);
        }
        if event.parks {
            self.left.insert(event.slot, event.before);
        }
        Ok(())
    }

    /// The process has gone on from it, or has ended.
    pub fn settled(&mut self, at: &Stepper) {
        let Some(event) = self.event.take() else {
            return;
        };
        let turned = at.ended.is_none() && (event.parks || at.task.slot != event.slot);
        self.began = (!turned).then_some(event.before);
        self.base = at.task.ctx.ticks();
        if let Some(image) = event.image {
            // Unless it was a child's, which is another process now.
            let ctx = &at.task.ctx;
            if (ctx.rip, ctx.gpr[RSP]) == (image.rip, image.rsp) {
                self.program = (image.path, image.rsp);
            }
        }
    }
}
