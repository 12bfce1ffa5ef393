//! Decisions of a search where moments alone led to a disagreement: how a thread goes from one moment to the
//! next, on which side of another thread's operation its way to an operation lies, and which of two accesses comes
//! first. Decisions are handed to a replay by the environment of its first host process. Must never make a replay
//! believe anything: each event is checked with hints as without them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Something that a replay decides, in one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// How the thread goes on its way behind so many moments. Decided by a tick: up to there it goes at the
    /// way's begin, and behind it at the way's end; the tick may be one of a later way. Without a decision it goes
    /// evenly.
    Way(u64),
    /// When the thread goes all of the way behind so many moments, with all its steps. Decided by that moment.
    Moment(u64),
    /// How far the thread goes towards its operation of this number before the one which that follows. Decided by
    /// a tick: there it waits, if no other operation is left between; behind the operation's tick, in front of
    /// the instruction. Without a decision it waits at the operation's tick.
    Operation(u64),
    /// When the thread's event behind so many moments happens, of the time that it took. Decided by a 1: at its
    /// begin; by a larger value: at that moment. Without a decision it happens at its end.
    Event(u64),
    /// How long turns are: of the whole process, as of its thread 0. Decided by a number of ticks: a thread may run ahead of
    /// others up to so many before what is next on its tape, an event or an operation that follows another one, and goes
    /// as moments say from there on. Without a decision all of its way is as moments say.
    Turns,
}

/// A place where a replay decides something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Index of the process.
    pub process: u32,
    /// Index of the thread.
    pub thread: u32,
    /// The decision.
    pub what: What,
}

/// An instruction of a thread: the one at `pc` behind so many ticks. No instruction comes twice between two ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InsnPlace {
    /// Index of the thread.
    pub thread: u32,
    /// Its ticks.
    pub tick: u64,
    /// The instruction.
    pub pc: u64,
}

/// An order of two accesses of different threads: the second one waits until the first has been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccessesInOrder {
    /// Index of the process.
    pub process: u32,
    /// The access that comes first.
    pub first: InsnPlace,
    /// The one that waits.
    pub second: InsnPlace,
}

impl AccessesInOrder {
    /// Of accesses by thread, tick and instruction.
    #[cfg(test)]
    pub fn with(process: u32, first: (u32, u64, u64), second: (u32, u64, u64)) -> Self {
        let place = |(thread, tick, pc)| InsnPlace { thread, tick, pc };
        Self {
            process,
            first: place(first),
            second: place(second),
        }
    }

    /// The other order.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            first: self.second,
            second: self.first,
            ..self
        }
    }
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Of a place.
    Value(Place, u64),
    /// Of the order of two accesses.
    Order(AccessesInOrder),
    /// The decided accesses of a thread from a tick on come later, or sooner, by so many ticks.
    Shift {
        process: u32,
        thread: u32,
        tick: u64,
        by: i64,
    },
}

impl InsnPlace {
    fn shift(&mut self, thread: u32, from: u64, by: i64) {
        if self.thread == thread && self.tick >= from {
            self.tick = self.tick.saturating_add_signed(by);
        }
    }
}

/// Decisions: values by place, and orders of accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hints {
    values: BTreeMap<Place, u64>,
    orders: BTreeSet<AccessesInOrder>,
}

impl Hints {
    /// Adds a decision, in place of one for the same place. The other order of two accesses is forgotten.
    pub fn decide(&mut self, decision: Decision) {
        match decision {
            Decision::Value(place, value) => drop(self.values.insert(place, value)),
            Decision::Order(order) => {
                if !self.orders.remove(&order.reversed()) {
                    self.orders.insert(order);
                }
            }
            Decision::Shift {
                process,
                thread,
                tick,
                by,
            } => {
                let orders = std::mem::take(&mut self.orders).into_iter();
                self.orders = orders
                    .map(|mut order| {
                        if order.process == process {
                            order.first.shift(thread, tick, by);
                            order.second.shift(thread, tick, by);
                        }
                        order
                    })
                    .collect();
            }
        }
    }

