//! Decisions of a search where moments alone led to a disagreement: how a thread goes from one moment to the
//! next, and on which side of another thread's operation its way to an operation lies. Decisions are handed to a
//! replay by the environment of its first host process. Must never make a replay believe anything: each event is
//! checked with hints as without them.

use std::collections::BTreeMap;
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

/// Decisions by place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hints(BTreeMap<Place, u64>);

impl Hints {
    /// Decides a place, anew if it was decided.
    pub fn decide(&mut self, place: Place, value: u64) {
        self.0.insert(place, value);
    }

    /// How many decisions there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The decision at a place.
    #[must_use]
    pub fn at(&self, process: u32, thread: u32, what: What) -> Option<u64> {
        let place = Place {
            process,
            thread,
            what,
        };
        self.0.get(&place).copied()
    }

    /// The places that others decide in another way.
    pub fn differences<'a>(&'a self, others: &'a Self) -> impl Iterator<Item = Place> + 'a {
        let mine = self
            .0
            .iter()
            .filter(|(place, value)| others.0.get(place) != Some(value));
        let theirs = others.0.keys().filter(|place| !self.0.contains_key(place));
        mine.map(|(place, _)| place).chain(theirs).copied()
    }

    /// In words of four numbers.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (place, value) in &self.0 {
            let (kind, n) = match place.what {
                What::Way(n) => ('w', n),
                What::Moment(n) => ('m', n),
                What::Operation(n) => ('o', n),
                What::Event(n) => ('e', n),
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
                    _ => return None,
                },
            };
            hints.decide(place, value.parse().ok()?);
        }
        Some(hints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_survive_their_text() {
        let mut hints = Hints::default();
        for (thread, what, value) in [
            (0, What::Way(7), 0),
            (3, What::Way(u64::MAX), u64::MAX),
            (3, What::Operation(12), 1),
            (1, What::Moment(3), 1 << 60),
            (0, What::Event(0), 1),
        ] {
            let process = 2;
            hints.decide(
                Place {
                    process,
                    thread,
                    what,
                },
                value,
            );
        }
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
        for text in ["1", "1.2.w.3", "1.2.x.3.4", "1.2.w.3.4.5", "a.2.w.3.4"] {
            assert_eq!(Hints::from_text(text), None, "{text}");
        }
    }
}
