//! Pauses of threads that run at the same time, at places and for times that are drawn (`--chaos`): they bring out orders
//! that are rare by themselves. A pause may come between any two instructions. Now and then, and often at its beginning, a
//! thread goes by single instructions for a while, so that what takes nanoseconds takes as long as others need to come in
//! between; in front of accesses to words in which threads meet ([`crate::modes::serial::sampling`]) it pauses often.
//!
//! Must never change what a thread does, nor be logged: the recording is one that could have come about without.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use relive_host::context::PLENTY;
use relive_sched::{Chaos, Policy, Rng, Seed};

use crate::exits::{self, Stepped};
use crate::failure::Result;
use crate::flow::Flow;
use crate::modes::serial::sampler::Sampler;
use crate::modes::serial::sampling::meeting;
use crate::shm::Shm;
use crate::task::Task;

/// log2 of the shortest and the longest pause in nanoseconds: between two parts of a run, as in front of an access that
/// meets other threads, and in front of other steps.
const BETWEEN_PARTS: (u32, u32) = (13, 21);
const BETWEEN_STEPS: (u32, u32) = (9, 15);
/// In one run of so many all threads but the first begin slowly, in one of so many of these that too. Else one part in so
/// many is slow.
const SLOW_RUNS: u64 = 2;
const ALL_SLOW: u64 = 3;
const SLOW_PARTS: u64 = 4;
/// One slow thread in so many pauses at its beginning.
const FIRST_PAUSES: u64 = 2;
/// log2 of the steps of the first part of a thread, and of others.
const FIRST_STEPS: (u32, u32) = (9, 14);
const LATER_STEPS: (u32, u32) = (4, 12);
/// There is a pause in front of one step in so many; of those that meet other threads, and of others.
const AT_MEETINGS: u64 = 2;
const PAUSES: u64 = 64;
/// Time that a thread may pause at the beginning of its life; later, one part in two of it.
const AT_FIRST: Duration = Duration::from_millis(3);

/// The pauses of a process's threads.
pub(super) struct Pauses {
    seed: Seed,
    /// Threads with this index and higher ones begin slowly; those before, if there are any, never pause.
    slow_from: Option<u32>,
    /// By process, which a fork changes, and slot.
    threads: Mutex<BTreeMap<(u32, u32), PausingThread>>,
    sampler: Sampler,
}

struct PausingThread {
    chaos: Chaos,
    rng: Rng,
    born: Instant,
    paused: Duration,
    /// It has not gone slowly yet.
    is_new: bool,
    /// Steps that it has still to go slowly: calls come in between.
    slow_steps: u64,
}

/// The way to the next pause.
struct WayToPause {
    count: u64,
    slow: bool,
}

impl Pauses {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let is_slow = rng.one_in(SLOW_RUNS);
        // The first thread makes the others.
        let first = u32::from(!rng.one_in(ALL_SLOW));
        Self {
            seed: Seed(seed),
            slow_from: is_slow.then_some(first),
            threads: Mutex::default(),
            sampler: Sampler::default(),
        }
    }

    /// The seed, and that it is one of chaos.
    pub(super) fn seed(&self) -> (u64, bool) {
        (self.seed.0, true)
    }

    fn with<R>(&self, task: &Task, use_it: impl FnOnce(&mut PausingThread) -> R) -> R {
        let place = (task.process.index, task.slot);
        let mut threads = self.threads.lock().expect("no thread panics here");
        let thread = threads.entry(place).or_insert_with(|| {
            self.sampler.begin(task.index);
            let mut rng = Rng::new(self.seed.nth(place.0).nth(place.1).0);
            PausingThread {
                chaos: Chaos::new(Seed(rng.word())),
                slow_steps: match self.slow_from.is_some_and(|first| task.index >= first) {
                    true => rng.octaves(FIRST_STEPS.0, FIRST_STEPS.1),
                    false => 0,
                },
                rng,
                born: Instant::now(),
                paused: Duration::ZERO,
                is_new: true,
            }
        });
        use_it(thread)
    }

    /// Ticks until the next pause.
    pub(super) fn slice(&self, task: &Task) -> i64 {
        self.with(task, |thread| match thread.slow_steps {
            0 if self.never_pauses(task) => i64::MAX,
            0 => thread.chaos.slice(false).max(1) as i64,
            _ => 1,
        })
    }

    fn never_pauses(&self, task: &Task) -> bool {
        self.slow_from.is_some_and(|first| task.index < first)
    }

    fn steps(&self, task: &Task) -> WayToPause {
        self.with(task, |thread| {
            if thread.slow_steps == 0 && thread.rng.one_in(SLOW_PARTS) {
                thread.slow_steps = thread.rng.octaves(LATER_STEPS.0, LATER_STEPS.1);
            }
            match thread.slow_steps {
                0 => WayToPause {
                    count: thread.chaos.steps().into(),
                    slow: false,
                },
                count => WayToPause { count, slow: true },
            }
        })
    }

    fn pause(&self, task: &Task, (low, high): (u32, u32)) {
        let time = self.with(task, |thread| {
            let time = Duration::from_nanos(thread.rng.octaves(low, high));
            let most = AT_FIRST + thread.born.elapsed() / 2;
            (thread.paused + time < most).then_some(time)
        });
        let Some(time) = time else {
            return;
        };
        tracing::debug!(
            target: "sched",
            thread = task.index,
            pc = format_args!("{:#x}", task.ctx.rip),
            ?time,
            "pause"
        );
        let begun = Instant::now();
        std::thread::sleep(time);
        self.with(task, |thread| thread.paused += begun.elapsed());
    }

    /// Pauses in front of a slow step, behind which so many are left, or does not.
    fn pause_before_step(&self, task: &Task, meets: bool, left: u64) {
        let (one_in, range) = match meets {
            true => (AT_MEETINGS, BETWEEN_PARTS),
            false => (PAUSES, BETWEEN_STEPS),
        };
        let pauses = self.with(task, |thread| {
            thread.slow_steps = left;
            thread.rng.one_in(one_in)
        });
        if pauses {
            self.pause(task, range);
        }
    }

    /// Some instructions one by one, and a pause.
    pub(super) fn go_on(&self, shm: &Shm, task: &mut Task) -> Result<Flow> {
        // The steps may pass many ticks; none of them ends anything.
        task.ctx.grant(PLENTY);
        if self.never_pauses(task) {
            return Ok(Flow::Continue);
        }
        let steps = self.steps(task);
        tracing::debug!(
            target: "sched",
            thread = task.index,
            tick = task.ctx.ticks(),
            steps.count,
            steps.slow,
            "pauses"
        );
        let waits = |thread: &mut PausingThread| {
            std::mem::take(&mut thread.is_new) && thread.rng.one_in(FIRST_PAUSES)
        };
        if steps.slow && self.with(task, waits) {
            // Those that are made behind it are to come beside it.
            self.pause(task, BETWEEN_PARTS);
        }
        for made in 1..=steps.count {
            if steps.slow {
                let meets = meeting(shm, task, &self.sampler)?.is_some();
                self.pause_before_step(task, meets, steps.count - made);
            }
            if let Stepped::Handled { flow, .. } = exits::step(task)? {
                return Ok(flow);
            }
            // A thread that is needed has no ticks behind one.
            if task.ctx.pending != 0 || !task.ctx.has_budget() {
                return Ok(Flow::Continue);
            }
        }
        self.pause(task, BETWEEN_PARTS);
        Ok(Flow::Continue)
    }
}