    /// How many decisions there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.values.len() + self.orders.len()
    }

    /// The decision at a place.
    #[must_use]
    pub fn at(&self, process: u32, thread: u32, what: What) -> Option<u64> {
        let place = Place {
            process,
            thread,
            what,
        };
        self.values.get(&place).copied()
    }

    /// How many ticks before what comes next the long turns of a process end, if it has such.
    #[must_use]
    pub fn long_turns(&self, process: u32) -> Option<u64> {
        self.at(process, 0, What::Turns)
    }

    /// The same decisions with long turns of a process, which end so many ticks before what comes next.
    #[must_use]
    pub fn with_long_turns(&self, process: u32, near: u64) -> Self {
        let mut hints = self.clone();
        let (thread, what) = (0, What::Turns);
        let place = Place {
            process,
            thread,
            what,
        };
        hints.decide(Decision::Value(place, near));
        hints
    }

    /// The decided orders of accesses in a process.
    pub fn orders(&self, process: u32) -> impl Iterator<Item = &AccessesInOrder> {
        self.orders.iter().filter(move |o| o.process == process)
    }

    /// The places that others decide in another way.
    pub fn differences<'a>(&'a self, others: &'a Self) -> impl Iterator<Item = Place> + 'a {
        let (values, theirs) = (&self.values, &others.values);
        let mine = values
            .iter()
            .filter(|(place, value)| theirs.get(place) != Some(value));
        let theirs = theirs.keys().filter(|place| !values.contains_key(place));
        mine.map(|(place, _)| place).chain(theirs).copied()
    }

    /// The orders of accesses that only one of the two has.
    pub fn other_orders<'a>(
        &'a self,
        others: &'a Self,
    ) -> impl Iterator<Item = &'a AccessesInOrder> {
        self.orders.symmetric_difference(&others.orders)
    }

    /// In words of numbers.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for order in &self.orders {
            let (first, second) = (&order.first, &order.second);
            let _ = write!(
                text,
                "{}.{}.{ORDER}.{}.{}.{}.{}.{} ",
                order.process,
                second.thread,
                second.tick,
                second.pc,
                first.thread,
                first.tick,
                first.pc
            );
        }
        for (place, value) in &self.values {
            let (kind, n) = match place.what {
                What::Way(n) => ('w', n),
                What::Moment(n) => ('m', n),
                What::Operation(n) => ('o', n),
                What::Event(n) => ('e', n),
                What::Turns => ('t', 0),
            };
            let _ = write!(
                text,
                "{}.{}.{kind}.{n}.{value} ",
                place.process, place.thread
            );
        }
        text
    }

    /// From words; `None` if they say nothing.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let mut hints = Self::default();
        for word in text.split_ascii_whitespace() {
            let parts: Vec<&str> = word.split('.').collect();
            if let [process, thread, ORDER, rest @ ..] = &parts[..] {
                hints.decide(Decision::Order(order(process, thread, rest)?));
                continue;
            }
            let [process, thread, kind, n, value] = parts[..] else {
                return None;
            };
            let n = n.parse().ok()?;
            let place = Place {
                process: process.parse().ok()?,
                thread: thread.parse().ok()?,
                what: match kind {
                    "w" => What::Way(n),
                    "m" => What::Moment(n),
                    "o" => What::Operation(n),
                    "e" => What::Event(n),
                    "t" if n == 0 => What::Turns,
                    _ => return None,
                },
            };
            hints.decide(Decision::Value(place, value.parse().ok()?));
        }
        Some(hints)
    }
}

/// The kind of a word for an order of accesses.
const ORDER: &str = "a";

/// The order of accesses that these parts of a word say.
fn order(process: &str, thread: &str, rest: &[&str]) -> Option<AccessesInOrder> {
    let place = |thread: &str, tick: &str, pc: &str| {
        Some(InsnPlace {
            thread: thread.parse().ok()?,
            tick: tick.parse().ok()?,
            pc: pc.parse().ok()?,
        })
    };
    let [tick, pc, other, other_tick, other_pc] = rest else {
        return None;
    };
    Some(AccessesInOrder {
        process: process.parse().ok()?,
        first: place(other, other_tick, other_pc)?,
        second: place(thread, tick, pc)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_have_one_order() {
        let order = AccessesInOrder::with(2, (1, 20, 0x4010), (2, 21, 0x4020));
        let mut hints = Hints::default();
        hints.decide(Decision::Order(order));
        assert_eq!(hints.orders(2).collect::<Vec<_>>(), [&order]);
        assert_eq!(hints.orders(0).count(), 0);
        let none = Hints::default();
        assert_eq!(none.other_orders(&hints).collect::<Vec<_>>(), [&order]);
        assert_eq!(hints.other_orders(&hints).count(), 0);
        // A loop before both goes round more often.
        let mut shifted = hints.clone();
        let shift = |thread, tick| Decision::Shift {
            process: 2,
            thread,
            tick,
            by: -3,
        };
        shifted.decide(shift(1, 20));
        shifted.decide(shift(2, 22));
        let sooner = AccessesInOrder::with(2, (1, 17, 0x4010), (2, 21, 0x4020));
        assert_eq!(shifted.orders(2).collect::<Vec<_>>(), [&sooner]);
        // As it was without a decision.
        hints.decide(Decision::Order(order.reversed()));
        assert_eq!(hints, none);
    }

    #[test]
    fn hints_survive_their_text() {
        let mut hints = Hints::default();
        for (thread, what, value) in [
            (0, What::Way(7), 0),
            (3, What::Way(u64::MAX), u64::MAX),
            (3, What::Operation(12), 1),
            (1, What::Moment(3), 1 << 60),
            (0, What::Event(0), 1),
            (0, What::Turns, 54),
        ] {
            let place = Place {
                process: 2,
                thread,
                what,
            };
            hints.decide(Decision::Value(place, value));
        }
        let order = AccessesInOrder::with(2, (1, 20, 0x4010), (2, u64::MAX, 0x4020));
        hints.decide(Decision::Order(order));
        assert_eq!(Hints::from_text(&hints.to_text()), Some(hints.clone()));
        assert_eq!(Hints::from_text(""), Some(Hints::default()));
        assert_eq!(hints.at(2, 0, What::Way(7)), Some(0));
        assert_eq!(hints.at(1, 0, What::Way(7)), None);
        assert_eq!(hints.at(2, 3, What::Way(12)), None);
    }

    #[test]
    fn differences_are_the_places_that_differ() {
        let of = |text| Hints::from_text(text).expect("hints");
        let one = of("0.1.w.3.4 0.1.w.5.6 0.2.o.1.1");
        let other = of("0.1.w.3.4 0.1.w.5.7 0.3.e.1.1");
        let places: Vec<_> = one
            .differences(&other)
            .map(|p| (p.thread, p.what))
            .collect();
        let all = [
            (1, What::Way(5)),
            (2, What::Operation(1)),
            (3, What::Event(1)),
        ];
        assert_eq!(places, all);
        assert_eq!(one.differences(&one).count(), 0);
    }

    #[test]
    fn other_words_are_no_hints() {
        for text in [
            "1",
            "1.2.w.3",
            "1.2.x.3.4",
            "1.2.w.3.4.5",
            "a.2.w.3.4",
            "1.2.a.3.4.5.6",
            "1.2.a.3.4.5.6.7.8",
        ] {
            assert_eq!(Hints::from_text(text), None, "{text}");
        }
    }
}
