//! The promises of every policy: bounds, determinism from a seed, no starvation.

use proptest::collection::vec;
use proptest::prelude::*;
use relive_sched::*;

/// The events between two choices of a policy.
#[derive(Debug, Clone, Copy)]
struct Moment {
    /// The running thread blocks for this many choices; 0 = it wants to go on.
    blocks: u8,
    /// It gave way because it spun.
    spun: bool,
    /// A new thread appears.
    starts: bool,
}

fn moment() -> impl Strategy<Value = Moment> {
    (
        prop_oneof![4 => Just(0u8), 1 => 1u8..20],
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.05),
    )
        .prop_map(|(blocks, spun, starts)| Moment {
            blocks,
            spun,
            starts,
        })
}

/// A recorder with threads that come, block and spin.
struct Machine {
    /// Threads that want the baton and the choices each has seen, in order.
    waiting: Vec<(u32, u32)>,
    blocked: Vec<(u32, u8)>,
    threads: u32,
    longest: u32,
    /// Most threads that ever waited.
    line: u32,
}

const THREADS_MAX: u32 = 12;

impl Machine {
    fn new(threads: u32) -> Self {
        Self {
            waiting: (0..threads).map(|thread| (thread, 0)).collect(),
            blocked: Vec::new(),
            threads,
            longest: 0,
            line: 0,
        }
    }

    fn step(&mut self, policy: &mut dyn Policy, moment: Moment) -> (u64, u32, u32) {
        if moment.starts && self.threads < THREADS_MAX {
            self.waiting.push((self.threads, 0));
            self.threads += 1;
        }
        for (thread, left) in &mut self.blocked {
            *left -= 1;
            if *left == 0 {
                self.waiting.push((*thread, 0));
            }
        }
        self.blocked.retain(|(_, left)| *left > 0);
        if self.waiting.is_empty() {
            return (0, 0, u32::MAX);
        }
        self.line = self.line.max(self.waiting.len() as u32);
        let ids: Vec<u32> = self.waiting.iter().map(|(thread, _)| *thread).collect();
        let index = policy.choose(&ids);
        assert!(index < ids.len());
        for (_, waited) in &mut self.waiting {
            *waited += 1;
        }
        let (thread, waited) = self.waiting.remove(index);
        self.longest = self
            .waiting
            .iter()
            .map(|(_, waited)| *waited)
            .fold(self.longest.max(waited), u32::max);
        let (slice, steps) = (policy.slice(false), policy.steps());
        assert!((1..=SLICE_MAX).contains(&slice));
        assert!(steps <= STEPS_MAX);
        if moment.spun {
            policy.spinning(thread);
        }
        match moment.blocks {
            0 => self.waiting.push((thread, 0)),
            blocks => self.blocked.push((thread, blocks)),
        }
        (slice, steps, thread)
    }
}

/// Runs a policy and returns all its answers, the longest wait and the longest line.
fn run(
    policy: &mut dyn Policy,
    moments: &[Moment],
    rounds: usize,
) -> (Vec<(u64, u32, u32)>, u32, u32) {
    let mut machine = Machine::new(3);
    let answers = moments
        .iter()
        .cycle()
        .take(rounds)
        .map(|moment| machine.step(policy, *moment))
        .collect();
    (answers, machine.longest, machine.line)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn nobody_starves(seed in any::<u64>(), moments in vec(moment(), 1..60)) {
        let (_, longest, line) = run(&mut Fair::new(Seed(seed)), &moments, 3000);
        prop_assert!(longest <= Fair::PATIENCE * line, "fair: {longest} in a line of {line}");
        let (_, longest, line) = run(&mut Chaos::new(Seed(seed)), &moments, 3000);
        prop_assert!(longest <= Chaos::PATIENCE + line, "chaos: {longest} in a line of {line}");
        let (_, longest, line) = run(&mut Sampling::new(Seed(seed)), &moments, 3000);
        prop_assert!(longest <= Chaos::PATIENCE + line, "sampling: {longest} in a line of {line}");
        let (_, longest, line) = run(&mut RoundRobin::new(10), &moments, 300);
        prop_assert!(longest <= line);
    }

    #[test]
    fn a_seed_says_it_all(seed in any::<u64>(), moments in vec(moment(), 1..60)) {
        let policies: [fn(Seed) -> Box<dyn Policy>; 3] = [
            |seed| Box::new(Fair::new(seed)),
            |seed| Box::new(Chaos::new(seed)),
            |seed| Box::new(Sampling::new(seed)),
        ];
        for policy in policies {
            let first = run(&mut *policy(Seed(seed)), &moments, 400);
            prop_assert_eq!(&first, &run(&mut *policy(Seed(seed)), &moments, 400));
            // A sampling of two threads may have the same order by chance.
            let others = (1..20).map(|n| run(&mut *policy(Seed(seed ^ n)), &moments, 400).0);
            prop_assert!(others.into_iter().any(|other| other != first.0));
        }
    }

    #[test]
    fn seeds_print_and_parse(seed in any::<u64>()) {
        for seed in [Seed(seed), Seed::short(seed)] {
            prop_assert_eq!(seed.to_string().parse(), Ok(seed));
        }
    }
}

