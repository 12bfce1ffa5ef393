//! The neighbours of a run that has passed: some of a hunt's further runs turn its orders around, as `relive explore --failing` does. A bug that
//! one order decides is found so in few runs, however much work threads do between their meetings.

use std::time::{Duration, Instant};

use relive_engine::Failure;
use relive_sched::{Flip, Seed};
use relive_trace::Trace;

use crate::explore::orders::FoundOrders;
use crate::explore::plan::Plan;

/// Runs of which every second one turns orders around. Of those behind it is every fourth.
const OFTEN: u32 = 80;
/// How long a run may have taken whose orders are looked for.
const SHORT: Duration = Duration::from_secs(5);
/// How long they are looked for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The orders of a run that has passed, and the plan by which they are turned around.
pub struct TurnedOrders {
    pub orders: FoundOrders,
    plan: Plan,
}

impl TurnedOrders {
    /// Those of a recording, which took so long; `None`: it has no orders, or it would take too long to find them.
    ///
    /// # Errors
    /// A damaged trace, a replay that leaves it.
    pub fn of(trace: &Trace, took: Duration, seed: Seed) -> Result<Option<Self>, Failure> {
        if took > SHORT {
            return Ok(None);
        }
        let until = Instant::now() + PATIENCE;
        let orders = FoundOrders::of(trace, None, Some(until))?;
        Ok((!orders.all.is_empty()).then(|| Self {
            plan: Plan::new(seed, &orders.all),
            orders,
        }))
    }

    /// The orders that the run of this number turns around; none, if it is varied in another way.
    pub fn flips(&self, run: u32) -> Option<Vec<Flip>> {
        self.plan.flips(attempt(run)?)
    }
}

/// The number of the attempt that this run is, from 1 on.
fn attempt(run: u32) -> Option<u32> {
    match run {
        ..=OFTEN => run.is_multiple_of(2).then_some(run / 2),
        _ => run
            .is_multiple_of(4)
            .then_some(OFTEN / 2 + (run - OFTEN) / 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_numbered_without_gaps() {
        let attempts: Vec<u32> = (1..=200).filter_map(attempt).collect();
        assert_eq!(attempts, (1..=70).collect::<Vec<u32>>());
    }
}
