//! Where a thread stands at the end of an epoch: its way goes on, but not in this replay. Must never let a thread pass it.

use std::collections::BTreeMap;

use super::reach::{Bound, part};
use crate::course::Note;
use crate::failure::{Failure, Result};
use crate::session_state::{SessionState, ThreadState};

/// The place of a thread in the session image at the end of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndPlace {
    /// Entries of its tape before.
    pub entries: u64,
    /// Its ticks.
    pub ticks: u64,
    /// The instruction that comes next. None comes twice between two ticks.
    pub pc: u64,
    /// Operations that it has made.
    pub ops: u64,
    /// Marks that it has passed.
    pub marks: u64,
    /// When all threads were at rest.
    pub moment: u64,
    /// Threads of this index and above began later.
    pub born: u32,
}

/// The places of all threads that have one, by their index in the process.
pub fn places(state: &SessionState) -> BTreeMap<u32, EndPlace> {
    let place = |thread: &ThreadState| {
        let tape = thread.tape.as_ref()?;
        let place = EndPlace {
            entries: tape.mark.event,
            ticks: thread.task.ticks,
            pc: thread.task.registers.rip,
            ops: tape.order.ops,
            marks: tape.order.marks,
            moment: tape.order.moment,
            born: state.process.next_thread,
        };
        Some((thread.task.index, place))
    };
    state.threads.iter().filter_map(place).collect()
}

/// Where a thread is on its way to the place, behind all of its events before that.
pub struct WayToPlace {
    /// Its ticks.
    pub ticks: u64,
    /// Its next instruction, or the call that it makes again.
    pub at: [u64; 2],
    /// The last moment behind it: its tick, and when it was.
    pub behind: (u64, u64),
    /// What a search has decided for the way.
    pub decided: (Option<u64>, Option<u64>),
    /// The way is one, and not gone in parts.
    pub is_one: bool,
}

impl EndPlace {
    /// Whether a note of the thread, which has passed so many marks, is of the time behind the place; `others` are those of all threads.
    pub fn is_before(&self, note: &Note, marks: u64, others: &BTreeMap<u32, Self>) -> bool {
        match *note {
            Note::Edge {
                event: false, at, ..
            } => at > self.ops,
            Note::Moment {
                event: false,
                ticks,
                end,
                ..
            } => ticks > self.ticks || end > self.moment,
            Note::Mark { event: false, .. } => marks >= self.marks,
            Note::Behind {
                event: false,
                ticks,
                thread,
                mark,
            } => {
                let other = others.get(&thread);
                let is_later = |other: &Self| mark == 0 || mark > other.marks;
                ticks > self.ticks || thread >= self.born || other.is_some_and(is_later)
            }
            _ => false,
        }
    }

    /// How far the thread may run.
    ///
    /// # Errors
    /// It has passed the place.
    pub fn bound(&self, thread: u32, way: &WayToPlace) -> Result<Bound> {
        let (ticks, at) = (self.ticks, self.moment);
        if way.ticks > ticks {
            return Err(Failure::divergence(format!(
                "thread {thread} has passed tick {ticks}, where it stood in front of {:#x} at the end of the epoch",
                self.pc
            )));
        }
        let (step, moment) = way.decided;
        if way.ticks < ticks && way.is_one && step.or(moment).is_none() {
            return Ok(Bound::Tick { ticks, at });
        }
        if way.ticks < ticks {
            return Ok(part(way.behind, way.ticks, (ticks, at), step, moment));
        }
        Ok(match way.at.contains(&self.pc) {
            true => Bound::Place,
            false => Bound::Step { ticks, at },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At tick 50, with 7 operations and 3 marks, where two threads had been made.
    fn place() -> EndPlace {
        EndPlace {
            entries: 10,
            ticks: 50,
            pc: 0x1000,
            ops: 7,
            marks: 3,
            moment: 500,
            born: 2,
        }
    }

    #[test]
    fn notes_of_the_time_behind_a_place_are_told_from_those_before() {
        let event = false;
        let others = BTreeMap::from([
            (0, place()),
            (
                1,
                EndPlace {
                    marks: 4,
                    ..place()
                },
            ),
        ]);
        let is_before = |note| place().is_before(&note, 2, &others);
        let edge = |at| Note::Edge {
            event,
            ticks: 50,
            at,
            thread: 1,
            op: 1,
        };
        assert_eq!([7, 8].map(|at| is_before(edge(at))), [false, true]);
        let behind = |ticks, thread, mark| Note::Behind {
            event,
            ticks,
            thread,
            mark,
        };
        // At the place, a mark that the other thread makes later, or one of a thread that is made later.
        let notes = [(50, 1, 4), (51, 1, 4), (50, 1, 5), (50, 1, 0), (50, 2, 1)];
        let found = notes.map(|(ticks, thread, mark)| is_before(behind(ticks, thread, mark)));
        assert_eq!(found, [false, true, true, true, true]);
        let mark = Note::Mark {
            event,
            ticks: 50,
            pc: 0x1000,
        };
        assert!(!place().is_before(&mark, 2, &others) && place().is_before(&mark, 3, &others));
    }

    #[test]
    fn a_thread_runs_to_its_place_and_no_further() {
        let way = |ticks, pc| WayToPlace {
            ticks,
            at: [pc; 2],
            behind: (40, 400),
            decided: (None, None),
            is_one: true,
        };
        let bound = |ticks, pc| place().bound(0, &way(ticks, pc));
        let at = 500;
        assert_eq!(bound(49, 0x1000).ok(), Some(Bound::Tick { ticks: 50, at }));
        assert_eq!(bound(50, 0xfff).ok(), Some(Bound::Step { ticks: 50, at }));
        assert_eq!(bound(50, 0x1000).ok(), Some(Bound::Place));
        assert!(bound(51, 0x1000).is_err());
    }
}
