//! A replay that checks what a recording in coherence mode says of its memory: of two accesses to a byte by different
//! threads, one of them a store, the second one comes behind a mark of the first one's thread. Asked for by an environment
//! variable, where such a recording has been replayed wrongly. Must never change the course of the replay.

use std::convert::Infallible;
use std::fmt::Write;
use std::time::Duration;

use super::racing::Racing;
use super::tracking;
use crate::failure::{Failure, Result};
use crate::flow::Flow;
use crate::guide::races::{RaceAccess, Races};
use crate::modes::replay::events::DueEvent;
use crate::modes::replay::linear::wanted;
use crate::modes::replay::stepper::process::Stepper;
use crate::modes::replay::stepper::stops::{Pace, Stops};

/// Asks a linearising replay to check marks.
pub const VARIABLE: &str = "RELIVE_CHECK_MARKS";

/// A run that checks.
pub struct MarkCheck(Racing);

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
        Ok(Some(Self(Racing::new(Duration::MAX))))
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

    fn before_code(&mut self, at: &mut Stepper, step: bool) -> Result<Pace<Infallible>> {
        Ok(match self.0.before_code(at, step)? {
            Pace::Within(ticks) => Pace::Within(ticks),
            _ => Pace::Free,
        })
    }

    fn before_event(&mut self, at: &mut Stepper, due: &DueEvent) -> Result<Option<Infallible>> {
        self.0.before_event(at, due)?;
        Ok(None)
    }

    fn happened(&mut self, at: &mut Stepper, flow: &Flow) -> Result<()> {
        self.0.happened(at, flow)
    }
}
