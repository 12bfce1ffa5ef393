//! The state of a search for races, which translated code reaches by a function of its own: accesses
//! come here. Must never touch guest memory on the way of an access, which may be about to fault.

use std::cell::UnsafeCell;

use relive_host::Context;
use relive_host::track::{self, Span, Tracked};

use super::call_order::Descriptors;
use super::detector::Detector;
use super::touch::{Touch, TouchOutcome, TouchPosition};
use crate::failure::{Failure, Result};
use crate::guide::races::{RaceHints, Races};
use crate::machine::Machine;
use crate::modes::replay::hook_state;
use crate::task::Task;

/// A thread: process and index.
type Id = (u32, u32);

/// A search for races.
pub struct Tracking {
    pub detector: Detector,
    pub descriptors: Descriptors,
    hints: RaceHints,
    /// The thread whose turn it is.
    running: Option<Id>,
    /// Its time has gone on since its era began.
    stale: bool,
    /// Accesses are tracked: from the first time on that there are two threads.
    on: bool,
    /// Memory that the call in flight has written, and nobody has looked at.
    pub written: Vec<(u64, u64)>,
    /// Races of earlier programs of the process.
    before: Races,
}

struct TrackingCell(UnsafeCell<Option<Tracking>>);

// SAFETY: a replay has one thread.
unsafe impl Sync for TrackingCell {}

/// The search of this process. Process-wide: a routine that translated code calls gets no argument for it.
static TRACKING: TrackingCell = TrackingCell(UnsafeCell::new(None));

/// Runs `f` with the state, if there is a search. `f` must run no guest code.
pub fn with<R>(f: impl FnOnce(&mut Tracking) -> R) -> Option<R> {
    // SAFETY: one thread, and no call of this is within another: `f` gets no way to make one, as guest
    // code runs in none.
    unsafe { (*TRACKING.0.get()).as_mut() }.map(f)
}

/// Begins a search.
///
/// # Errors
/// There is no memory for the filter.
pub fn begin(hints: RaceHints) -> Result<()> {
    let detector = Detector::new(&hints);
    begin_with(detector, hints)
}

/// Begins a search that learns which places a sketch should order.
///
/// # Errors
/// As [`begin`].
pub fn learn() -> Result<()> {
    begin_with(Detector::learning(), RaceHints::default())
}

/// Begins a search for the last races, whole.
///
/// # Errors
/// As [`begin`].
pub fn look_for_pairs() -> Result<()> {
    begin_with(Detector::of_pairs(), RaceHints::default())
}

/// Begins a check that marks order all accesses.
///
/// # Errors
/// As [`begin`].
pub fn check_marks() -> Result<()> {
    begin_with(Detector::of_marks(), RaceHints::default())
}

/// Begins a search for orders of accesses.
///
/// # Errors
/// As [`begin`].
pub fn begin_orders() -> Result<()> {
    begin_with(Detector::of_orders(), RaceHints::default())
}

fn begin_with(detector: Detector, hints: RaceHints) -> Result<()> {
    let mut tracking = Tracking {
        detector,
        descriptors: Descriptors::default(),
        hints,
        running: None,
        stale: true,
        on: false,
        written: Vec::new(),
        before: Races::default(),
    };
    tracking.follow();
    // SAFETY: one thread, which is not in `with`.
    unsafe { *TRACKING.0.get() = Some(tracking) };
    // SAFETY: a replay runs guest code on one host thread.
    unsafe { track::install(accessed) }
        .map_err(|e| Failure::setup(format!("no memory to look for races: error {e}")))
}

/// The thread passes one of its marks.
pub fn passes_mark(thread: (u32, u32), mark: u64) {
    with(|t| {
        if t.detector.checks_marks() {
            t.detector.passes_mark(thread, mark);
            t.renews();
        }
    });
}

/// The thread goes on behind a mark of another one of its process; 0: behind its end.
pub fn comes_behind(thread: (u32, u32), other: u32, mark: u64) {
    with(|t| {
        if t.detector.checks_marks() {
            t.detector.comes_behind(thread, (thread.0, other), mark);
            t.renews();
        }
    });
}

/// The kernel's part of a call has written guest memory.
pub fn wrote(addr: u64, len: u64) {
    with(|t| {
        if t.on {
            t.written.push((addr, len));
        }
    });
}

