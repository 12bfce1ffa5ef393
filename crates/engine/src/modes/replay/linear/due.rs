//! The turns that are found: which thread is due, and the exact schedule.

use std::collections::{BTreeMap, BTreeSet};

use relive_host::GuestAddr;

use super::bound::{Bound, bound};
use super::exact_turns::ExactTurns;
use super::first_moments::FirstMoments;
use super::hints::{Hints, What};
use super::wanted::hints;
use crate::failure::Result;
use crate::machine::Machine;
use crate::tape::Tape;
use crate::task::Task;

/// The turns of one process, as they are found.
pub struct Linear {
    /// The exact schedule.
    schedule: ExactTurns,
    /// Threads that there have been.
    seen: BTreeSet<u32>,
    /// Threads that stand in front of their next event.
    waiting: BTreeSet<u32>,
    /// Threads that have nothing left to do.
    over: BTreeSet<u32>,
    /// The decisions of a search.
    hints: Hints,
    /// The thread that has left the recording, if it is not the running one.
    pub blamed: Option<u32>,
    /// The process has executed another program.
    pub executed: bool,
    /// Where threads without the turn stand: steps since the last tick or event.
    steps: BTreeMap<u32, u64>,
    /// When threads began.
    first_moments: FirstMoments,
}

impl Linear {
    /// Of a process, if this replay linearises.
    ///
    /// # Errors
    /// The hints are none.
    pub fn of(machine: &'static Machine, process: u32) -> Result<Option<Self>> {
        let Some(schedule) = ExactTurns::of(machine, process) else {
            return Ok(None);
        };
        Ok(Some(Self {
            schedule,
            seen: BTreeSet::new(),
            waiting: BTreeSet::new(),
            over: BTreeSet::new(),
            hints: hints()?,
            blamed: None,
            executed: false,
            steps: BTreeMap::new(),
            first_moments: FirstMoments::default(),
        }))
    }

    /// Other decisions are followed from here on.
    pub fn follow(&mut self, hints: Hints) {
        self.hints = hints;
    }

    /// A new program begins, with one thread.
    pub fn begin_program(&mut self) {
        self.executed = true;
        self.seen.clear();
        self.waiting.clear();
        self.over.clear();
        self.steps.clear();
    }

    /// The thread stands in front of its next event.
    pub fn waits(&mut self, slot: u32) {
        self.waiting.insert(slot);
    }

    /// The thread's next event happens.
    pub fn goes_on(&mut self, slot: u32) {
        self.waiting.remove(&slot);
    }

    /// The thread has nothing left to do.
    pub fn is_over(&mut self, slot: u32) {
        self.over.insert(slot);
    }

    /// No thread is due: one in the circle has gone wrong before, most likely one that has come to its event without
    /// an operation that another one waits for.
    pub fn blame(&mut self, dues: &BTreeMap<u32, Due>) {
        let circle = circle(dues);
        let at_event = circle.iter().find(|slot| self.waiting.contains(slot));
        self.blamed = at_event.or(circle.first()).copied();
    }

    /// The thread gives its turn up so many steps behind its last tick or event.
    pub fn leaves(&mut self, slot: u32, steps: u64) {
        self.steps.insert(slot, steps);
    }

    /// The tick from which on a thread waits for its operation `at` to be due, if a search has decided that.
    pub fn waits_from(&self, task: &Task, at: u64) -> Option<u64> {
        let (process, thread) = (task.process.index, task.index);
        self.hints.at(process, thread, What::Operation(at))
    }

    /// The thread gets a turn. Its steps since its last tick or event.
    ///
    /// # Errors
    /// No room for the schedule.
    pub fn turn(&mut self, slot: u32) -> Result<u64> {
        self.schedule.found(slot)?;
        Ok(self.steps.remove(&slot).unwrap_or(0))
    }

    /// The program, or the process, ends.
    pub fn end_program(&self) {
        self.schedule.tell_found();
    }

    /// Whether these threads, and the one that runs, have nothing left to do.
    pub fn all_over(&self, others: &BTreeMap<u32, Box<Task>>) -> bool {
        others.keys().all(|slot| self.over.contains(slot))
    }

