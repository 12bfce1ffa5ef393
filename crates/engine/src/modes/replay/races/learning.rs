//! A linearising replay that learns which plain accesses a later sketch should order: it looks for races on its
//! way, and tells its supervisor of their places as sites ([`relive_dbt::Sites`]). A look at each access takes a hundred times
//! as long as the access, so that it begins in front of the place at which a replay has left the recording. Must
//! never change the course of the replay.

use std::convert::Infallible;
use std::time::Duration;

use relive_dbt::Translator;
use relive_host::GuestAddr;

use super::racing::{self, Racing};
use super::tracking;
use crate::failure::Result;
use crate::flow::Flow;
use crate::guide::trials::Disagreement;
use crate::modes::replay::events::DueEvent;
use crate::modes::replay::stepper::process::Stepper;
use crate::modes::replay::stepper::stops::{Pace, Stops};
use crate::ordered_sites::SITES;
use crate::task::Task;

/// Asks a linearising replay to learn, in the environment of its first host process.
pub const VARIABLE: &str = "RELIVE_LEARN";

/// So many ticks of the thread that has left the recording are looked at: what it should have seen, or not have seen, was
/// mostly stored a short time before.
const NEAR: u64 = 1 << 20;

/// Where a replay begins to learn; at first: where the recording begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LearningStart {
    process: u32,
    thread: u32,
    /// At this tick; 0: from the beginning of the recording on.
    ticks: u64,
}

impl LearningStart {
    /// In front of the place at which a replay has left the recording.
    #[must_use]
    pub fn near(at: &Disagreement) -> Self {
        Self {
            process: at.process,
            thread: at.thread,
            ticks: at.ticks.saturating_sub(NEAR),
        }
    }

    /// As the value of [`VARIABLE`].
    #[must_use]
    pub fn to_text(self) -> String {
        format!("{} {} {}", self.process, self.thread, self.ticks)
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        Some(Self {
            process: words.next()?.parse().ok()?,
            thread: words.next()?.parse().ok()?,
            ticks: words.next()?.parse().ok()?,
        })
    }

    /// Ticks that a task has to run until then; `None`: it is another one.
    fn distance(&self, task: &Task) -> Option<u64> {
        let is_it = (task.process.index, task.index) == (self.process, self.thread);
        is_it.then(|| self.ticks.saturating_sub(task.ctx.ticks()))
    }
}

/// A run that learns.
pub struct Learning {
    /// It has not begun yet.
    awaits: Option<LearningStart>,
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
        let Ok(text) = std::env::var(VARIABLE) else {
            return Ok(None);
        };
        let awaits = LearningStart::from_text(&text).filter(|start| start.ticks != 0);
        if awaits.is_none() {
            tracking::learn()?;
        }
        Ok(Some(Self {
            awaits,
            races: Racing::new(Duration::MAX),
            told: 0,
        }))
    }

    /// Begins, if it is time. How far the running thread may go before it is looked at again.
    fn begin(
        &mut self,
        at: &mut Stepper,
        start: LearningStart,
    ) -> Result<Option<Pace<Infallible>>> {
        Ok(match start.distance(&at.task) {
            Some(0) => {
                self.awaits = None;
                tracking::learn()?;
                racing::meets_all(at)?;
                None
            }
            Some(ticks) => Some(Pace::Within(ticks)),
            None => Some(Pace::Free),
        })
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
        if let Some(start) = self.awaits
            && let Some(pace) = self.begin(at, start)?
        {
            return Ok(pace);
        }
        Ok(match self.races.before_code(at, step)? {
            Pace::Within(ticks) => Pace::Within(ticks),
            _ => Pace::Free,
        })
    }

    fn before_event(&mut self, at: &mut Stepper, due: &DueEvent) -> Result<Option<Infallible>> {
        if self.awaits.is_none() {
            self.tell(at);
            self.races.before_event(at, due)?;
        }
        Ok(None)
    }

    fn happened(&mut self, at: &mut Stepper, flow: &Flow) -> Result<()> {
        if self.awaits.is_some() {
            return Ok(());
        }
        self.races.happened(at, flow)?;
        if matches!(flow, Flow::Exec(_)) {
            self.told = 0;
        }
        Ok(())
    }
}
