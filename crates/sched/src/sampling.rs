//! Partial order sampling: a random order of the accesses by which threads meet.
//!
//! Each thread has a random priority for its next access to memory that threads share, and the highest
//! one goes first. In half of the runs a thread draws a new priority for each such access, and so do
//! those that wait with an access to the same memory (Yuan, Yang and Gu, "Partial order aware
//! concurrency sampling", CAV 2018). In the other half threads keep theirs, but for a few accesses at
//! which they fall behind all others (Burckhardt et al., see [`Chaos`], with accesses for
//! steps): some bugs need one thread to stand still for long. So accesses that meet come in either
//! order with a fair chance, whatever lies between them: a bug in three instructions of a short thread
//! is found where slices of random length hardly ever end inside them.
//!
//! The engine has to look at each instruction for that, so it is done for a bounded number of them,
//! in stretches; between those, and afterwards, threads run as in [`Chaos`].

use std::collections::BTreeMap;

use crate::chaos::Chaos;
use crate::policy::{Policy, STEPS_MAX, SharedAccess};
use crate::rng::Rng;
use crate::seed::Seed;

/// [`Chaos`], with stretches of partial order sampling.
///
/// A thread waits for at most [`Chaos::PATIENCE`] calls of [`Policy::choose`], and as many more as
/// there are threads waiting.
#[derive(Debug, Clone)]
pub struct Sampling {
    rng: Rng,
    chaos: Chaos,
    threads: BTreeMap<u32, SampledThread>,
    /// Instructions still to look at, while other threads wait and while none does.
    left: [u32; 2],
    stretch: Stretch,
    draw: Draw,
    /// How often a thread falls behind at an access, and so whatever it does: at one instruction in so
    /// many.
    falls: u64,
    strays: u64,
    stray: u64,
    /// Only one site in so many counts, by chance.
    one_site_in: u64,
    salt: u64,
    /// The priority of the thread that fell behind last.
    bottom: u64,
}

#[derive(Debug, Clone, Copy)]
enum Stretch {
    /// Looks at so many instructions more.
    Fine(u32),
    /// Gives so many slices more.
    Coarse(u64),
}

#[derive(Debug, Clone, Copy)]
enum Draw {
    /// A new priority for each access.
    Anew,
    /// The thread's own, but at one access in so many it falls behind all others.
    Behind(u64),
}

#[derive(Debug, Clone, Copy)]
struct SampledThread {
    priority: u64,
    /// The access that it is about to make.
    next: Option<SharedAccess>,
    /// Choices of others since it began to wait.
    waited: u32,
}

/// A tick without a look costs the engine about as much as so many looks.
const TICK: u32 = 4;
/// The priority above all threads that fell behind.
const HIGH: u64 = 1 << 63;

impl Sampling {
    /// The most instructions that are looked at while others wait.
    pub const MOST: u32 = 50_000;

    /// From a seed.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        let mut rng = Rng::new(seed.0 ^ 0x5eed);
        // Short programs have all their bugs in the first stretch.
        let stretch = match rng.one_in(8) {
            true => Stretch::Coarse(coarse(&mut rng)),
            false => Stretch::Fine(Self::MOST / 2),
        };
        let draw = match rng.one_in(2) {
            true => Draw::Anew,
            false => Draw::Behind(1 << (1 + rng.below(5))),
        };
        // An instruction that is not looked at now is never a site: those bugs need switches elsewhere.
        let strays = if rng.one_in(3) { 1 + rng.below(2) } else { 0 };
        let stray = 1 << (5 + rng.below(7));
        // Some runs belong to chaos alone.
        let most = if rng.one_in(8) { 0 } else { Self::MOST };
        Self {
            stretch,
            draw,
            falls: 1 + rng.below(4),
            strays,
            stray,
            one_site_in: *rng.pick(&[1, 1, 2, 4]),
            salt: rng.word(),
            rng,
            chaos: Chaos::new(seed),
            threads: BTreeMap::new(),
            left: [most, most / 4],
            bottom: HIGH,
        }
    }

    fn is_fine(&self) -> bool {
        matches!(self.stretch, Stretch::Fine(_)) && self.left[0] > 0
    }

    fn spend(&mut self, instructions: u32, alone: bool) {
        let left = &mut self.left[usize::from(alone)];
        *left = left.saturating_sub(instructions);
        let is_used_up = self.left[0] == 0;
        if let Stretch::Fine(n) = &mut self.stretch {
            *n = n.saturating_sub(instructions);
            if *n == 0 || is_used_up {
                self.stretch = Stretch::Coarse(coarse(&mut self.rng));
            }
        }
    }

    fn thread(&mut self, thread: u32) -> &mut SampledThread {
        let rng = &mut self.rng;
        self.threads.entry(thread).or_insert_with(|| SampledThread {
            priority: high(rng),
            next: None,
            waited: 0,
        })
    }

    fn fall_behind(&mut self, thread: u32) -> u64 {
        self.bottom -= 1;
        let bottom = self.bottom;
        self.thread(thread).priority = bottom;
        bottom
    }

    /// The place in `waiting` of the thread that goes first, and its priority.
    fn first(&mut self, waiting: &[u32]) -> Option<(usize, u64)> {
        let priorities = waiting.iter().map(|&thread| self.thread(thread).priority);
        let priorities: Vec<u64> = priorities.collect();
        priorities.into_iter().enumerate().max_by_key(|p| p.1)
    }

    /// The place in `waiting` of the thread that has waited too long, the longest first.
    fn overdue(&mut self, waiting: &[u32]) -> Option<usize> {
        let waited = waiting.iter().map(|&thread| {
            let waited = &mut self.thread(thread).waited;
            *waited += 1;
            *waited
        });
        let waited: Vec<u32> = waited.collect();
        let late = waited.into_iter().enumerate();
        let late = late.filter(|w| w.1 > Chaos::PATIENCE);
        late.max_by_key(|w| w.1).map(|w| w.0)
    }
}

