//! All short histories of small trees: a cut that is chosen agrees, and one is found whenever there is one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::{FlightCut, FlightTree, ProcessBegins, SleepingCopy};
use crate::image_stream::{CopyPlace, TreeState};
use crate::sharing::processes::Membership;

const PROCESSES: usize = 3;
/// What happens last is wanted alone, or a little more.
const WINDOWS: [u64; 2] = [0, 2];

#[derive(Clone, Copy, Debug)]
enum Act {
    Fork(usize),
    Copy(usize),
    End(usize),
    /// A process begins, or ceases, to be a member of the group that shares memory.
    Share(usize),
    Nothing,
}

/// What has happened to a process, each with the time.
#[derive(Clone, Default, Debug)]
struct Past {
    parent: Option<usize>,
    born: u64,
    /// With the number of changes of the group before.
    copies: Vec<(u64, u32)>,
    ended: Option<(u64, u32)>,
    /// When it was a member, from and up to.
    shares: Vec<(u64, u64)>,
    part: Membership,
}

impl Past {
    fn joins(&mut self, now: u64, changes: u32) {
        self.shares.push((now, u64::MAX));
        let first = match self.part.first {
            0 => changes,
            first => first,
        };
        self.part = Membership {
            member: true,
            first,
            last: changes,
        };
    }

    fn leaves(&mut self, now: u64) {
        self.part.member = false;
        self.shares.last_mut().expect("it is a member").1 = now;
    }

    /// Whether both have been members at a time from `from` on and before `to`.
    fn met(&self, other: &Self, from: u64, to: u64) -> bool {
        let pairs = self.shares.iter().flat_map(|one| {
            let others = other.shares.iter();
            others.map(|two| (one.0.max(two.0).max(from), one.1.min(two.1).min(to)))
        });
        pairs.into_iter().any(|(begin, end)| begin < end)
    }
}

#[derive(Clone, Default, Debug)]
struct History {
    processes: Vec<Past>,
    changes: u32,
    now: u64,
}

impl History {
    fn new() -> Self {
        Self {
            processes: vec![Past::default()],
            ..Self::default()
        }
    }

    fn acts(&self) -> Vec<Act> {
        let mut all = vec![Act::Nothing];
        let members = self.processes.iter().filter(|past| past.part.member);
        let members = members.count();
        for (index, past) in self.processes.iter().enumerate() {
            if past.ended.is_none() {
                all.extend([Act::Share(index), Act::End(index)]);
                all.extend((!past.part.member || members == 1).then_some(Act::Copy(index)));
                all.extend((self.processes.len() < PROCESSES).then_some(Act::Fork(index)));
            }
        }
        all
    }

    fn act(&mut self, act: Act) {
        self.now += 1;
        let now = self.now;
        match act {
            Act::Fork(parent) => {
                let mut child = Past {
                    parent: Some(parent),
                    born: now,
                    ..Past::default()
                };
                if self.processes[parent].part.member {
                    self.changes += 1;
                    child.joins(now, self.changes);
                }
                self.processes.push(child);
            }
            Act::Copy(index) => self.processes[index].copies.push((now, self.changes)),
            Act::End(index) => {
                if self.processes[index].part.member {
                    self.act_of_group(index);
                }
                self.processes[index].ended = Some((now, self.changes));
            }
            Act::Share(index) => self.act_of_group(index),
            Act::Nothing => {}
        }
    }

    fn act_of_group(&mut self, index: usize) {
        self.changes += 1;
        let process = &mut self.processes[index];
        match process.part.member {
            true => process.leaves(self.now),
            false => process.joins(self.now, self.changes),
        }
    }

    /// The ways in which a process may begin at a time at the latest.
    fn ways(&self, index: usize, at: u64) -> Vec<Way> {
        let past = &self.processes[index];
        let copies = past.copies.iter().filter(|(taken, _)| *taken <= at);
        let copies = copies.map(|(taken, met)| Way::Copy(*taken, *met));
        let gone = past.ended.filter(|(when, _)| *when <= at);
        let gone = gone.map(|(_, met)| Way::Gone(met));
        copies.chain(gone).chain([Way::Whole]).collect()
    }