    /// The recorded turns decide from here on: the schedule that they are copied to.
    pub fn into_schedule(self) -> ExactTurns {
        self.schedule.tell_found();
        self.schedule
    }

    /// How far a thread may run, and when it is due: the first of all threads goes first.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn due(
        &mut self,
        task: &mut Task,
        others: &BTreeMap<u32, Box<Task>>,
        running: Option<&Task>,
    ) -> Result<(Bound, Due)> {
        let slot = task.slot;
        self.seen.insert(slot);
        let seen = &self.seen;
        let is_made = |thread: u32, op: u64| {
            let there = others.get(&thread).map(|task| task.ctx.ops);
            let runs = running
                .filter(|task| task.slot == thread)
                .map(|t| t.ctx.ops);
            match there.or(runs) {
                Some(ops) => ops >= op,
                // It has ended with all that it did.
                None => seen.contains(&thread),
            }
        };
        let (process, thread) = (task.process.index, task.index);
        let hint = |what| self.hints.at(process, thread, what);
        let far = bound(task, &is_made, &hint)?;
        let due = match far {
            _ if self.over.contains(&slot) => Due::Never,
            Bound::Tick { at, .. } => Due::At(at),
            Bound::Operation {
                ticks,
                at,
                after,
                since,
            } => {
                // Plain loads that belong to the operation mostly saw the other one: the thread waits in front
                // of them.
                let (tick, made) = (task.ctx.ticks(), task.ctx.ops);
                let waits = made + 1 == at
                    && match hint(What::Operation(at)) {
                        None => tick == ticks,
                        Some(from) if from <= ticks => tick >= from,
                        Some(_) => tick == ticks && is_next(task)?,
                    };
                match waits {
                    true => Due::After(after, since),
                    false => Due::At(since),
                }
            }
            Bound::Event {
                begin,
                end,
                after,
                made,
                ..
            } if self.waiting.contains(&slot) => {
                let moments = match &task.tape {
                    Tape::In(tape) => tape.moments,
                    _ => 0,
                };
                let (at, decided) = match hint(What::Event(moments)) {
                    None => (self.end_of_event(process, made, end)?, false),
                    Some(1) => (begin, false),
                    Some(later) => (later, true),
                };
                match after {
                    Some(after) => Due::After(after, at),
                    None if decided => Due::NotBefore(at),
                    None => Due::At(at),
                }
            }
            Bound::Event {
                begin,
                after: Some(other),
                changed: true,
                ..
            } => Due::Ahead(other, begin),
            Bound::Event { begin, .. } => Due::At(begin),
            Bound::End => Due::At(u64::MAX),
        };
        Ok((far, due))
    }

    /// The end of an event; of a call that has made a thread, no later than that one began.
    fn end_of_event(&mut self, process: u32, made: Option<(u32, u32)>, end: u64) -> Result<u64> {
        let began = match made {
            Some(thread) => self.first_moments.began(process, thread)?,
            None => None,
        };
        Ok(began.map_or(end, |began| began.min(end)))
    }
}

/// When a thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// At this moment, or when others need it before.
    At(u64),
    /// At this moment, even if others need it before.
    NotBefore(u64),
    /// When this thread has gone on, which should have been at this moment.
    After(u32, u64),
    /// At this moment, and before this thread goes on.
    Ahead(u32, u64),
    /// It has nothing left to do.
    Never,
}

/// The thread that goes on first. One for which others wait is due when they are.
pub fn first(dues: &BTreeMap<u32, Due>) -> Option<u32> {
    let mut at: BTreeMap<u32, u64> = BTreeMap::new();
    for (&slot, &due) in dues {
        match due {
            Due::At(moment) | Due::NotBefore(moment) | Due::Ahead(_, moment) => {
                let there = at.entry(slot).or_insert(moment);
                *there = moment.min(*there);
            }
            Due::After(thread, moment) => {
                let mut awaited = thread;
                // Each thread is passed once at most, or they wait for each other.
                for _ in 0..dues.len() {
                    match dues.get(&awaited) {
                        Some(Due::After(next, _)) => awaited = *next,
                        Some(Due::At(_) | Due::Ahead(..)) => {
                            let there = at.entry(awaited).or_insert(moment);
                            *there = moment.min(*there);
                            break;
                        }
                        _ => break,
                    }
                }
            }
            Due::Never => {}
        }
    }
    let first = at.into_iter().min_by_key(|&(slot, moment)| (moment, slot));
    let (first, _) = first?;
    // Two that are ahead of each other go in the order of their moments.
    let ahead = dues
        .iter()
        .find(|(_, due)| matches!(due, Due::Ahead(other, _) if *other == first));
    let is_ahead = matches!(dues.get(&first), Some(Due::Ahead(..)));
    Some(ahead.filter(|_| !is_ahead).map_or(first, |(&slot, _)| slot))
}

