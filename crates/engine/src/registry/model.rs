//! A model of the protocol: every order in which the threads can take their atomic steps. Each step
//! here is one access to a word that others use, one call of futex(2), or one turn of the lock. In
//! each state it is checked that no thread works while another has quiet, that only one has it, and
//! that no thread sleeps for ever.

mod stories;

use super::word::{self, AWAITED, AWAY, GONE, GUEST, HOST, PARKED};
use crate::testing::all_states::StateSpace;

/// The acts of a thread, one after the other; then it ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Act {
    /// Works in the host.
    Work,
    /// Runs guest code, and leaves it at some time.
    Guest,
    /// Runs guest code, leaves it only when called out, and enters it again: for ever.
    Loop,
    /// Sleeps in the kernel.
    Sleep,
    /// Asks for quiet.
    Ask,
    /// Makes a thread.
    Bear(usize),
}

/// Where a thread stands in an act.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    /// Not made yet.
    Unborn,
    /// Before the next act.
    Begin,
    /// In the work of the act.
    Within,
    /// Has said that it enters guest code, and looks whether another thread asks.
    Entered,
    /// Is back from the kernel and has said so.
    Back,
    /// Has seen that another thread asks, and says that it parks.
    Parks,
    /// Has said so, and looks at the asker.
    Parked,
    /// Is about to sleep if that is still the asker.
    Waits(u8),
    /// Sleeps until the asker changes.
    Asleep,
    /// Has seen that no thread asks.
    Unparks,
    /// Has said that it parks no more, and looks again.
    Unparked,
    /// Asks: holds the lock and has looked at so many threads.
    Looks(usize),
    /// Has found this one not at rest, and says that it waits.
    Awaits(usize),
    /// Has said so, having read this word, and calls it out if it is in guest code.
    Calls(usize, u32),
    /// Is about to sleep if the word is still that.
    Dozes(usize, u32),
    /// Sleeps until the word changes.
    Dozing(usize),
    /// Has quiet.
    Quiet,
    /// Has given it up, and wakes the others.
    Wakes,
    /// Has taken itself out, and wakes the threads that wait for it.
    Left,
    /// Has ended.
    Ended,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ModelThread {
    act: usize,
    at: At,
    word: u32,
    enrolled: bool,
    called_out: bool,
    /// A word that it has changed, and whose sleepers it has to wake.
    wakes: bool,
    /// Where it goes on after parking.
    after: Option<At>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ModelState {
    asker: u8,
    locked: bool,
    threads: Vec<ModelThread>,
}

struct Model {
    /// Threads that are there at the start.
    born: usize,
    acts: Vec<Vec<Act>>,
    /// Without this step of the protocol: the model must then find a fault.
    without: Option<ModelStep>,
}

/// Steps that matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ModelStep {
    LookBehindEntering,
    LookBehindSleeping,
    LookAgainAfterParking,
    CallOut,
    SayThatOneWaits,
    /// To take the short way to guest code and back only while no other thread is enrolled.
    SeeOthers,
}

impl Model {
    fn act(&self, state: &ModelState, i: usize) -> Option<Act> {
        self.acts[i].get(state.threads[i].act).copied()
    }

    fn keeps(&self, step: ModelStep) -> bool {
        self.without != Some(step)
    }

