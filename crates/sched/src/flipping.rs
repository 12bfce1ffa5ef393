//! Orders of an earlier run, turned around: a thread waits in front of an access until another one has made
//! the access that came behind it.
//!
//! Apart from that threads run until they sleep, in the order in which they come, so that a run deviates in
//! these places alone. A flip is a wish: where no other thread can go on, the access is made. So no order of
//! locks is broken, and a run always comes to its end.

use std::collections::BTreeMap;

use crate::policy::{Policy, STEPS_MAX, SharedAccess};
use crate::rng::Rng;
use crate::seed::Seed;

/// An order that is turned around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flip {
    /// The thread that came first.
    pub thread: u32,
    /// The instruction of its access.
    pub site: u64,
    /// Number of the word that both access; 0: any. See [`SharedAccess::is_of`].
    pub word: u64,
    /// It waits when it comes there for this time, from 1 on.
    pub arrival: u32,
    /// The other thread's instruction; 0: it waits until no other thread can go on.
    pub until: u64,
}

/// See above. A thread waits for at most [`Flipping::PATIENCE`] calls of [`Policy::choose`] for each place in
/// the line.
#[derive(Debug, Clone)]
pub struct Flipping {
    rng: Rng,
    wishes: Vec<Wish>,
    /// Instructions still to look at, while other threads wait and while none does.
    left: [u32; 2],
    /// A thread whose wait is over, and that goes first.
    released: Option<u32>,
    /// The thread that runs, and instructions of it in a row.
    row: (u32, u32),
    /// Choices of others since each thread began to wait.
    waited: BTreeMap<u32, u32>,
}

#[derive(Debug, Clone, Copy)]
struct Wish {
    flip: Flip,
    arrivals: u32,
    /// How often the thread has given way again, as one that slept could go on.
    again: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The thread has not come there.
    Ahead,
    /// It waits.
    Holds,
    /// It has waited, and no other could go on.
    GaveUp,
    Over,
}

impl Wish {
    /// Whether this access is the one in front of which the thread waits, at some arrival.
    fn is_at(&self, thread: u32, access: SharedAccess) -> bool {
        let Flip { site, word, .. } = self.flip;
        self.flip.thread == thread && site == access.site && access.is_of(word)
    }
}

impl Flipping {
    /// See [`Flipping`].
    pub const PATIENCE: u32 = 512;
    /// The most instructions that are looked at while others wait.
    pub const MOST: u32 = 200_000;
    /// Instructions in a row behind which another thread goes on: one may wait for it.
    const ROW: u32 = 1 << 12;
    /// A slice of a thread that others wait for counts for so many instructions.
    const TURN: u32 = 1 << 10;
    /// The most times that a thread gives way again at one access.
    const MOST_AGAIN: u32 = 16;

    /// With these flips; the seed gives the length of slices where nothing is looked at.
    #[must_use]
    pub fn new(seed: Seed, flips: &[Flip]) -> Self {
        let wish = |&flip| Wish {
            flip,
            arrivals: 0,
            again: 0,
            state: State::Ahead,
        };
        Self {
            rng: Rng::new(seed.0),
            wishes: flips.iter().map(wish).collect(),
            left: [Self::MOST, Self::MOST / 4],
            released: None,
            row: (0, 0),
            waited: BTreeMap::new(),
        }
    }

    /// Whether the thread waits. Nobody does once nothing is looked at: none would see what it waits for.
    fn is_held(&self, thread: u32) -> bool {
        let mut wishes = self.wishes.iter();
        self.left[0] > 0 && wishes.any(|w| w.state == State::Holds && w.flip.thread == thread)
    }

    /// Looks at so many instructions, or does what counts for as many: so threads wait for a bounded time, whatever others do.
    fn spend(&mut self, instructions: u32, alone: bool) {
        let left = &mut self.left[usize::from(alone)];
        *left = left.saturating_sub(instructions);
    }

    /// The wishes of a thread go from one state to another.
    fn change(&mut self, thread: u32, from: State, to: State) {
        let concerned = |w: &&mut Wish| w.state == from && w.flip.thread == thread;
        for wish in self.wishes.iter_mut().filter(concerned) {
            wish.state = to;
        }
    }

    fn can_go(&self, waiting: &[u32]) -> bool {
        waiting.iter().any(|&thread| !self.is_held(thread))
    }

    /// Whether the thread has waited for too long.
    fn is_overdue(&self, thread: u32) -> bool {
        self.waited.get(&thread).copied().unwrap_or(0) > Self::PATIENCE
    }

    /// The place in `waiting` of the thread that goes on.
    fn next(&mut self, waiting: &[u32]) -> usize {
        let released = self.released.take();
        let overdue = |thread: &u32| self.is_overdue(*thread);
        let mut places = waiting.iter();
        places
            .position(overdue)
            .or_else(|| waiting.iter().position(|&t| Some(t) == released))
            .or_else(|| waiting.iter().position(|&t| !self.is_held(t)))
            .unwrap_or(0)
    }
}