/// Threads that wait for each other.
fn circle(dues: &BTreeMap<u32, Due>) -> Vec<u32> {
    let next = |slot| match dues.get(&slot) {
        Some(Due::After(thread, _)) => Some(*thread),
        _ => None,
    };
    for &slot in dues.keys() {
        let mut way = vec![slot];
        while let Some(thread) = next(way[way.len() - 1]) {
            if thread == slot {
                return way;
            }
            if way.contains(&thread) {
                break;
            }
            way.push(thread);
        }
    }
    Vec::new()
}

/// Whether the thread's next instruction is an ordered one.
fn is_next(task: &Task) -> Result<bool> {
    let pc = GuestAddr(task.ctx.rip);
    let mut memory = task.machine().memory();
    memory.with_code(false, |translator, code| translator.is_ordered_at(code, pc))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes_first(dues: &[(u32, Due)]) -> Option<u32> {
        first(&dues.iter().copied().collect())
    }

    #[test]
    fn the_thread_that_was_there_first_goes_first() {
        assert_eq!(goes_first(&[(0, Due::At(7)), (1, Due::At(5))]), Some(1));
        assert_eq!(goes_first(&[(0, Due::At(5)), (1, Due::At(5))]), Some(0));
        assert_eq!(goes_first(&[(0, Due::Never), (1, Due::At(5))]), Some(1));
        assert_eq!(goes_first(&[(0, Due::Never)]), None);
    }

    #[test]
    fn a_thread_that_others_wait_for_is_due_when_they_are() {
        let dues = [(0, Due::After(2, 1)), (1, Due::At(5)), (2, Due::At(9))];
        assert_eq!(goes_first(&dues), Some(2));
        // Through a thread that waits itself.
        let dues = [
            (0, Due::After(1, 1)),
            (1, Due::After(3, 8)),
            (2, Due::At(5)),
            (3, Due::At(9)),
        ];
        assert_eq!(goes_first(&dues), Some(3));
        // But for one that a search lets wait.
        let dues = [
            (0, Due::After(2, 1)),
            (1, Due::At(5)),
            (2, Due::NotBefore(9)),
        ];
        assert_eq!(goes_first(&dues), Some(1));
        // One that is not there yet cannot be waited for.
        let dues = [(0, Due::After(7, 1)), (1, Due::At(5))];
        assert_eq!(goes_first(&dues), Some(1));
    }

    #[test]
    fn a_thread_comes_to_its_call_ahead_of_the_change_that_the_call_finds() {
        let dues = [(0, Due::At(5)), (1, Due::Ahead(0, 9)), (2, Due::At(7))];
        assert_eq!(goes_first(&dues), Some(1));
        let dues = [(0, Due::At(5)), (1, Due::Ahead(2, 9)), (2, Due::At(7))];
        assert_eq!(goes_first(&dues), Some(0));
        let dues = [(0, Due::Ahead(1, 5)), (1, Due::Ahead(0, 4))];
        assert_eq!(goes_first(&dues), Some(1));
    }

    #[test]
    fn threads_that_wait_for_each_other_are_not_due() {
        assert_eq!(
            goes_first(&[(0, Due::After(1, 1)), (1, Due::After(0, 1))]),
            None
        );
        let dues = [
            (0, Due::After(1, 1)),
            (1, Due::After(3, 1)),
            (2, Due::Never),
            (3, Due::After(1, 7)),
        ];
        assert_eq!(circle(&dues.into_iter().collect()), [1, 3]);
    }
}