    /// All states that come after one step of thread `i`.
    fn step(&self, state: &ModelState, i: usize) -> Option<ModelState> {
        let mut next = state.clone();
        let me = i as u8 + 1;
        let asked = state.asker != 0 && state.asker != me;
        let act = self.act(state, i);
        if state.threads[i].wakes {
            next.threads[i].wakes = false;
            for thread in &mut next.threads {
                if thread.at == At::Dozing(i) {
                    thread.at = At::Looks(0);
                }
            }
            return Some(next);
        }
        // Takes its word to `word`, and goes on at `at`.
        let say = |next: &mut ModelState, word: u32, at: At| {
            let thread = &mut next.threads[i];
            thread.wakes = thread.word & AWAITED != 0;
            (thread.word, thread.at) = (word, at);
        };
        // One that is alone changes its word by a plain store, and looks at nothing behind it.
        let enrolled = state.threads.iter().filter(|t| t.enrolled).count();
        let alone = enrolled == 1 || !self.keeps(ModelStep::SeeOthers);
        let put = |next: &mut ModelState, word: u32, at: At| {
            (next.threads[i].word, next.threads[i].at) = (word, at);
        };
        let done = |next: &mut ModelState| {
            let thread = &mut next.threads[i];
            (thread.act, thread.at) = (thread.act + 1, At::Begin);
        };
        let park = |next: &mut ModelState, after: At| {
            let thread = &mut next.threads[i];
            (thread.at, thread.after) = (At::Parks, Some(after));
        };
        match (state.threads[i].at, act) {
            (At::Unborn | At::Ended | At::Asleep | At::Dozing(_), _) => return None,
            (At::Begin, None) => {
                if state.locked {
                    return None;
                }
                next.threads[i].enrolled = false;
                say(&mut next, GONE, At::Left);
            }
            (At::Left, _) => next.threads[i].at = At::Ended,
            (At::Begin, Some(Act::Work)) => next.threads[i].at = At::Within,
            (At::Within, Some(Act::Work)) => done(&mut next),
            (At::Begin, Some(Act::Bear(child))) => {
                if state.locked {
                    return None;
                }
                let thread = &mut next.threads[child];
                (thread.at, thread.enrolled) = (At::Begin, true);
                done(&mut next);
            }
            (At::Begin, Some(Act::Guest | Act::Loop)) if alone => {
                next.threads[i].called_out = false;
                put(&mut next, GUEST, At::Within);
            }
            (At::Begin, Some(Act::Guest | Act::Loop)) => {
                next.threads[i].called_out = false;
                say(&mut next, GUEST, At::Entered);
            }
            (At::Entered, _) if asked && self.keeps(ModelStep::LookBehindEntering) => {
                say(&mut next, HOST, At::Begin);
                park(&mut next, At::Begin);
            }
            (At::Entered, _) => next.threads[i].at = At::Within,
            (At::Within, Some(Act::Loop)) if !state.threads[i].called_out => return None,
            (At::Within, Some(Act::Guest | Act::Loop)) => {
                match alone {
                    true => put(&mut next, HOST, At::Begin),
                    false => say(&mut next, HOST, At::Begin),
                }
                next.threads[i].act += usize::from(act == Some(Act::Guest));
            }
            (At::Begin, Some(Act::Sleep)) => say(&mut next, AWAY, At::Within),
            (At::Within, Some(Act::Sleep)) => say(&mut next, HOST, At::Back),
            (At::Back, _) if asked && self.keeps(ModelStep::LookBehindSleeping) => {
                next.threads[i].act += 1;
                park(&mut next, At::Begin);
            }
            (At::Back, _) => done(&mut next),
            (At::Parks, _) => say(&mut next, PARKED, At::Parked),
            (At::Parked, _) if state.asker == 0 => next.threads[i].at = At::Unparks,
            (At::Unparks, _) => say(&mut next, HOST, At::Unparked),
            (At::Parked, _) => next.threads[i].at = At::Waits(state.asker),
            (At::Waits(asker), _) => {
                let sleeps = state.asker == asker;
                next.threads[i].at = if sleeps { At::Asleep } else { At::Parked };
            }
            (At::Unparked, _) if asked && self.keeps(ModelStep::LookAgainAfterParking) => {
                next.threads[i].at = At::Parks;
            }
            (At::Unparked, _) => {
                let after = next.threads[i].after.take();
                next.threads[i].at = after.expect("it parks on the way to something");
            }
            (At::Begin, Some(Act::Ask)) if state.asker == 0 => {
                next.asker = me;
                next.threads[i].at = At::Looks(0);
            }
            (At::Begin, Some(Act::Ask)) => park(&mut next, At::Begin),
            (At::Looks(0), _) if state.locked => return None,
            (At::Looks(n), _) => {
                next.locked = true;
                let other = state.threads.get(n);
                let restless = |t: &ModelThread| n != i && t.enrolled && !word::is_quiet(t.word);
                next.threads[i].at = match other {
                    None => At::Quiet,
                    Some(t) if restless(t) => At::Awaits(n),
                    Some(_) => At::Looks(n + 1),
                };
                if !matches!(next.threads[i].at, At::Looks(_)) {
                    next.locked = false;
                }
            }
            (At::Awaits(n), _) => {
                let old = state.threads[n].word;
                if self.keeps(ModelStep::SayThatOneWaits) {
                    next.threads[n].word |= AWAITED;
                }
                let quiet = word::is_quiet(old);
                next.threads[i].at = if quiet {
                    At::Looks(0)
                } else {
                    At::Calls(n, old)
                };
            }
            (At::Calls(n, old), _) => {
                if old & !AWAITED == GUEST && self.keeps(ModelStep::CallOut) {
                    next.threads[n].called_out = true;
                }
                next.threads[i].at = At::Dozes(n, old);
            }
            (At::Dozes(n, old), _) => {
                let word = state.threads[n].word;
                let same = word & !AWAITED == old & !AWAITED
                    && (word & AWAITED != 0 || !self.keeps(ModelStep::SayThatOneWaits));
                next.threads[i].at = if same { At::Dozing(n) } else { At::Looks(0) };
            }
            (At::Quiet, _) => {
                next.asker = 0;
                next.threads[i].at = At::Wakes;
            }
            (At::Wakes, _) => {
                for thread in &mut next.threads {
                    if thread.at == At::Asleep {
                        thread.at = At::Parked;
                    }
                }
                done(&mut next);
            }
            (at, act) => unreachable!("{at:?} in {act:?}"),
        }
        Some(next)
    }
}

