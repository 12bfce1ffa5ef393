//! How far a thread runs before another one may have to, and the parts of a way between two moments. A function of its arguments.

/// How far a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// To its next event, which was reached and over at these moments. `after`: it follows an operation of
    /// this thread that has not been made.
    Event {
        begin: u64,
        end: u64,
        after: Option<u32>,
        /// It ends its thread or program, and so says nothing of turns: the thread waits in front of the call.
        ends: bool,
        /// The call found that its word had changed since the thread had looked: the thread comes to it before
        /// the operation that it follows.
        changed: bool,
        /// The thread that the call has made, if it did: its index and its recorded id.
        made: Option<(u32, u32)>,
    },
    /// To a tick, at which it was at this moment.
    Tick { ticks: u64, at: u64 },
    /// To just before its operation `at`, an instruction behind this tick, which follows one of the thread
    /// `after` that has not been made; since this moment at least.
    Operation {
        ticks: u64,
        at: u64,
        after: u32,
        since: u64,
    },
    /// By one instruction, behind which this tick may not have been passed; it is due at this moment.
    Step { ticks: u64, at: u64 },
    /// Not at all: it stands at the end of its epoch.
    Place,
    /// Nothing follows.
    End,
}

impl Bound {
    /// To an event of this moment, of which nothing else is known.
    pub fn event_at(moment: u64) -> Self {
        Self::Event {
            begin: moment,
            end: moment,
            after: None,
            ends: false,
            changed: false,
            made: None,
        }
    }
}

/// Most and fewest ticks that a thread runs before others are looked at, and parts of a way of middling length.
const LONGEST: u64 = 1 << 11;
const SHORTEST: u64 = 2;
const PARTS: u64 = 16;

/// The next part of the way from the tick and moment behind a thread, which is at tick `now`, to those that come
/// next. On the way it is taken to run evenly, or as a search has decided: at its begin up to tick `step`, at
/// its end behind that; or all of it at one `moment`.
pub fn part(
    behind: (u64, u64),
    now: u64,
    next: (u64, u64),
    step: Option<u64>,
    moment: Option<u64>,
) -> Bound {
    let ((from, since), (to, at)) = (behind, next);
    let decided = match (moment, step) {
        (Some(moment), _) => Some((to, moment)),
        (None, Some(step)) if now < step => Some((to.min(step), since)),
        (None, Some(_)) => Some((to, at)),
        (None, None) => None,
    };
    if let Some((to, at)) = decided {
        return Bound::Tick {
            ticks: to.min(now + LONGEST),
            at,
        };
    }
    let length = (to.saturating_sub(from) / PARTS).clamp(SHORTEST, LONGEST);
    let ticks = to.min(now + length);
    if ticks == to || from >= to || since >= at || now < from {
        return Bound::Tick { ticks, at };
    }
    let (done, all) = (u128::from(ticks - from), u128::from(to - from));
    let at = since + (u128::from(at - since) * done / all) as u64;
    Bound::Tick { ticks, at }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tick and the moment of the next part.
    fn next(behind: (u64, u64), now: u64, next: (u64, u64)) -> (u64, u64) {
        match part(behind, now, next, None, None) {
            Bound::Tick { ticks, at } => (ticks, at),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn parts_lie_evenly_between_two_moments() {
        assert_eq!(next((0, 1000), 0, (1600, 2600)), (100, 1100));
        assert_eq!(next((0, 1000), 100, (1600, 2600)), (200, 1200));
        assert_eq!(next((0, 1000), 1550, (1600, 2600)), (1600, 2600));
    }

    #[test]
    fn parts_are_neither_tiny_nor_long() {
        assert_eq!(next((0, 0), 0, (10, 100)), (2, 20));
        assert_eq!(next((0, 0), 0, (1 << 20, 1 << 20)), (LONGEST, LONGEST));
    }

    #[test]
    fn a_moment_before_the_last_one_divides_nothing() {
        assert_eq!(next((0, 500), 0, (1600, 400)), (100, 400));
    }
}
