//! Where a traced thread stands, and the status that its tracer has not been told: one word, so that
//! both change in one step, also where other threads change it. Must never hold a status twice.
//!
//! | state | the tracee | left by |
//! |---|---|---|
//! | `FREE` | there is none | the tracer, or the creator of a tracee |
//! | `CLAIMED` | is being made, or has not heard of its tracer yet | the tracee |
//! | `RUNNING` | runs | the tracee |
//! | `STOPPED` | answers requests | the tracer |
//! | `LISTENING` | stays in its group's stop, and answers none | the tracee |
//! | `ENDED` | is gone, and its tracer has not been told | the tracer |

use std::sync::atomic::{AtomicU64, Ordering};

/// The states.
pub mod state {
    /// No tracee.
    pub const FREE: u32 = 0;
    /// It does not know yet that it is traced.
    pub const CLAIMED: u32 = 1;
    /// It runs.
    pub const RUNNING: u32 = 2;
    /// It is stopped, and answers requests.
    pub const STOPPED: u32 = 3;
    /// It is stopped with its process until SIGCONT.
    pub const LISTENING: u32 = 4;
    /// It is gone.
    pub const ENDED: u32 = 5;
}

/// A step of a tracee's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LifeStep {
    /// A slot is taken for it.
    Claimed,
    /// It knows of its tracer.
    Hears,
    /// It stops, with this status.
    Stops(u32),
    /// Its tracer lets it go on.
    GoesOn,
    /// Its tracer lets it listen.
    Listens,
    /// It ends, with this status.
    Ends(u32),
    /// Its tracer takes the status that it has not been told.
    IsTold,
    /// It is traced no more.
    Vanishes,
}

/// A state and a status that has not been told; 0: none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stand {
    /// See [`state`].
    pub state: u32,
    /// As wait4(2) tells it.
    pub status: u32,
}

impl Stand {
    fn of(word: u64) -> Self {
        Self {
            state: word as u32,
            status: (word >> 32) as u32,
        }
    }

    fn word(self) -> u64 {
        u64::from(self.status) << 32 | u64::from(self.state)
    }

    /// Where it stands after a step; `None`: the step cannot be taken from here.
    fn after(self, turn: LifeStep) -> Option<Self> {
        use state::{CLAIMED, ENDED, FREE, LISTENING, RUNNING, STOPPED};
        let (from, to): (&[u32], _) = match turn {
            LifeStep::Claimed => (&[FREE], (CLAIMED, 0)),
            LifeStep::Hears => (&[CLAIMED], (RUNNING, 0)),
            LifeStep::Stops(status) => (&[RUNNING, LISTENING], (STOPPED, status)),
            LifeStep::GoesOn => (&[STOPPED, LISTENING], (RUNNING, 0)),
            LifeStep::Listens => (&[STOPPED], (LISTENING, self.status)),
            LifeStep::Ends(status) => (&[CLAIMED, RUNNING, STOPPED, LISTENING], (ENDED, status)),
            LifeStep::IsTold if self.state == ENDED => (&[ENDED], (FREE, 0)),
            LifeStep::IsTold if self.status == 0 => return None,
            LifeStep::IsTold => (&[STOPPED, LISTENING], (self.state, 0)),
            LifeStep::Vanishes => (&[self.state], (FREE, 0)),
        };
        let (state, status) = to;
        from.contains(&self.state).then_some(Self { state, status })
    }
}

/// The word. Zeros are a free one.
#[repr(transparent)]
pub struct Standing(AtomicU64);

impl Standing {
    /// Where it stands now.
    pub fn get(&self) -> Stand {
        Stand::of(self.0.load(Ordering::Acquire))
    }

    /// Takes a step, if it can be taken. Returns where it stood before.
    pub fn take(&self, turn: LifeStep) -> Option<Stand> {
        let (ok, fail) = (Ordering::AcqRel, Ordering::Acquire);
        let next = |word| Stand::of(word).after(turn).map(Stand::word);
        self.0.fetch_update(ok, fail, next).ok().map(Stand::of)
    }

