//! The budget of ticks: granted by the engine, counted down by translated code in several
//! lanes, dealt anew by the host whenever one of them is empty.
//!
//! The invariant whenever the thread may enter the cache: every lane is at least 1, and
//! `sum(lane - 1) + 1 <= left`. However the ticks fall, some lane is then empty before or when the
//! last tick of the grant is executed, so a grant is never overrun, and it ends on exactly its last
//! tick if the host goes on dealing the rest. Beside this module only the signal handler may change
//! the lanes ([`Context::cut`]).
//!
//! A loop may count the ticks of several rounds at once, in a lane that has more than these. Those that it does not execute go back
//! to this lane.

use crate::context::{Context, LANES};

/// [`Context::cut`] in assembly, for the context that GS leads to, with nothing in flight.
/// Overwrites rax, rcx and flags; takes the offsets `lanes` and `dealt` and the number `count`.
macro_rules! cut_lanes {
    () => {
        concat!(
            "mov ecx, 8 * {count}\n",
            "20:\n",
            "mov rax, gs:[rcx + {lanes} - 8]\n",
            "dec rax\n",
            "jle 21f\n",
            "sub gs:[rcx + {dealt} - 8], rax\n",
            "mov qword ptr gs:[rcx + {lanes} - 8], 1\n",
            "21:\n",
            "sub ecx, 8\n",
            "jnz 20b",
        )
    };
}
pub(crate) use cut_lanes;