const RUNS_ON: Moment = Moment {
    blocks: 0,
    spun: false,
    starts: false,
};

#[test]
fn fair_is_mostly_first_come_first_served() {
    let mut policy = Fair::new(Seed(1));
    let waiting = [4, 5, 6, 7];
    let firsts = (0..8000).filter(|_| policy.choose(&waiting) == 0).count();
    // 7/8, and a quarter of the other 1/8.
    assert!((7000..7500).contains(&firsts), "{firsts}");
    let slices: Vec<u64> = (0..8000).map(|_| policy.slice(false)).collect();
    assert!(slices.iter().all(|slice| (1 << 8..1 << 22).contains(slice)));
    let short = slices.iter().filter(|slice| **slice < 1 << 12).count();
    assert!((2150..2450).contains(&short), "not log-uniform: {short}");
    let straight = (0..8000).filter(|_| policy.steps() == 0).count();
    // 3/4, and a quarter of the other 1/4.
    assert!((6300..6700).contains(&straight), "{straight}");
}

/// A program of a few milliseconds must have a chance to show its races.
#[test]
fn fair_switches_often_in_the_beginning() {
    let mut policy = Fair::new(Seed(1));
    let eager = Fair::EAGER;
    assert!((0..eager).all(|_| policy.slice(false) < 1 << 18));
    let between = (0..eager).filter(|_| policy.steps() > 0).count();
    // 3/4; later 3/16.
    assert!((40..57).contains(&between), "{between} of {eager}");
}

#[test]
fn chaos_starves_and_bursts() {
    let (answers, longest, _) = run(&mut Chaos::new(Seed(3)), &[RUNS_ON], 20_000);
    assert!(longest > 60, "nobody ever waited long: {longest}");
    let tiny = answers.iter().filter(|(slice, ..)| *slice < 8).count();
    let huge = answers
        .iter()
        .filter(|(slice, ..)| *slice >= 1 << 19)
        .count();
    assert!(
        tiny > 500 && huge > 100,
        "{tiny} tiny and {huge} huge slices"
    );
    for thread in 0..3 {
        let turns = answers
            .iter()
            .filter(|(.., chosen)| *chosen == thread)
            .count();
        assert!(turns > 1000, "thread {thread} had {turns} turns");
    }
}

#[test]
fn chaos_lets_others_run_when_one_spins() {
    let mut policy = Chaos::new(Seed(9));
    let waiting = [0, 1, 2];
    let mut again = 0;
    for _ in 0..500 {
        let spinner = waiting[policy.choose(&waiting)];
        policy.spinning(spinner);
        again += u32::from(waiting[policy.choose(&waiting)] == spinner);
    }
    // Only a change point that draws anew or starves can bring it back at once.
    assert!(
        again < 25,
        "the spinning thread went on {again} times in 500"
    );
}

#[test]
fn a_waker_gives_way_now_and_then() {
    let mut policy = Fair::new(Seed(1));
    let wakes = 100 * Fair::SOON;
    let soon: Vec<u64> = (0..wakes).filter_map(|_| policy.woke()).collect();
    assert!((50..200).contains(&soon.len()), "{}", soon.len());
    assert!(soon.iter().all(|ticks| (1..=1 << 14).contains(ticks)));
}