    /// The same, if it still stands there.
    pub fn take_from(&self, seen: Stand, turn: LifeStep) -> bool {
        let (ok, fail) = (Ordering::AcqRel, Ordering::Acquire);
        seen.after(turn).is_some_and(|next| {
            self.0
                .compare_exchange(seen.word(), next.word(), ok, fail)
                .is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const STOP: u32 = 0x057f;
    const END: u32 = 9;
    const STOPS: u8 = 2;

    /// A tracee that stops twice and ends, another thread that may end it at any moment, and a tracer that
    /// waits and lets it go on. Each step is one access to the word.
    #[derive(Clone, PartialEq, Eq, Hash, Debug)]
    struct Lives {
        stand: Stand,
        stopped: u8,
        /// The tracee waits to go on.
        waits: bool,
        ended: bool,
        killed: bool,
        /// The tracer has been told of the present stop.
        holds: bool,
        told_stops: u8,
        told_ends: u8,
        /// A status that the tracer has read, where the word is two.
        read: Option<Stand>,
    }

    impl Lives {
        fn step(&mut self, turn: LifeStep) -> Option<Stand> {
            let before = self.stand;
            self.stand = before.after(turn)?;
            Some(before)
        }

        fn told(&mut self, what: Stand) {
            match what.state {
                state::ENDED => self.told_ends += 1,
                _ => {
                    self.told_stops += 1;
                    self.holds = true;
                }
            }
        }

        /// All states after one step. With `split`, the tracer reads the state and takes the status in two.
        fn next(&self, split: bool) -> Vec<Self> {
            let mut all = Vec::new();
            let mut add = |change: &dyn Fn(&mut Self) -> bool| {
                let mut next = self.clone();
                if change(&mut next) {
                    all.push(next);
                }
            };
            // The tracee.
            add(&|s| !s.ended && s.step(LifeStep::Hears).is_some());
            add(&|s| {
                let stops = !s.ended && !s.waits && s.stopped < STOPS;
                let made = stops && s.step(LifeStep::Stops(STOP)).is_some();
                s.stopped += u8::from(made);
                s.waits |= made;
                made
            });
            add(&|s| {
                let goes = s.waits && s.stand.state == state::RUNNING;
                s.waits &= !goes;
                goes
            });
            add(&|s| {
                let ends = !s.ended && !s.waits && s.stopped == STOPS;
                let made = ends && s.step(LifeStep::Ends(END)).is_some();
                s.ended |= made;
                made
            });
            // The end of its process.
            add(&|s| {
                let made = !s.killed && s.step(LifeStep::Ends(END)).is_some();
                (s.killed, s.ended) = (s.killed | made, s.ended | made);
                made
            });
            // The tracer.
            match (split, self.read) {
                (false, _) => add(&|s| {
                    let told = s.step(LifeStep::IsTold);
                    told.is_some_and(|what| {
                        s.told(what);
                        true
                    })
                }),
                (true, None) => add(&|s| {
                    let stops = matches!(s.stand.state, state::STOPPED | state::ENDED);
                    s.read = stops.then_some(s.stand);
                    stops
                }),
                (true, Some(read)) => add(&|s| {
                    s.read = None;
                    let status = std::mem::take(&mut s.stand.status);
                    if read.state == state::ENDED {
                        s.stand.state = state::FREE;
                    }
                    if status != 0 || read.state == state::ENDED {
                        s.told(read);
                    }
                    true
                }),
            }
            add(&|s| {
                let made = s.holds && s.step(LifeStep::GoesOn).is_some();
                s.holds &= !made;
                made
            });
            all
        }

        fn check(&self) -> Result<(), String> {
            let wrong = if self.told_stops > self.stopped {
                "a stop is told twice"
            } else if self.told_ends > 1 {
                "an end is told twice"
            } else if self.stand.state == state::FREE && self.told_ends == 0 {
                "an end is not told"
            } else {
                return Ok(());
            };
            Err(format!("{wrong}: {self:?}"))
        }
    }

    fn explore(split: bool) -> Result<usize, String> {
        let first = Lives {
            stand: Stand {
                state: state::CLAIMED,
                status: 0,
            },
            stopped: 0,
            waits: false,
            ended: false,
            killed: false,
            holds: false,
            told_stops: 0,
            told_ends: 0,
            read: None,
        };
        let (mut seen, mut open) = (HashSet::from([first.clone()]), vec![first]);
        while let Some(lives) = open.pop() {
            lives.check()?;
            let next = lives.next(split);
            if next.is_empty() && lives.told_ends != 1 {
                return Err(format!("nobody moves: {lives:?}"));
            }
            open.extend(next.into_iter().filter(|n| seen.insert(n.clone())));
        }
        Ok(seen.len())
    }

    #[test]
    fn each_stop_and_each_end_is_told_once_in_every_order() {
        let states = explore(false).expect("the protocol holds");
        assert!(states > 20, "{states}");
    }

    #[test]
    fn with_two_words_an_end_is_lost_or_told_as_a_stop() {
        assert!(explore(true).is_err());
    }

    #[test]
    fn the_word_takes_the_steps_of_the_table() {
        let word = Standing(AtomicU64::new(0));
        assert_eq!(word.take(LifeStep::Hears), None);
        for turn in [LifeStep::Claimed, LifeStep::Hears, LifeStep::Stops(STOP)] {
            assert!(word.take(turn).is_some(), "{turn:?}");
        }
        let stopped = word.get();
        assert_eq!(word.take(LifeStep::IsTold), Some(stopped));
        assert_eq!(word.take(LifeStep::IsTold), None);
        assert!(!word.take_from(stopped, LifeStep::Vanishes));
        assert!(word.take(LifeStep::Ends(END)).is_some());
        assert_eq!(word.take(LifeStep::GoesOn), None);
        assert_eq!(word.take(LifeStep::IsTold).map(|s| s.status), Some(END));
        assert_eq!(word.get().state, state::FREE);
    }
}
