//! A replay that checks what a recording in coherence mode says of its memory: of two accesses to a byte by different
//! threads, one of them a store, the second one comes behind a mark of the first one's thread. Asked for by an environment
//! variable, where such a recording has been replayed wrongly. Must never change the course of the replay.

use std::convert::Infallible;
use std::fmt::Write;

use super::tracking;
use crate::failure::{Failure, Result};
use crate::flow::Flow;
use crate::guide::races::{RaceAccess, Races};
use crate::modes::replay::linear::wanted;
use crate::modes::replay::stepper::process::Stepper;
use crate::modes::replay::stepper::stops::{Pace, Stops};

/// Asks a linearising replay to check marks.
pub const VARIABLE: &str = "RELIVE_CHECK_MARKS";

/// Ticks between two looks at the threads that there are, at most.
const SLICE: u64 = 1 << 22;

/// A run that checks. Calls and signals order nothing here, and what the kernel stores for a call is not looked at: it comes
/// where the thread has the lines of its call, at rest or not.
pub struct MarkCheck;

impl MarkCheck {
    /// If this replay is to check.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn requested() -> Result<Option<Self>> {
        // The turns that it finds need no marks.
        if std::env::var_os(VARIABLE).is_none() || !wanted::is_wanted() {
            return Ok(None);
        }
        tracking::check_marks()?;
        Ok(Some(Self))
    }

    /// The outcome.
    ///
    /// # Errors
    /// A divergence: accesses that no mark orders.
    pub fn outcome(&self) -> Result<()> {
        let Races { races, .. } = tracking::with(|t| t.races()).unwrap_or_default();
        if races.is_empty() {
            return Ok(());
        }
        let mut text = "accesses that no mark orders:".to_owned();
        for race in races {
            let (first, second) = (show(&race.first), show(&race.second));
            let _ = write!(text, "\n  {first}, then {second}: {} times", race.count);
        }
        Err(Failure::divergence(text))
    }
}

fn show(access: &RaceAccess) -> String {
    let RaceAccess {
        thread,
        tick,
        pc,
        addr,
        size,
        writes,
        ..
    } = access;
    let how = if *writes { "stores" } else { "loads" };
    format!("thread {thread} {how} {size} bytes at {addr:#x}, in {pc:#x} at tick {tick}")
}

impl Stops for MarkCheck {
    type Why = Infallible;

    fn before_code(&mut self, at: &mut Stepper, _: bool) -> Result<Pace<Infallible>> {
        tracking::with(|t| t.enter(&mut at.task)).transpose()?;
        Ok(Pace::Within(SLICE))
    }

    fn happened(&mut self, at: &mut Stepper, flow: &Flow) -> Result<()> {
        tracking::with(|t| {
            t.written.clear();
            if matches!(flow, Flow::Exec(_)) {
                t.new_program();
                return;
            }
            for task in at.session.tasks.values() {
                t.detector.born(task.process.index, task.index);
            }
        });
        Ok(())
    }
}
