//! A linearising replay that learns which plain accesses a later sketch should order: it looks for races on its
//! way, and tells its supervisor of their places as sites ([`relive_dbt::Sites`]). Must never change the course
//! of the replay.

use std::convert::Infallible;
use std::time::Duration;

use relive_dbt::Translator;
use relive_host::GuestAddr;

use super::racing::Racing;
use super::tracking;
use crate::failure::Result;
use crate::flow::Flow;
use crate::modes::replay::events::DueEvent;
use crate::modes::replay::stepper::process::Stepper;
use crate::modes::replay::stepper::stops::{Pace, Stops};
use crate::ordered_sites::SITES;

/// Asks a linearising replay to learn, in the environment of its first host process.
pub const VARIABLE: &str = "RELIVE_LEARN";

/// A run that learns.
pub struct Learning {
    races: Racing,
    /// Places that have been told.
    told: usize,
}

impl Learning {
    /// If this replay is to learn.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn requested() -> Result<Option<Self>> {
        if std::env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        tracking::learn()?;
        let races = Racing::new(Duration::MAX);
        Ok(Some(Self { races, told: 0 }))
    }

    /// Tells the supervisor of all places that are new.
    pub fn tell(&mut self, at: &Stepper) {
        let count = tracking::with(|t| t.detector.learnt().len()).unwrap_or(0);
        if count == self.told {
            return;
        }
        self.told = count;
        let places = tracking::with(|t| t.detector.learnt()).unwrap_or_default();
        let machine = at.task.machine();
        let Some(shm) = &machine.shm else {
            return;
        };
        let mut memory = machine.memory();
        let sites = memory.with_code(false, |_, code| {
            let sites = places
                .iter()
                .map(|pc| Translator::site_at(code, GuestAddr(*pc)));
            sites.flatten().collect::<Vec<u64>>()
        });
        let sites = sites.unwrap_or_default();
        tracing::debug!(target: "linear", "places {places:x?}: sites {sites:x?}");
        sites
            .into_iter()
            .for_each(|site| SITES.of(shm).learns(site));
    }
}

impl Stops for Learning {
    type Why = Infallible;

    fn before_code(&mut self, at: &mut Stepper, step: bool) -> Result<Pace<Infallible>> {
        Ok(match self.races.before_code(at, step)? {
            Pace::Within(ticks) => Pace::Within(ticks),
            _ => Pace::Free,
        })
    }

    fn before_event(&mut self, at: &mut Stepper, due: &DueEvent) -> Result<Option<Infallible>> {
        self.tell(at);
        self.races.before_event(at, due)?;
        Ok(None)
    }

    fn happened(&mut self, at: &mut Stepper, flow: &Flow) -> Result<()> {
        self.races.happened(at, flow)?;
        if matches!(flow, Flow::Exec(_)) {
            self.told = 0;
        }
        Ok(())
    }
}
