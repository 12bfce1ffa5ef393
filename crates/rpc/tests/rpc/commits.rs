//! A model of how lanes tell the writer of their records, explored exhaustively: what a commit says of the tape holds
//! wherever each thread was interrupted.
//!
//! Two tasks append to two lanes; the writer makes passes (the library's `lane` and `writer`). A step is one operation
//! on what is shared; the records of a lane are changed under its lock.

use std::collections::BTreeSet;

type Epoch = u8;

/// The records of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Record {
    /// The lane depends on a peer's records from here on.
    Depends,
    /// Of a task that knows of the peer's records.
    Earlier,
    /// Of another one, to the same lane.
    Later,
    /// Of the same one, to the other lane.
    Last,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Message {
    Records(usize),
    Pass,
}

/// When a task sends its lane's message.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sends {
    UnderTheLock,
    /// The lane counts as told, and others go by that.
    BehindTheLock,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Lane {
    records: Vec<(Epoch, Record)>,
    told: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    epoch: Epoch,
    lanes: [Lane; 2],
    queue: Vec<Message>,
    /// The dependence on the peer counts as noted.
    known: bool,
    tape: BTreeSet<(Epoch, Record)>,
    committed: Option<Epoch>,
    /// Of the tasks and the writer: the next step.
    at: [u8; 3],
    /// The lane that a task has locked, and the epoch that it read then.
    locked: [Option<(usize, Epoch)>; 2],
    /// A message that a task has still to send.
    owes: [Option<usize>; 2],
    /// The writer's pass commits so far.
    before: Epoch,
}

/// Passes of the writer.
const PASSES: u8 = 3;

impl State {
    fn is_locked(&self, lane: usize) -> bool {
        self.locked.iter().flatten().any(|(of, _)| *of == lane)
    }

    fn append(&mut self, task: usize, records: &[Record], sends: Sends) {
        let (lane, epoch) = self.locked[task].take().expect("it has a lane");
        let Lane { records: all, told } = &mut self.lanes[lane];
        all.extend(records.iter().map(|record| (epoch, *record)));
        if !std::mem::replace(told, true) {
            match sends {
                Sends::UnderTheLock => self.queue.push(Message::Records(lane)),
                Sends::BehindTheLock => self.owes[task] = Some(lane),
            }
        }
    }

    /// The task's next step; false if it has none, or waits.
    fn task(&mut self, task: usize, sends: Sends) -> bool {
        if let Some(lane) = self.owes[task].take() {
            self.queue.push(Message::Records(lane));
            return true;
        }
        let (lane, records): (_, &[Record]) = match (task, self.at[task]) {
            (0, 0) => (0, &[Record::Depends, Record::Earlier]),
            (1, 0) => (0, &[Record::Later]),
            (1, 1) if self.known => (1, &[Record::Last]),
            _ => return false,
        };
        if self.locked[task].is_some() {
            self.append(task, records, sends);
            self.known |= task == 0;
            self.at[task] += 1;
        } else if self.is_locked(lane) {
            return false;
        } else {
            self.locked[task] = Some((lane, self.epoch));
        }
        true
    }

    fn writer(&mut self) -> bool {
        match self.at[2] % 3 {
            _ if self.at[2] == 3 * PASSES => return false,
            0 => {
                self.before = self.epoch;
                self.epoch += 1;
            }
            1 => self.queue.push(Message::Pass),
            _ => match self.queue.remove(0) {
                Message::Records(lane) if self.is_locked(lane) => return false,
                Message::Records(lane) => {
                    let lane = &mut self.lanes[lane];
                    lane.told = false;
                    self.tape.extend(lane.records.drain(..));
                    return true;
                }
                Message::Pass => self.committed = Some(self.before),
            },
        }
        self.at[2] += 1;
        true
    }

    /// What a reader would take, if the process were killed here: each with the records that it depends on.
    fn is_closed(&self) -> bool {
        let read = |record: Record| {
            let all = self.tape.iter();
            all.filter(|(epoch, _)| Some(*epoch) <= self.committed)
                .find_map(|(epoch, found)| (*found == record).then_some(*epoch))
        };
        let Some(last) = read(Record::Last) else {
            return true;
        };
        read(Record::Later).is_some()
            && read(Record::Depends).is_some_and(|depends| depends <= last)
    }
}

/// All states that interleavings lead to; says whether each is closed, and how many there are.
fn explore(sends: Sends) -> (bool, usize) {
    let mut seen = BTreeSet::new();
    let mut todo = vec![State::default()];
    let mut closed = true;
    while let Some(state) = todo.pop() {
        if !seen.insert(state.clone()) {
            continue;
        }
        closed &= state.is_closed();
        for thread in 0..3 {
            let mut next = state.clone();
            let steps = match thread {
                2 => next.writer(),
                task => next.task(task, sends),
            };
            if steps {
                todo.push(next);
            }
        }
    }
    (closed, seen.len())
}

#[test]
fn a_commit_has_all_that_its_records_depend_on() {
    let (closed, states) = explore(Sends::UnderTheLock);
    assert!(closed && states > 100, "{states} states");
}

/// The order of steps that lost records, so that the model would find it again.
#[test]
fn a_message_behind_the_lock_is_a_counterexample() {
    assert!(!explore(Sends::BehindTheLock).0);
}