impl Policy for Flipping {
    fn slice(&mut self, alone: bool) -> u64 {
        match (self.samples(alone), self.samples(false)) {
            (true, _) => 1,
            // Another one may come soon.
            (false, true) => self.rng.octaves(8, 12),
            (false, false) => self.rng.octaves(12, 20),
        }
    }

    fn steps(&mut self) -> u32 {
        match self.samples(false) {
            true => STEPS_MAX,
            false => self.rng.steps(),
        }
    }

    fn choose(&mut self, waiting: &[u32]) -> usize {
        assert!(!waiting.is_empty(), "there is nobody to choose");
        for thread in waiting {
            *self.waited.entry(*thread).or_default() += 1;
        }
        let index = self.next(waiting);
        let thread = waiting[index];
        let over = match self.can_go(waiting) || self.is_overdue(thread) || self.left[0] == 0 {
            true => State::Over,
            false => State::GaveUp,
        };
        self.change(thread, State::Holds, over);
        self.waited.insert(thread, 0);
        index
    }

    /// While all others wait for something, which this one may do.
    fn keeps(&mut self, thread: u32, waiting: &[u32]) -> bool {
        self.spend(Self::TURN, false);
        !self.is_held(thread) && self.left[0] > 0 && !self.can_go(waiting)
    }

    fn samples(&self, alone: bool) -> bool {
        let goes_on = self.wishes.iter().any(|w| w.state != State::Over);
        (goes_on || self.released.is_some()) && self.left[usize::from(alone)] > 0
    }

    fn look(&mut self, thread: u32, waiting: &[u32]) -> bool {
        self.spend(1, waiting.is_empty());
        self.row = match self.row {
            (last, row) if last == thread => (thread, row + 1),
            _ => (thread, 0),
        };
        if self.released.is_some_and(|t| waiting.contains(&t)) {
            return true;
        }
        self.released = None;
        let long = self.row.1 >= Self::ROW && self.can_go(waiting);
        if long {
            self.row.1 = 0;
        }
        long
    }

    fn give_way(&mut self, thread: u32, access: SharedAccess, waiting: &[u32]) -> bool {
        let can_go = self.can_go(waiting);
        let mut waits = false;
        for wish in &mut self.wishes {
            if wish.state == State::Ahead && wish.is_at(thread, access) {
                wish.arrivals += 1;
                // If nobody is there to go first, it is tried again when it comes back.
                if wish.arrivals >= wish.flip.arrival && can_go {
                    wish.state = State::Holds;
                    waits = true;
                }
            }
        }
        waits
    }

    fn awaits_others(&self, thread: u32, access: SharedAccess, waiting: &[u32]) -> bool {
        let is_due = |w: &Wish| {
            w.state == State::Ahead && w.arrivals + 1 >= w.flip.arrival && w.is_at(thread, access)
        };
        !self.can_go(waiting) && self.wishes.iter().any(is_due)
    }

    /// Some threads sleep for a while, look, and sleep again (a runtime's monitor): those bring nothing about.
    fn gave_up(&self, thread: u32) -> bool {
        let gave_up = |w: &Wish| {
            w.state == State::GaveUp && w.flip.thread == thread && w.again < Self::MOST_AGAIN
        };
        self.wishes.iter().any(gave_up)
    }

    fn gives_way_again(&mut self, thread: u32, waiting: &[u32]) -> bool {
        let again = self.gave_up(thread) && self.can_go(waiting);
        if again {
            self.spend(Self::TURN, false);
            let gave_up = |w: &&mut Wish| w.state == State::GaveUp && w.flip.thread == thread;
            for wish in self.wishes.iter_mut().filter(gave_up) {
                wish.again += 1;
            }
            self.change(thread, State::GaveUp, State::Holds);
        }
        again
    }

