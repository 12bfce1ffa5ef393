//! The notes of a thread's course in front of its next event, with an index: there may be many thousands, and a thread
//! that follows them looks at the next of a kind at each of its stops. Must never change what they say or their order.

use std::collections::VecDeque;

use crate::course::{Following, Note};

/// Notes in the order of the tape.
#[derive(Debug, Default)]
pub struct CourseNotes {
    queue: VecDeque<Note>,
    /// Notes that have been taken off the front.
    passed: u64,
    /// The numbers of the moments among those that are left.
    moments: VecDeque<u64>,
    /// The same, of the operations of instructions. Their numbers ascend.
    operations: VecDeque<u64>,
    /// The same, of the marks of instructions, and of what comes behind those of other threads.
    marks: VecDeque<u64>,
}

impl CourseNotes {
    /// Adds one at the end.
    pub fn push_back(&mut self, note: Note) {
        let number = self.passed + self.queue.len() as u64;
        match note {
            Note::Moment { .. } => self.moments.push_back(number),
            Note::Edge { event: false, .. } => self.operations.push_back(number),
            Note::Mark { event: false, .. } | Note::Behind { event: false, .. } => {
                self.marks.push_back(number);
            }
            _ => {}
        }
        self.queue.push_back(note);
    }

    /// Takes the first one off.
    pub fn pop_front(&mut self) {
        if self.queue.pop_front().is_none() {
            return;
        }
        self.passed += 1;
        for numbers in [&mut self.moments, &mut self.operations, &mut self.marks] {
            if numbers.front().is_some_and(|&first| first < self.passed) {
                numbers.pop_front();
            }
        }
    }

    /// The first one.
    #[must_use]
    pub fn front(&self) -> Option<&Note> {
        self.queue.front()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Note> {
        self.queue.iter()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes them all off.
    pub fn take(&mut self) -> VecDeque<Note> {
        std::mem::take(self).queue
    }

    /// Lets `f` take some off anywhere.
    pub fn edit<R>(&mut self, f: impl FnOnce(&mut VecDeque<Note>) -> R) -> R {
        let before = self.queue.len();
        let result = f(&mut self.queue);
        if self.queue.len() != before {
            for note in self.take() {
                self.push_back(note);
            }
        }
        result
    }

    fn get(&self, number: u64) -> Option<&Note> {
        self.queue.get((number - self.passed) as usize)
    }

    /// The first moment: its tick, when it began and when it was over.
    #[must_use]
    pub fn next_moment(&self) -> Option<(u64, u64, u64)> {
        match self.get(*self.moments.front()?)? {
            Note::Moment {
                ticks, begin, end, ..
            } => Some((*ticks, *begin, *end)),
            _ => None,
        }
    }

    /// The first mark of an instruction, or what comes behind one, and whether nothing is in front of it.
    #[must_use]
    pub fn next_mark(&self) -> Option<(Note, bool)> {
        let number = *self.marks.front()?;
        Some((*self.get(number)?, number == self.passed))
    }

    /// The operations of instructions that follow those of other threads, each with the tick in front of it.
    pub fn operations(&self) -> impl Iterator<Item = (u64, Following)> {
        self.operations_from(0)
    }

    /// The same, behind the thread's operation `at`.
    pub fn operations_behind(&self, at: u64) -> impl Iterator<Item = (u64, Following)> {
        let is_before =
            |&number: &u64| matches!(self.get(number), Some(Note::Edge { at: a, .. }) if *a <= at);
        self.operations_from(self.operations.partition_point(is_before))
    }

    fn operations_from(&self, first: usize) -> impl Iterator<Item = (u64, Following)> {
        let numbers = self.operations.range(first..);
        numbers.filter_map(|&number| match *self.get(number)? {
            Note::Edge {
                ticks,
                at,
                thread,
                op,
                ..
            } => Some((ticks, Following { at, thread, op })),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moment(ticks: u64) -> Note {
        Note::Moment {
            event: false,
            ticks,
            begin: ticks,
            end: ticks + 1,
        }
    }

    fn edge(event: bool, at: u64) -> Note {
        Note::Edge {
            event,
            ticks: 10 * at,
            at,
            thread: 3,
            op: at,
        }
    }

    fn mark(ticks: u64) -> Note {
        Note::Mark {
            event: false,
            ticks,
            pc: 0,
        }
    }

    proptest! {
        /// The index finds what a walk over all of them finds.
        #[test]
        fn the_index_is_that_of_the_notes(
            kinds in prop::collection::vec(0..5u8, 0..60),
            popped in 0usize..60,
            removed in 0usize..60,
            behind in 0u64..60,
        ) {
            let mut notes = CourseNotes::default();
            for (i, kind) in (0..).zip(&kinds) {
                notes.push_back(match kind {
                    0 => moment(i),
                    1 | 2 => edge(*kind == 1, i / 2),
                    3 => mark(i),
                    _ => Note::Written { sum: i },
                });
            }
            for _ in 0..popped {
                notes.pop_front();
            }
            notes.edit(|queue| _ = queue.remove(removed));
            let all: Vec<Note> = notes.iter().copied().collect();
            prop_assert_eq!(notes.is_empty(), all.is_empty());
            let moments = all.iter().find_map(|note| match *note {
                Note::Moment { ticks, begin, end, .. } => Some((ticks, begin, end)),
                _ => None,
            });
            prop_assert_eq!(notes.next_moment(), moments);
            let marks = all.iter().position(|note| matches!(note, Note::Mark { .. }));
            prop_assert_eq!(notes.next_mark(), marks.map(|at| (all[at], at == 0)));
            let operations = |behind: Option<u64>| -> Vec<u64> {
                let own = all.iter().filter_map(|note| match *note {
                    Note::Edge { event: false, at, .. } => Some(at),
                    _ => None,
                });
                own.filter(|&at| behind.is_none_or(|behind| at > behind)).collect()
            };
            let at = |(_, following): (u64, Following)| following.at;
            prop_assert_eq!(notes.operations().map(at).collect::<Vec<_>>(), operations(None));
            let found = notes.operations_behind(behind).map(at).collect::<Vec<_>>();
            prop_assert_eq!(found, operations(Some(behind)));
        }
    }
}