impl Context {
    /// Ticks this thread has executed so far.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.ticks_base + self.done() as u64
    }

    /// Ticks since the last deal.
    fn done(&self) -> i64 {
        self.dealt.iter().sum::<i64>() - self.lanes.iter().sum::<i64>()
    }

    /// Lets the thread run for exactly `ticks` more ticks (at least 1): behind the last one it
    /// leaves to the host.
    ///
    /// A signal noted meanwhile changes nothing here: the handler leaves the budget alone while the
    /// host runs, and `enter` checks `pending`.
    pub fn grant(&mut self, ticks: i64) {
        self.grant_about(ticks, 0);
    }

    /// As [`Context::grant`], but the thread may leave up to `slack` ticks early: that saves the
    /// exits needed to end on an exact tick.
    pub fn grant_about(&mut self, ticks: i64, slack: i64) {
        assert!(ticks > 0, "a grant of no ticks would never end");
        self.settle();
        (self.left, self.slack) = (ticks, slack);
        self.deal();
    }

    /// Ticks of the present grant that are left.
    #[must_use]
    pub fn granted(&self) -> i64 {
        self.left - self.done()
    }

    /// Starts the count anew, with nothing granted.
    pub fn restart_ticks(&mut self, base: u64) {
        (self.lanes, self.dealt) = ([0; LANES], [0; LANES]);
        (self.ticks_base, self.left, self.slack) = (base, 0, 0);
    }

    /// Whether the thread may enter the cache.
    #[must_use]
    pub fn has_budget(&self) -> bool {
        self.lanes.iter().all(|lane| *lane > 0)
    }

    /// A lane is empty: deals the rest of the grant. `false` if nothing (or no more than the slack)
    /// is left, or if the host needs the thread.
    pub fn deal_on(&mut self) -> bool {
        self.settle();
        let is_needed = self.pending != 0 || self.wanted != 0 || self.has_many_edges();
        let goes_on = self.left > self.slack && !is_needed;
        if goes_on {
            self.deal();
        }
        goes_on
    }

    /// Counts one tick on behalf of a tick site that the host resolved itself. Returns
    /// whether the thread has to stop, as in [`Context::deal_on`].
    pub fn count_tick(&mut self) -> bool {
        self.settle();
        self.ticks_base += 1;
        self.left -= 1;
        !self.deal_on()
    }

    /// The thread has left translated code in the midst of rounds whose ticks were counted at once, with so many of them not
    /// executed.
    pub fn take_back_ticks(&mut self, lane: usize, ticks: u8) {
        self.lanes[lane] += i64::from(ticks);
    }

    /// Adds up the ticks executed since the last deal, and leaves the lanes empty.
    fn settle(&mut self) {
        for lane in 0..LANES {
            let spent = self.dealt[lane] - self.lanes[lane];
            self.ticks_base += spent as u64;
            self.left -= spent;
            self.weights[lane] = self.weights[lane] / 2 + spent as u64;
        }
        (self.lanes, self.dealt) = ([0; LANES], [0; LANES]);
    }

    /// Spreads the rest over the lanes, in the proportions of the recent past: then they run empty
    /// at about the same time.
    fn deal(&mut self) {
        const PARTS: u64 = 256;
        let more = (self.left - 1) as u64;
        let total = self.weights.iter().sum::<u64>();
        let floor = total / 16 + 1;
        for lane in 0..LANES {
            let weight = self.weights[lane] + floor;
            let parts = weight * PARTS / (total + LANES as u64 * floor);
            let share = if more < u64::MAX / PARTS {
                more * parts / PARTS
            } else {
                more / PARTS * parts
            };
            self.lanes[lane] = 1 + share as i64;
        }
        self.dealt = self.lanes;
    }

    /// For the signal handler: makes the thread leave at its next tick. `in_flight` is the lane
    /// with its value in a register just now, see `signal.rs`.
    pub(crate) fn cut(&mut self, in_flight: Option<usize>) {
        for lane in (0..LANES).filter(|l| Some(*l) != in_flight) {
            let over = self.lanes[lane] - 1;
            if over > 0 {
                self.lanes[lane] = 1;
                self.dealt[lane] -= over;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One tick, as in translated code. Returns whether the thread leaves.
    fn tick(ctx: &mut Context, lane: usize) -> bool {
        ctx.lanes[lane] -= 1;
        ctx.lanes[lane] == 0
    }

    /// Rounds of a loop that are counted at once, of which `done` are executed: the rest goes back. `None` if the lane has no more
    /// than these: they are counted one by one.
    fn rounds(ctx: &mut Context, lane: usize, done: i64) -> Option<()> {
        const ROUNDS: i64 = 8;
        if ctx.lanes[lane] <= ROUNDS {
            return None;
        }
        ctx.lanes[lane] -= ROUNDS;
        ctx.take_back_ticks(lane, (ROUNDS - done) as u8);
        Some(())
    }

    proptest! {
        /// Whichever lanes the ticks fall on, and wherever the host counts one itself, a grant ends
        /// on its last tick.
        #[test]
        fn a_grant_ends_exactly(
            grants in prop::collection::vec(1i64..5000, 1..4),
            path in prop::collection::vec((0..LANES, 0..8u8), 1..64),
        ) {
            let mut ctx = Context::new();
            let mut steps = path.iter().cycle();
            let mut total = 0;
            for grant in grants {
                ctx.grant(grant);
                total += grant as u64;
                let mut ticks = 0;
                loop {
                    prop_assert!(ctx.has_budget());
                    let (lane, how) = *steps.next().unwrap();
                    let done = i64::from(how);
                    if how >= 4 && rounds(&mut ctx, lane, done).is_some() {
                        ticks += done;
                        prop_assert!(ticks < grant);
                        prop_assert_eq!(ctx.ticks() + grant as u64, total + ticks as u64);
                        continue;
                    }
                    ticks += 1;
                    let stops = match how {
                        0 => ctx.count_tick(),
                        _ => tick(&mut ctx, lane) && !ctx.deal_on(),
                    };
                    if stops {
                        break;
                    }
                    prop_assert!(ticks < grant);
                }
                prop_assert_eq!(ticks, grant);
                prop_assert_eq!(ctx.ticks(), total);
            }
        }

        /// With slack it ends at most that much earlier.
        #[test]
        fn slack_only_shortens(grant in 1i64..100_000, slack in 0i64..1000, lane in 0..LANES) {
            let mut ctx = Context::new();
            ctx.grant_about(grant, slack);
            let mut n = 0;
            loop {
                n += 1;
                if tick(&mut ctx, if n % 7 == 0 { lane } else { 0 }) && !ctx.deal_on() {
                    break;
                }
            }
            prop_assert!(n <= grant && n >= grant - slack);
            prop_assert_eq!(ctx.ticks(), n as u64);
        }

        /// A cut thread leaves at its next tick and the count stays right.
        #[test]
        fn a_cut_leaves_at_the_next_tick(run in 0usize..50, lane in 0..LANES) {
            let mut ctx = Context::new();
            ctx.grant(1_000_000);
            for i in 0..run {
                tick(&mut ctx, i % LANES);
            }
            ctx.cut(None);
            prop_assert_eq!(ctx.ticks(), run as u64);
            prop_assert!(tick(&mut ctx, lane));
            prop_assert_eq!(ctx.ticks(), run as u64 + 1);
            prop_assert!(ctx.deal_on());
        }
    }

    #[test]
    fn a_loop_of_one_lane_needs_few_deals() {
        let mut ctx = Context::new();
        ctx.grant(1_000_000);
        let mut deals = 0;
        loop {
            if tick(&mut ctx, 2) {
                deals += 1;
                if !ctx.deal_on() {
                    break;
                }
            }
        }
        assert!(deals < 30, "{deals} deals");
    }

    #[test]
    fn a_huge_grant_does_not_overflow() {
        let mut ctx = Context::new();
        for _ in 0..1000 {
            ctx.grant(crate::context::PLENTY);
            assert!(ctx.has_budget() && !ctx.count_tick());
        }
        assert_eq!(ctx.ticks(), 1000);
    }
}