    /// Whether all births of a recording that begins so are there once.
    fn births_agree(&self, ways: &[Way]) -> bool {
        let whole = |index: usize| {
            let past = &self.processes[index];
            past.parent.is_some_and(|parent| match ways[parent] {
                Way::Whole => true,
                Way::Copy(taken, _) => taken < past.born,
                Way::Gone(_) => false,
            })
        };
        (0..ways.len()).all(|index| whole(index) == (ways[index] == Way::Whole))
    }

    /// Whether a recording can begin so: births agree, and no process has written to another one's memory where one of them
    /// is not replayed.
    fn agree(&self, ways: &[Way]) -> bool {
        // What is replayed of a process: from there on.
        let begin = |index: usize| match ways[index] {
            Way::Whole => self.processes[index].born,
            Way::Copy(taken, _) => taken,
            Way::Gone(_) => u64::MAX,
        };
        let meet = |one: usize, two: usize| {
            let (from, to) = (begin(one).min(begin(two)), begin(one).max(begin(two)));
            from != to && self.processes[one].met(&self.processes[two], from, to)
        };
        let mut pairs = (0..ways.len()).flat_map(|one| (0..one).map(move |two| (one, two)));
        let copied = ways.iter().any(|way| way.copied().is_some());
        copied && self.births_agree(ways) && !pairs.any(|(one, two)| meet(one, two))
    }

    /// Whether that is seen by the changes of the group alone.
    fn agrees_plainly(&self, ways: &[Way]) -> bool {
        let met: BTreeSet<u32> = ways.iter().filter_map(Way::copied).collect();
        let gone = |way: &Way| match way {
            Way::Gone(when) => met.iter().all(|met| when <= met),
            _ => true,
        };
        met.len() == 1 && ways.iter().all(gone) && self.births_agree(ways)
    }

    fn is_over(&self, at: u64) -> bool {
        let over = |past: &Past| past.ended.is_some_and(|(when, _)| when <= at);
        self.processes.iter().all(over)
    }

    /// Whether there is a way that is seen plainly.
    fn is_possible(&self, at: u64) -> bool {
        let mut all: Vec<Vec<Way>> = vec![Vec::new()];
        for index in 0..self.processes.len() {
            let longer = |ways: &Vec<Way>| {
                let ways = ways.clone();
                let add = move |way: Way| [ways.clone(), vec![way]].concat();
                self.ways(index, at).into_iter().map(add)
            };
            all = all.iter().flat_map(longer).collect();
        }
        all.iter().any(|ways| self.agrees_plainly(ways))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Whole,
    Copy(u64, u32),
    Gone(u32),
}

impl Way {
    fn copied(&self) -> Option<u32> {
        match self {
            Self::Copy(_, met) => Some(*met),
            Self::Whole | Self::Gone(_) => None,
        }
    }
}

/// The same history, as the supervisor sees it.
struct Seen {
    /// The supervisor asks for all copies.
    asked: bool,
    start: Instant,
    tree: FlightTree,
    taken: Vec<u64>,
}

impl Seen {
    fn new(asked: bool) -> Self {
        let (start, mut tree) = (Instant::now(), FlightTree::default());
        tree.number(1, start);
        tree.born(0, None, start);
        Self {
            asked,
            start,
            tree,
            taken: Vec::new(),
        }
    }

    fn time(&self, now: u64) -> Instant {
        self.start + Duration::from_secs(now)
    }

    fn look(&mut self, act: Act, history: &History) {
        let now = self.time(history.now);
        let processes = history.processes.len() as u32;
        let tree = TreeState {
            order: history.now,
            processes,
            group: history.changes,
            floor: 0,
            files: 0,
            member: false,
        };
        self.tree.number(processes, now);
        match act {
            Act::Fork(parent) => self.tree.born(processes - 1, Some(parent as u32), now),
            Act::Copy(index) => {
                let copy = SleepingCopy {
                    place: CopyPlace::nowhere(self.taken.len() as u32, self.asked),
                    taken: now,
                    work: history.now,
                    tree: TreeState {
                        member: history.processes[index].part.member,
                        ..tree
                    },
                    threads: 1,
                    marks: BTreeMap::new(),
                    files: BTreeSet::new(),
                    apart: 0,
                };
                let left = self.tree.add_copy(index as u32, copy, false);
                assert!(!self.asked || left.is_none());
                self.taken.push(history.now);
            }
            Act::End(_) | Act::Share(_) | Act::Nothing => {}
        }
        let all = history.processes.iter().enumerate();
        let living = all.filter(|(_, past)| past.ended.is_none());
        let living = living.map(|(index, _)| index as u32).collect();
        let membership = |index: u32| history.processes[index as usize].part;
        self.tree
            .look(&living, tree, membership, Duration::ZERO, now);
    }

