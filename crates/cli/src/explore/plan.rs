//! Which orders of a passing recording an attempt turns around. Attempts with one flip come first, each order at
//! the first time that its thread comes there, then at later ones; between them are attempts with several flips,
//! and such as sample the order of all accesses. The same recording and seed give the same plan.

use std::collections::BTreeSet;

use relive_engine::timeline::AccessOrder;
use relive_sched::{Flip, Rng, Seed};

/// Times that a thread comes to an access, of which each is tried.
const ARRIVALS: u32 = 3;
/// Most flips of an attempt.
const MOST: usize = 12;

/// How much a program's own code and data take part in an order: the lowest are tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concern {
    /// Both accesses are the program's.
    Own,
    /// Its variable, or one access is its own: a lock among its variables.
    Shared,
    /// A library's code on memory that is no library's: a lock on the heap.
    Foreign,
    /// A library's own data.
    Library,
}

/// The orders to try.
pub struct Plan {
    seed: Seed,
    singles: Vec<Flip>,
    /// Those of which several are turned around at the same time.
    several: Vec<Flip>,
}

/// The plan of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// Turns these around.
    Flips(Vec<Flip>),
    /// Samples the order of all accesses.
    Samples,
}

impl Plan {
    /// Of these orders.
    pub fn new(seed: Seed, orders: &[(AccessOrder, Concern)]) -> Self {
        let of = |concern: Concern| {
            let all = orders.iter().filter(move |o| o.1 == concern);
            all.map(|o| &o.0).collect::<Vec<_>>()
        };
        let mut singles = Vec::new();
        let mut seen = BTreeSet::new();
        let mut add = |order: &AccessOrder, arrival, waits_for: bool| {
            let flip = flip(order, arrival, waits_for);
            if seen.insert(flip) {
                singles.push(flip);
            }
        };
        let near = [of(Concern::Own), of(Concern::Shared)].concat();
        for arrival in 1..=ARRIVALS {
            for waits_for in [true, false] {
                near.iter().for_each(|o| add(o, arrival, waits_for));
            }
            if arrival == 1 {
                near.iter().for_each(|o| add(&mirrored(o), 1, true));
            }
            if arrival == 2 {
                let far = of(Concern::Foreign);
                far.iter().for_each(|o| add(o, 1, true));
            }
        }
        let far = [of(Concern::Foreign), of(Concern::Library)].concat();
        for waits_for in [true, false] {
            far.iter().for_each(|o| add(o, 1, waits_for));
        }
        Self {
            seed,
            several: near.iter().map(|o| flip(o, 1, true)).collect(),
            singles,
        }
    }

    /// The plan of the attempt of this number, from 1 on.
    pub fn attempt(&self, n: u32) -> Attempt {
        let (round, kind) = ((n - 1) / 3, (n - 1) % 3);
        let mut rng = Rng::new(self.seed.nth(n).0);
        match kind {
            0 if (round as usize) < self.singles.len() => {
                Attempt::Flips(vec![self.singles[round as usize]])
            }
            0 | 1 if !self.several.is_empty() => Attempt::Flips(self.some(&mut rng)),
            _ => Attempt::Samples,
        }
    }

    /// The flips of the `k`-th attempt that has some, from 1 on.
    pub fn flips(&self, k: u32) -> Option<Vec<Flip>> {
        let (round, kind) = ((k - 1) / 2, (k - 1) % 2);
        match self.attempt(3 * round + kind + 1) {
            Attempt::Flips(flips) => Some(flips),
            Attempt::Samples => None,
        }
    }

    /// Some flips at the same time, one of each thread's access to a word at most.
    fn some(&self, rng: &mut Rng) -> Vec<Flip> {
        let mut chosen: Vec<Flip> = Vec::new();
        let start = rng.below(self.several.len() as u64) as usize;
        let part = 2 + rng.below(2);
        for flip in self
            .several
            .iter()
            .cycle()
            .skip(start)
            .take(self.several.len())
        {
            let place = |f: &Flip| (f.thread, f.site, f.word);
            if chosen.len() < MOST
                && rng.one_in(part)
                && chosen.iter().all(|c| place(c) != place(flip))
            {
                let arrival = 1 + rng.below(u64::from(ARRIVALS)) as u32;
                let arrival = if rng.one_in(2) { 1 } else { arrival };
                chosen.push(Flip { arrival, ..*flip });
            }
        }
        if chosen.is_empty() {
            chosen.push(*rng.pick(&self.several));
        }
        chosen
    }
}

/// The same order with the threads' parts exchanged: where both execute the same code, chance decides which of them comes first in
/// the next run.
fn mirrored(order: &AccessOrder) -> AccessOrder {
    let mut mirrored = *order;
    std::mem::swap(&mut mirrored.first.thread, &mut mirrored.second.thread);
    mirrored
}

fn flip(order: &AccessOrder, arrival: u32, waits_for: bool) -> Flip {
    Flip {
        thread: order.first.thread,
        site: order.first.site,
        word: order.word,
        arrival,
        until: if waits_for { order.second.site } else { 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_engine::timeline::OrderedAccess;

    fn order(thread: u32, site: u64) -> AccessOrder {
        AccessOrder {
            word: 7,
            first: OrderedAccess { thread, site },
            second: OrderedAccess {
                thread: thread + 1,
                site: site + 1,
            },
        }
    }

    fn singles(plan: &Plan) -> Vec<(u64, u32, u64)> {
        let all = plan.singles.iter();
        all.map(|f| (f.site, f.arrival, f.until)).collect()
    }

    #[test]
    fn a_programs_own_orders_come_first() {
        let orders = [
            (order(1, 30), Concern::Library),
            (order(1, 10), Concern::Shared),
            (order(1, 20), Concern::Own),
        ];
        let plan = Plan::new(Seed(1), &orders);
        let first = [(20, 1, 21), (10, 1, 11), (20, 1, 0), (10, 1, 0)];
        assert_eq!(singles(&plan)[..4], first);
        assert!(singles(&plan).contains(&(30, 1, 31)));
        let other = plan.singles.iter().position(|f| f.thread == 2);
        assert_eq!((other, plan.singles[4].site), (Some(4), 20));
        assert_eq!(
            plan.attempt(1),
            Attempt::Flips(vec![flip(&order(1, 20), 1, true)])
        );
    }

    #[test]
    fn attempts_follow_from_the_seed() {
        let orders: Vec<_> = (0..6)
            .map(|n| (order(n, u64::from(n)), Concern::Own))
            .collect();
        let (one, same) = (Plan::new(Seed(1), &orders), Plan::new(Seed(1), &orders));
        let other = Plan::new(Seed(2), &orders);
        let all = |plan: &Plan| (1..200).map(|n| plan.attempt(n)).collect::<Vec<_>>();
        assert_eq!(all(&one), all(&same));
        assert_ne!(all(&one), all(&other));
        assert!(all(&one).contains(&Attempt::Samples));
        let several = |a: &Attempt| matches!(a, Attempt::Flips(flips) if flips.len() > 1);
        assert!(all(&one).iter().any(several));
    }

    #[test]
    fn without_orders_all_is_sampled() {
        let plan = Plan::new(Seed(1), &[]);
        assert!((1..50).all(|n| plan.attempt(n) == Attempt::Samples));
    }
}
