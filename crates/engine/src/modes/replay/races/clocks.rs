//! The vector clocks of a process: the knowledge of each thread of the others, and the knowledge behind each object that
//! threads synchronise by. The routine in translated code moves the running thread's clock by itself
//! ([`Lines`]), so each change here settles with it first. Must know no access to memory.

use std::collections::HashMap;

use relive_host::track::lines::{Held, Lines};

use super::clock::VectorClock;
use super::shadow::Mixed;
use super::touch::{SyncObject, Use};

/// A thread.
struct Runner {
    clock: VectorClock,
    /// Stands for all that it knows of others: another number whenever it learns anything.
    stamp: u64,
    /// Index in the recording.
    index: u32,
}

/// The knowledge behind an object.
#[derive(Default)]
struct SharedClock {
    /// Moved on by the routine as well: the time of [`SharedClock::by`].
    held: Held,
    by: usize,
    clock: VectorClock,
}

impl SharedClock {
    /// Takes in the routine's changes.
    fn settle(&mut self) {
        if self.held.stamp != 0 {
            self.clock.reach(self.by, self.held.time);
        }
    }
}

/// The clocks of all threads and objects.
#[derive(Default)]
pub struct Clocks {
    runners: Vec<Runner>,
    numbers: HashMap<(u32, u32), usize>,
    current: usize,
    stamps: u64,
    objects: Mixed<SyncObject, Box<SharedClock>>,
    /// What threads knew at their marks, by their numbers and those of the marks.
    marks: HashMap<(usize, u64), VectorClock>,
    /// Accesses that the routine settles by itself; its time is that of the running thread.
    pub lines: Lines,
}

impl Clocks {
    /// Threads that ran.
    pub fn threads(&self) -> usize {
        self.runners.len()
    }

    /// The running thread's number and clock, if any thread ran.
    #[inline]
    pub fn now(&self) -> Option<(usize, &VectorClock)> {
        let runner = self.runners.get(self.current)?;
        Some((self.current, &runner.clock))
    }

    /// The index in the recording of a thread with this number.
    pub fn index(&self, number: usize) -> u32 {
        self.runners[number].index
    }

    /// The index in the recording of the running thread.
    #[inline]
    pub fn running(&self) -> Option<u32> {
        self.runners.get(self.current).map(|runner| runner.index)
    }

    /// The clock of the running thread moves to where the routine has moved it.
    #[inline]
    pub fn settle(&mut self) {
        let time = self.lines.now().time;
        if let Some(runner) = self.runners.get_mut(self.current) {
            runner.clock.reach(self.current, time);
        }
    }

    /// Tells the routine of the running thread's clock.
    #[inline]
    pub fn publish(&mut self) {
        if let Some(runner) = self.runners.get(self.current) {
            let now = self.lines.now_mut();
            now.time = runner.clock.of(self.current);
            now.stamp = runner.stamp;
        }
    }

    fn stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
    }

    /// The thread that runs from now on, by process and index. One that was not seen before
    /// was made by the one that ran up to now.
    pub fn run(&mut self, process: u32, index: u32) {
        self.settle();
        let number = self.number(process, index);
        if number != self.current {
            self.current = number;
            self.lines.forget();
        }
        self.publish();
    }

    /// A thread has been made by the running one.
    pub fn born(&mut self, process: u32, index: u32) {
        self.settle();
        self.number(process, index);
        self.publish();
    }

    fn number(&mut self, process: u32, index: u32) -> usize {
        if let Some(number) = self.numbers.get(&(process, index)) {
            return *number;
        }
        let number = self.runners.len();
        let mut clock = VectorClock::default();
        if let Some(maker) = self.runners.get_mut(self.current) {
            clock.join(&maker.clock);
            maker.clock.advance(self.current);
        }
        clock.advance(number);
        let stamp = self.stamp();
        self.runners.push(Runner {
            clock,
            stamp,
            index,
        });
        self.numbers.insert((process, index), number);
        number
    }

    /// The running thread learns of all that another one has done.
    pub fn learn_from(&mut self, process: u32, index: u32) {
        self.settle();
        let other = self.number(process, index);
        let theirs = self.runners[other].clock.clone();
        self.runners[other].clock.advance(other);
        let stamp = self.stamp();
        let runner = &mut self.runners[self.current];
        runner.clock.join(&theirs);
        runner.stamp = stamp;
        self.publish();
    }

    /// A thread passes one of its marks.
    pub fn passes_mark(&mut self, (process, index): (u32, u32), mark: u64) {
        self.settle();
        let number = self.number(process, index);
        let runner = &mut self.runners[number];
        self.marks.insert((number, mark), runner.clock.clone());
        runner.clock.advance(number);
        self.publish();
    }

    /// A thread goes on behind a mark of another one, or its end (0).
    pub fn comes_behind(&mut self, thread: (u32, u32), other: (u32, u32), mark: u64) {
        self.settle();
        let (number, other) = (
            self.number(thread.0, thread.1),
            self.number(other.0, other.1),
        );
        let theirs = match mark {
            0 => Some(&self.runners[other].clock),
            mark => self.marks.get(&(other, mark)),
        };
        if let Some(theirs) = theirs.cloned() {
            let stamp = self.stamp();
            let runner = &mut self.runners[number];
            runner.clock.join(&theirs);
            runner.stamp = stamp;
        }
        self.publish();
    }

    /// The running thread and all others learn of each other.
    pub fn barrier(&mut self) {
        self.settle();
        let mut all = VectorClock::default();
        for runner in &self.runners {
            all.join(&runner.clock);
        }
        for (number, runner) in self.runners.iter_mut().enumerate() {
            self.stamps += 1;
            runner.stamp = self.stamps;
            runner.clock.join(&all);
            runner.clock.advance(number);
        }
        self.publish();
    }

    /// The running thread uses an object.
    pub fn uses(&mut self, object: SyncObject, how: Use) {
        self.settle();
        self.act_on(object, how);
        self.publish();
    }

    /// The same between [`Clocks::settle`] and [`Clocks::publish`]. How the object is held now, if it is.
    pub fn act_on(&mut self, object: SyncObject, how: Use) -> Option<&mut Held> {
        let runner = &mut self.runners[self.current];
        let shared = match how {
            Use::Acquire => self.objects.get_mut(&object)?,
            _ => self.objects.entry(object).or_default(),
        };
        shared.settle();
        if how != Use::Release && runner.clock.join(&shared.clock) {
            self.stamps += 1;
            runner.stamp = self.stamps;
        }
        if how == Use::Acquire {
            return None;
        }
        shared.clock.join(&runner.clock);
        shared.by = self.current;
        shared.held = match how {
            // Its knowledge is the thread's.
            Use::Both => Held {
                stamp: runner.stamp,
                time: runner.clock.of(self.current),
            },
            _ => Held::default(),
        };
        runner.clock.advance(self.current);
        Some(&mut shared.held)
    }
}
