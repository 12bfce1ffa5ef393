//! Portions: a replay is driven along its way, and leaves snapshots where its timeline wants some.

use std::time::{Duration, Instant};

use super::present::Timeline;
use super::replay_process::{Interrupter, ReplayProcess};
use super::route::{DrivenReplay, Route};
use super::snapshots::Snapshot;
use crate::failure::Result;
use crate::guide::protocol::{Ran, RunRequest, StopReason};

/// Least time of the processor's between two snapshots.
const GAP_MS: u128 = 40;
/// Time that it takes to copy a page at its first write behind a fork, in nanoseconds.
const COPY_NS: u128 = 2000;

impl Timeline {
    /// Runs a replay along its way. It goes on noting writes, if they are noted up to its
    /// start.
    pub(super) fn drive(
        &mut self,
        replay: &mut DrivenReplay<'_>,
        route: &Route<'_>,
        wanted: &mut dyn Interrupter,
    ) -> Result<Ran> {
        let Some(mut noted) = self.noted.take_if(|n| n.goes_on(route)) else {
            return self.drive_on(replay, route, wanted);
        };
        let fast = Route {
            run: RunRequest {
                fast: true,
                ..route.run
            },
            stops: &noted.stops,
            ..*route
        };
        let mut ran = self.drive_on(replay, &fast, wanted)?;
        noted.to = ran.status.point;
        noted.last = ran.last.take().or(noted.last);
        self.noted = (!ran.blind).then_some(noted);
        Ok(ran)
    }

    /// The portions of a way.
    fn drive_on(
        &mut self,
        replay: &mut DrivenReplay<'_>,
        route: &Route<'_>,
        wanted: &mut dyn Interrupter,
    ) -> Result<Ran> {
        let (mut run, present) = (route.run, route.present);
        let mut total: Option<Ran> = None;
        let mut work = route.from.work;
        loop {
            let taken = total.map(|ran| ran.status.work);
            let due = self.snapshots.due(work, taken, present).max(1);
            // A step is short, and no portion ends it: the remaining instructions are not counted.
            run.work = run.step.is_none().then(|| work.saturating_add(due));
            let host = replay.process(&mut self.current);
            let before = Effort::of(host);
            let mut ran = host.run(&run, route.stops, wanted)?;
            let done = ran.status.work.saturating_sub(work);
            if let Some(before) = &total {
                ran.last = ran.last.or(before.last);
                ran.blind |= before.blind;
            }
            // During a portion the interrupter is not asked while the portion is short.
            if ran.why == StopReason::Work && wanted.wanted() {
                ran.why = StopReason::Interrupted;
            }
            if ran.why != StopReason::Work {
                return Ok(ran);
            }
            let ran_for = Effort::of(host).since(&before);
            let before = Effort::of(host);
            let copy = host.fork()?;
            let fork = Effort::of(host).since(&before);
            self.measure(done, &ran_for, fork.time);
            work = ran.status.work;
            let snapshot = Snapshot {
                status: ran.status,
                host: copy,
            };
            self.snapshots.add(snapshot, present.unwrap_or(work));
            run.leave = false;
            total = Some(ran);
        }
    }

    /// Takes the speed of the replay, and the cost of the last snapshot, as measures for the
    /// distance of snapshots: the fork, and the pages that were copied behind it.
    fn measure(&mut self, work: u64, ran: &Effort, fork: Duration) {
        let copying = u128::from(ran.copied) * COPY_NS / 1000;
        // Part of the time was the snapshot's.
        let took = ran.time.as_micros();
        let own = took.saturating_sub(copying).max(took / 8);
        self.speed = (self.speed.0 + work, self.speed.1 + own);
        let (all, us) = self.speed;
        if us < 20_000 {
            return;
        }
        let work_of = |us_of: u128| u64::try_from(u128::from(all) * us_of / us).unwrap_or(u64::MAX);
        self.snapshots.set_gap(work_of(GAP_MS * 1000));
        let cost = fork.as_micros() + copying;
        self.snapshots
            .set_cost(work, work_of(cost), ran.copied << 12);
    }
}

/// The resources that a replay has used so far. Only differences mean something.
struct Effort {
    /// Processor time, so that other load of the machine makes no difference.
    time: Duration,
    /// Pages copied.
    copied: u64,
}

impl Effort {
    fn of(host: &ReplayProcess) -> Self {
        let wall = || EPOCH.with(Instant::elapsed);
        Self {
            time: host.cpu().unwrap_or_else(wall),
            copied: host.copied(),
        }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            time: self.time.saturating_sub(before.time),
            copied: self.copied.saturating_sub(before.copied),
        }
    }
}

thread_local! {
    /// The zero of time where the kernel does not tell a process's own.
    /// Process-wide: a zero of time must not move.
    static EPOCH: Instant = Instant::now();
}