    /// One act after the other.
    fn all(&mut self, history: &mut History, acts: &[Act]) {
        for act in acts {
            history.act(*act);
            self.look(*act, history);
        }
    }

    fn ways(&self, cut: &FlightCut, history: &History) -> Vec<Way> {
        let way = |index: usize| match cut.get(&(index as u32)) {
            Some(ProcessBegins::Whole) => Way::Whole,
            // It has gone with an earlier cut.
            Some(ProcessBegins::Gone) | None => Way::Gone(0),
            Some(ProcessBegins::AtCopy(_)) => {
                let copy = self.tree.copy(cut, index as u32).expect("there is one");
                Way::Copy(self.taken[copy.place.number()], copy.tree.group)
            }
        };
        (0..history.processes.len()).map(way).collect()
    }
}

fn check(acts: &[Act], trims: bool, window: u64, asked: bool) {
    let (mut history, mut seen, mut trimmed) = (History::new(), Seen::new(asked), false);
    for act in acts {
        history.act(*act);
        seen.look(*act, &history);
        let at = history.now.saturating_sub(window);
        // The recorder has ended before.
        if history.is_over(at) {
            return;
        }
        let cut = seen.tree.choose(seen.time(at), true);
        let told = || format!("{acts:?} at {at}: {cut:?} of {history:?}");
        // Of copies that were made unasked the last one is there, and that with which the tapes begin.
        assert!(
            !asked || cut.is_some() || !history.is_possible(at),
            "{}",
            told()
        );
        let Some(cut) = &cut else {
            assert!(!trimmed, "what was there is gone: {}", told());
            continue;
        };
        let ways = seen.ways(cut, &history);
        assert!(history.agree(&ways), "{ways:?}: {}", told());
        if trims {
            seen.tree.trim(cut);
            trimmed = true;
        }
    }
}

fn explore(acts: &mut Vec<Act>, history: &History, left: usize) {
    if left == 0 {
        for window in WINDOWS {
            check(acts, false, window, true);
            check(acts, true, window, true);
            check(acts, true, window, false);
        }
        return;
    }
    for act in history.acts() {
        let mut later = history.clone();
        later.act(act);
        acts.push(act);
        explore(acts, &later, left - 1);
        acts.pop();
    }
}

/// A process that sleeps for ever holds nobody who has children that share its memory, one after the other.
#[test]
fn one_that_never_shares_is_cut_where_it_was() {
    let (mut seen, mut history) = (Seen::new(true), History::new());
    let acts = [
        Act::Fork(0),
        Act::Copy(0),
        Act::Share(1),
        Act::Fork(1),
        Act::End(2),
        Act::Copy(1),
        Act::Nothing,
    ];
    seen.all(&mut history, &acts);
    let cut = seen.tree.choose(seen.time(history.now), true);
    let cut = cut.expect("no process has seen what another one does");
    let ways = seen.ways(&cut, &history);
    assert!(history.agree(&ways));
    assert_eq!(ways[1], Way::Copy(6, 3));
}

/// The program ends soon behind the end of a recording, with which its past was forgotten.
#[test]
fn processes_that_have_ended_begin_with_copies_from_behind_a_time() {
    let (mut seen, mut history) = (Seen::new(true), History::new());
    let acts = [Act::Nothing, Act::Copy(0), Act::Copy(0), Act::End(0)];
    seen.all(&mut history, &acts);
    let at = seen.time(1);
    assert_eq!(seen.tree.choose(at, true), None);
    assert_eq!(seen.tree.choose(at, false), None);
    let cut = seen.tree.choose_behind(at).expect("there are copies");
    let ways = seen.ways(&cut, &history);
    assert!(
        history.agree(&ways) && ways == [Way::Copy(2, 0)],
        "{ways:?}"
    );
    assert_eq!(seen.tree.choose_behind(seen.time(3)), None);
}

#[test]
fn copies_agree_whatever_happens() {
    explore(&mut Vec::new(), &History::new(), 6);
}

/// What a process wrote that begins with its birth would be written once more, to memory as it was later.
#[test]
fn a_child_whose_writes_are_in_another_ones_copy_does_not_begin_as_a_whole() {
    let acts = [
        Act::Fork(0),
        Act::Copy(0),
        Act::Fork(0),
        Act::Share(1),
        Act::Share(2),
        Act::Share(2),
        Act::Copy(1),
    ];
    check(&acts, false, 0, true);
}

#[test]
fn a_process_without_its_first_event_holds_the_others() {
    let mut seen = Seen::new(true);
    let mut history = History::new();
    history.act(Act::Nothing);
    history.processes.push(Past::default());
    seen.tree.number(2, seen.time(1));
    history.act(Act::Copy(0));
    seen.look(Act::Copy(0), &history);
    assert_eq!(seen.tree.choose(seen.time(5), true), None);
    seen.tree.born(1, Some(0), seen.time(6));
    history.act(Act::Copy(1));
    seen.look(Act::Copy(1), &history);
    let cut = seen.tree.choose(seen.time(9), true).expect("both have one");
    assert_eq!(seen.tree.lacks(&cut), (2, 3));
    // One that has died before its first event holds nobody for ever.
    seen.tree.number(3, seen.time(10));
    history.processes.push(Past::default());
    history.now = 11;
    history.act(Act::Copy(0));
    seen.look(Act::Copy(0), &history);
    let last = |seen: &Seen| {
        let cut = seen.tree.choose(seen.time(99), true).expect("an older one");
        seen.tree.copy(&cut, 0).expect("it is there").tree.order
    };
    assert_eq!(last(&seen), 2);
    history.now = 30;
    seen.look(Act::Nothing, &history);
    assert_eq!(last(&seen), 12);
}

#[test]
fn a_copy_of_a_process_that_has_gone_holds_nobody() {
    let (mut seen, mut history) = (Seen::new(true), History::new());
    seen.all(
        &mut history,
        &[Act::Fork(0), Act::End(1), Act::Copy(0), Act::Nothing],
    );
    let at = seen.time(history.now);
    let cut = seen.tree.choose(at, true).expect("there is a copy");
    let late = seen.tree.copy(&cut, 0).expect("it is there").clone();
    seen.tree.trim(&cut);
    assert!(
        seen.tree.add_copy(1, late.clone(), false).is_some(),
        "nobody needs it"
    );
    assert!(seen.tree.choose(at, true).is_some(), "it holds the others");
    // One whose first event has not been read yet is taken.
    assert_eq!(seen.tree.add_copy(2, late, false), None);
}

/// Copies are processes of their own: which one tells of itself first is a matter of time.
#[test]
fn a_copy_that_is_told_late_does_not_go_back() {
    let (began, tree) = (
        Instant::now(),
        TreeState {
            order: 0,
            processes: 1,
            group: 0,
            floor: 0,
            files: 0,
            member: false,
        },
    );
    let mut tree_of = FlightTree::default();
    tree_of.number(1, began);
    tree_of.born(0, None, began);
    let copy = |work: u64| SleepingCopy {
        place: CopyPlace::nowhere(work as u32, true),
        taken: began,
        work,
        tree,
        threads: 1,
        marks: BTreeMap::new(),
        files: BTreeSet::new(),
        apart: 0,
    };
    assert_eq!(tree_of.add_copy(0, copy(5), false), None);
    assert_eq!(tree_of.add_copy(0, copy(9), false), None);
    assert!(
        tree_of.add_copy(0, copy(7), false).is_some(),
        "a later one is known"
    );
    let cut = tree_of.choose(Instant::now(), true).expect("it has copies");
    assert_eq!(cut, FlightCut::from([(0, ProcessBegins::AtCopy(1))]));
    assert_eq!(tree_of.trim(&cut).len(), 1);
    tree_of.drop_dead(|_| false);
    assert!(
        tree_of.add_copy(0, copy(8), false).is_some(),
        "what follows it has gone"
    );
    assert_eq!(tree_of.add_copy(0, copy(9), false), None);
}