impl StateSpace for Model {
    type State = ModelState;

    fn start(&self) -> ModelState {
        let born = self.born;
        let thread = |i: usize| ModelThread {
            act: 0,
            at: if i < born { At::Begin } else { At::Unborn },
            word: HOST,
            enrolled: i < born,
            called_out: false,
            wakes: false,
            after: None,
        };
        ModelState {
            asker: 0,
            locked: false,
            threads: (0..self.acts.len()).map(thread).collect(),
        }
    }

    fn all_after(&self, state: &ModelState) -> Vec<ModelState> {
        let threads = 0..state.threads.len();
        threads.filter_map(|i| self.step(state, i)).collect()
    }

    fn fault(&self, state: &ModelState) -> Option<&'static str> {
        let quiet = |t: &&ModelThread| t.at == At::Quiet;
        if state.threads.iter().filter(quiet).count() > 1 {
            return Some("two have quiet");
        }
        if state.threads.iter().any(|t| quiet(&t)) {
            let works = |i: usize| {
                let there = state.threads[i].at == At::Within;
                there && !matches!(self.act(state, i), Some(Act::Sleep))
            };
            if (0..state.threads.len()).any(works) {
                return Some("a thread works while another has quiet");
            }
        }
        None
    }

    fn is_end(&self, state: &ModelState) -> bool {
        (0..state.threads.len()).all(|i| {
            let needs_no_other = matches!(self.act(state, i), Some(Act::Loop))
                && state.threads[i].at == At::Within
                && state.asker == 0;
            needs_no_other || matches!(state.threads[i].at, At::Ended | At::Unborn)
        })
    }
}

fn model((born, acts): (usize, &[&[Act]])) -> Model {
    Model {
        born,
        acts: acts.iter().map(|acts| acts.to_vec()).collect(),
        without: None,
    }
}