impl Policy for Sampling {
    fn slice(&mut self, alone: bool) -> u64 {
        if self.is_fine() {
            self.spend(TICK, false);
            return 1;
        }
        if let Stretch::Coarse(slices) = &mut self.stretch {
            *slices = slices.saturating_sub(1);
            if *slices == 0 {
                self.stretch = Stretch::Fine(self.rng.octaves(8, 14) as u32);
            }
        }
        self.chaos.slice(alone)
    }

    fn steps(&mut self) -> u32 {
        match self.is_fine() {
            true => STEPS_MAX,
            false => self.chaos.steps(),
        }
    }

    fn choose(&mut self, waiting: &[u32]) -> usize {
        assert!(!waiting.is_empty(), "there is nobody to choose");
        let index = match self.overdue(waiting) {
            Some(index) => index,
            None if self.is_fine() => self.first(waiting).map_or(0, |first| first.0),
            None => self.chaos.choose(waiting),
        };
        self.thread(waiting[index]).waited = 0;
        index
    }

    /// A thread that fell behind others stays there: for some bugs it must stand still for long.
    fn keeps(&mut self, thread: u32, waiting: &[u32]) -> bool {
        let is_behind = |t: &SampledThread| (1..HIGH).contains(&t.priority);
        !is_behind(self.thread(thread))
            && waiting.iter().all(|&w| is_behind(self.thread(w)))
            && self.overdue(waiting).is_none()
    }

    fn spinning(&mut self, thread: u32) {
        self.chaos.spinning(thread);
        self.thread(thread).priority = 0;
    }

    fn samples(&self, alone: bool) -> bool {
        self.is_fine() && self.left[usize::from(alone)] > 0
    }

    fn look(&mut self, thread: u32, waiting: &[u32]) -> bool {
        self.spend(1, waiting.is_empty());
        self.strays > 0 && self.rng.one_in(self.stray) && {
            self.strays -= 1;
            let priority = self.fall_behind(thread);
            self.first(waiting).is_some_and(|(_, p)| p > priority)
        }
    }

    fn give_way(&mut self, thread: u32, access: SharedAccess, waiting: &[u32]) -> bool {
        if Rng::new(access.site ^ self.salt).below(self.one_site_in) != 0 {
            return false;
        }
        let priority = match self.draw {
            Draw::Anew => high(&mut self.rng),
            Draw::Behind(n) if self.falls > 0 && self.rng.one_in(n) => {
                self.falls -= 1;
                self.fall_behind(thread)
            }
            Draw::Behind(_) => self.thread(thread).priority,
        };
        let state = self.thread(thread);
        (state.priority, state.next) = (priority, Some(access));
        self.first(waiting).is_some_and(|(_, p)| p > priority)
    }

    fn makes(&mut self, thread: u32, access: SharedAccess) {
        self.thread(thread).next = None;
        let rng = &mut self.rng;
        if matches!(self.draw, Draw::Anew) {
            let meets = |t: &&mut SampledThread| t.next.is_some_and(|next| next.conflicts(access));
            for other in self.threads.values_mut().filter(meets) {
                other.priority = high(rng);
            }
        }
    }
}

fn high(rng: &mut Rng) -> u64 {
    rng.word() | HIGH
}

/// The number of slices between two stretches.
fn coarse(rng: &mut Rng) -> u64 {
    rng.octaves(0, 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: SharedAccess = SharedAccess {
        site: 1,
        word: 2,
        writes: true,
    };

    /// A sampling that looks from the beginning, and at all sites.
    fn fine(draw: Draw) -> Sampling {
        Sampling {
            stretch: Stretch::Fine(Sampling::MOST),
            left: [Sampling::MOST; 2],
            strays: 0,
            draw,
            one_site_in: 1,
            ..Sampling::new(Seed(1))
        }
    }

    #[test]
    fn either_of_two_accesses_comes_first_about_as_often() {
        let mut policy = fine(Draw::Anew);
        let mut gave = 0;
        for _ in 0..1000 {
            gave += u32::from(policy.give_way(0, WRITE, &[1]));
            policy.makes(0, WRITE);
            policy.give_way(1, WRITE, &[0]);
        }
        assert!((400..600).contains(&gave), "{gave}");
    }

    #[test]
    fn a_thread_that_falls_behind_stays_there() {
        let mut policy = fine(Draw::Behind(1));
        assert!(policy.give_way(0, WRITE, &[1]));
        for _ in 0..100 {
            assert_eq!(policy.choose(&[0, 1]), 1);
        }
    }

    #[test]
    fn it_looks_at_a_bounded_number_of_instructions() {
        for alone in [false, true] {
            let mut policy = fine(Draw::Anew);
            let mut looks = 0;
            for _ in 0..2 * Sampling::MOST {
                if policy.samples(alone) {
                    policy.look(0, if alone { &[] } else { &[1] });
                    looks += 1;
                }
                policy.slice(alone);
            }
            assert!((1..=Sampling::MOST).contains(&looks), "{looks}");
        }
    }

    #[test]
    fn an_access_that_conflicts_draws_the_waiting_one_anew() {
        let mut policy = fine(Draw::Anew);
        policy.give_way(0, WRITE, &[]);
        let before = policy.threads[&0].priority;
        let elsewhere = SharedAccess { word: 3, ..WRITE };
        policy.makes(1, elsewhere);
        assert_eq!(policy.threads[&0].priority, before);
        policy.makes(1, WRITE);
        assert_ne!(policy.threads[&0].priority, before);
    }
}