    fn makes(&mut self, thread: u32, access: SharedAccess) {
        self.change(thread, State::GaveUp, State::Over);
        let met = self.wishes.iter().find(|wish| {
            let Flip { word, until, .. } = wish.flip;
            wish.state == State::Holds
                && wish.flip.thread != thread
                && access.is_of(word)
                && until == access.site
        });
        if let Some(waits) = met.map(|wish| wish.flip.thread) {
            self.change(waits, State::Holds, State::Over);
            self.released = Some(waits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(site: u64, word: u64) -> SharedAccess {
        SharedAccess {
            site,
            word,
            writes: true,
        }
    }

    const FLIP: Flip = Flip {
        thread: 1,
        site: 10,
        word: 5,
        arrival: 1,
        until: 20,
    };

    #[test]
    fn a_thread_waits_until_the_other_one_has_made_its_access() {
        let mut policy = Flipping::new(Seed(1), &[FLIP]);
        assert!(!policy.give_way(1, access(10, 6), &[2]), "another word");
        assert!(!policy.give_way(2, access(10, 5), &[1]), "another thread");
        assert!(policy.give_way(1, access(10, 5), &[2]));
        assert_eq!(policy.choose(&[1, 2]), 1);
        policy.makes(2, access(20, 6));
        assert!(!policy.look(2, &[1]));
        policy.makes(2, access(20, 5));
        assert!(policy.look(2, &[1]));
        assert_eq!(policy.choose(&[3, 1]), 1);
        // Nothing is left to be looked at.
        assert!(!policy.samples(false));
    }

    #[test]
    fn a_thread_waits_at_its_second_arrival() {
        let second = Flip { arrival: 2, ..FLIP };
        let mut policy = Flipping::new(Seed(1), &[second]);
        assert!(!policy.give_way(1, access(10, 5), &[2]));
        assert!(policy.give_way(1, access(10, 5), &[2]));
    }

    #[test]
    fn nobody_waits_for_a_thread_that_is_not_there() {
        let mut policy = Flipping::new(Seed(1), &[FLIP]);
        assert!(!policy.give_way(1, access(10, 5), &[]));
        assert!(policy.give_way(1, access(10, 5), &[2]), "it comes back");
        // The other one sleeps now.
        assert_eq!(policy.choose(&[1]), 0);
        policy.makes(1, access(10, 5));
        assert!(!policy.samples(false));
    }

    #[test]
    fn a_thread_that_loops_gives_way_sometimes() {
        let mut policy = Flipping::new(Seed(1), &[FLIP]);
        let gave = (0..3 * Flipping::ROW).filter(|_| policy.look(1, &[2]));
        assert_eq!(gave.count(), 2);
    }

    #[test]
    fn a_thread_that_waits_for_long_goes_on() {
        let forever = Flip { until: 0, ..FLIP };
        let mut policy = Flipping::new(Seed(1), &[forever]);
        assert!(policy.give_way(1, access(10, 5), &[2]));
        let choices = (0..=Flipping::PATIENCE).filter(|_| policy.choose(&[1, 2]) == 0);
        assert_eq!(choices.count(), 1);
    }

    #[test]
    fn nobody_waits_for_ever_for_a_thread_that_spins() {
        // Thread 2 waits for what thread 1 does behind its access, and never sleeps.
        let mut policy = Flipping::new(Seed(1), &[FLIP]);
        assert!(policy.give_way(1, access(10, 5), &[2]));
        assert!(policy.keeps(2, &[1]), "it may come to its access");
        let mut turns = 0;
        while policy.keeps(2, &[1]) {
            turns += 1;
        }
        assert!(turns < Flipping::MOST);
        assert_eq!(policy.choose(&[1]), 0);
        assert!(!policy.gave_up(1), "it goes on for good");
        // The same where its turns end in other ways.
        let mut policy = Flipping::new(Seed(1), &[FLIP]);
        assert!(policy.give_way(1, access(10, 5), &[2]));
        let mut turns = 0;
        while policy.choose(&[1]) == 0 && policy.gives_way_again(1, &[2]) {
            turns += 1;
        }
        assert_eq!(turns, Flipping::MOST_AGAIN);
        assert!(!policy.is_held(1));
    }

    #[test]
    fn slices_of_a_thread_alone_are_not_short_for_ever() {
        let mut policy = Flipping::new(Seed(1), &[FLIP]);
        assert_eq!(policy.slice(true), 1);
        while policy.samples(true) {
            policy.look(2, &[]);
        }
        assert!(policy.slice(true) >= 1 << 8);
        assert_eq!(policy.slice(false), 1);
    }

    #[test]
    fn a_thread_waits_again_for_one_that_slept() {
        let mut policy = Flipping::new(Seed(1), &[FLIP]);
        assert!(policy.awaits_others(1, access(10, 5), &[]));
        assert!(!policy.awaits_others(1, access(10, 5), &[2]));
        assert!(!policy.awaits_others(1, access(11, 5), &[]));
        assert!(policy.give_way(1, access(10, 5), &[2]));
        // The other one begins to sleep.
        assert_eq!(policy.choose(&[1]), 0);
        assert!(policy.gave_up(1) && !policy.gives_way_again(1, &[]));
        assert!(policy.gives_way_again(1, &[2]));
        policy.makes(2, access(20, 5));
        assert!(!policy.gave_up(1) && policy.look(2, &[1]));
    }

    #[test]
    fn a_call_is_turned_around_against_any_memory() {
        let word = SharedAccess::ANY_MEMORY;
        let mut policy = Flipping::new(Seed(1), &[Flip { word, ..FLIP }]);
        let beside = SharedAccess::BESIDE_MEMORY;
        assert!(!policy.give_way(1, access(10, beside), &[2]));
        assert!(policy.give_way(1, access(10, 99), &[2]));
        policy.makes(2, access(20, word + 1));
        assert!(!policy.look(2, &[1]));
        policy.makes(2, access(20, word));
        assert!(policy.look(2, &[1]));
    }
}