/// Guest code is about to make an access that is not in the filter.
fn accessed(ctx: &mut Context, span: Span, word: u64) {
    let tracked = Tracked::of(word);
    with(|t| match tracked.masked {
        None => t.access(ctx, &tracked, span),
        Some((register, shift)) => {
            let mask = ctx.tracked_mask(register);
            for element in (0..tracked.size >> shift).filter(|n| mask >> n & 1 == 1) {
                let one = Tracked {
                    size: 1 << shift,
                    ..tracked
                };
                let span = Span {
                    addr: span.addr.wrapping_add(element << shift),
                    size: one.size,
                };
                t.access(ctx, &one, span);
            }
        }
    });
}

fn here(ctx: &Context) -> TouchPosition {
    TouchPosition {
        tick: ctx.ticks(),
        event: hook_state::events(),
    }
}

impl Tracking {
    /// Has the routine look into the lines of the detector.
    fn follow(&mut self) {
        // SAFETY: one thread; and the detector forgets its lines whenever other memory is there. It
        // drops no object, and only empties the cells that it has.
        unsafe { self.detector.lines().follow() };
    }

    /// Guest code makes an access.
    fn access(&mut self, ctx: &mut Context, tracked: &Tracked, span: Span) {
        let Span { addr, size } = span;
        if size == 0 {
            return;
        }
        let touch = Touch {
            pc: tracked.pc,
            addr,
            size,
            writes: tracked.writes,
            atomic: tracked.atomic,
            call: None,
        };
        match self.detector.touch(&touch, || here(ctx)) {
            TouchOutcome::Known if !tracked.repeated => {
                let era = self.detector.lines().now().era;
                era.seen(addr, tracked.size, tracked.writes);
            }
            TouchOutcome::Known | TouchOutcome::Acquired => {}
            TouchOutcome::Released => {
                self.begin_era(ctx);
            }
        }
    }

    /// The filter knows nothing from now on.
    fn begin_era(&mut self, ctx: &mut Context) {
        let now = self.detector.lines().now_mut();
        now.era = now.era.next();
        ctx.begin_era(now.era);
    }

    /// A thread is about to run guest code.
    pub fn enter(&mut self, task: &mut Task) -> Result<()> {
        let id = (task.process.index, task.index);
        if self.running != Some(id) {
            self.detector.run(id.0, id.1);
            if let Some(last) = self.running.filter(|last| last.0 != id.0) {
                // A child of vfork(2) ran in its parent's place, or the reverse.
                self.detector.learn_from(last.0, last.1);
            }
            self.running = Some(id);
            self.stale = true;
        }
        let on = self.detector.threads() > 1;
        if on != self.on {
            self.on = on;
            let machine: &Machine = task.machine();
            let set = machine.memory().translator.set_tracked(on);
            set.map_err(Failure::setup)?;
        }
        if self.stale {
            self.stale = false;
            self.begin_era(&mut task.ctx);
        }
        self.detector.lines().now_mut().event = hook_state::events();
        Ok(())
    }

    /// The time of the running thread has gone on, or memory is other memory.
    pub fn renews(&mut self) {
        self.stale = true;
    }

    /// The process runs a new program.
    pub fn new_program(&mut self) {
        self.before = self.races();
        let era = self.detector.lines().now().era;
        self.detector = self.detector.anew(&self.hints);
        self.detector.lines().now_mut().era = era;
        self.follow();
        self.running = None;
        self.stale = true;
    }

    /// Memory that a call has written is accessed.
    pub fn take_written(&mut self, task: &Task, nr: u32) {
        let at = here(&task.ctx);
        for (addr, size) in std::mem::take(&mut self.written) {
            let touch = Touch {
                pc: task.ctx.rip,
                addr,
                size,
                writes: true,
                atomic: false,
                call: Some(nr),
            };
            if size > 0 {
                self.detector.touch(&touch, || at);
            }
        }
    }

    /// The races found so far.
    pub fn races(&self) -> Races {
        let mut races = self.before.clone();
        let now = self.detector.races();
        races.races.extend(now.races);
        races.late.extend(now.late);
        races.orders.extend(now.orders);
        races.more |= now.more;
        races.threads = races.threads.max(now.threads);
        races.events = hook_state::events();
        races
    }
}

#[cfg(test)]
mod tests;
