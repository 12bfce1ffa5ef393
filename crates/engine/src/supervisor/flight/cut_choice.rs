//! The processes of a flight recording, their copies, and which copies agree: a recording can begin with one copy of each
//! process if a child is made by the part that follows its parent's copy, or has a copy itself, and never both. Must
//! never choose copies between which a process has written to the memory of another one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use relive_trace::{FileId, TapeId, TapeMark};

use crate::image_stream::{CopyPlace, TreeState};
use crate::sharing::processes::Membership;

/// A process that has a number is born within this time, or has died before its first event.
const BIRTH: Duration = Duration::from_secs(10);

/// A copy of a process that sleeps.
#[derive(Clone, Debug)]
pub struct SleepingCopy {
    /// Where it gets its orders.
    pub place: CopyPlace,
    /// When it was made, or a little later.
    pub taken: Instant,
    /// How far its process was.
    pub work: u64,
    /// How far the tree was.
    pub tree: TreeState,
    /// The process's threads have indexes below this one; those above began later.
    pub threads: u32,
    /// Where the process's tapes go on.
    pub marks: BTreeMap<TapeId, TapeMark>,
    /// The copies of files that its state names.
    pub files: BTreeSet<FileId>,
    /// Up to this number of changes of the group no other process has written to the memory of this one since.
    pub apart: u32,
}

/// Where a kept recording begins with a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessBegins {
    /// With its birth.
    Whole,
    /// With its copy of this index.
    AtCopy(usize),
    /// It had ended before.
    Gone,
}

/// Where it begins with each process.
pub type FlightCut = BTreeMap<u32, ProcessBegins>;

/// The tapes of a process that a recording needs.
#[derive(Debug)]
enum NeededOfProcess {
    /// Also those of threads to come.
    All,
    /// Those of the threads that its copy has, and of later ones.
    Of {
        resting: BTreeSet<TapeId>,
        threads: u32,
    },
}

/// The tapes that a recording needs.
#[derive(Debug)]
pub struct NeededTapes {
    processes: BTreeMap<u32, NeededOfProcess>,
    /// All of processes with this index and higher ones, which begin later.
    later: u32,
}

impl NeededTapes {
    /// Those of a recording that begins with its program.
    pub fn all() -> Self {
        Self {
            processes: BTreeMap::new(),
            later: 0,
        }
    }

    /// Whether a tape is among them.
    pub fn has(&self, id: TapeId) -> bool {
        match self.processes.get(&id.process) {
            Some(NeededOfProcess::All) => true,
            Some(NeededOfProcess::Of { resting, threads }) => {
                resting.contains(&id) || id.is_schedule() || id.thread >= *threads
            }
            None => id.process >= self.later,
        }
    }
}

/// A process as far as it is known.
#[derive(Debug)]
struct FlightProcess {
    parent: Option<u32>,
    /// Its first event is here.
    born: bool,
    known: Instant,
    ended: Option<(Instant, TreeState)>,
    copies: VecDeque<SleepingCopy>,
    /// When it first became a member of the group that shares memory, by the changes of that; 0: never.
    joined: u32,
    /// Its tapes begin here, at a copy with so much work before it.
    trimmed: Option<u64>,
}

impl FlightProcess {
    /// Its part in the group, which had changed so often before.
    fn meets(&mut self, membership: Membership, changes: u32) {
        self.joined = membership.first;
        for copy in &mut self.copies {
            let since = membership.member || membership.last > copy.tree.group;
            if !copy.tree.member && !since {
                copy.apart = copy.apart.max(changes);
            }
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct FlightTree {
    processes: BTreeMap<u32, FlightProcess>,
    /// All of lower indexes have been known.
    numbered: u32,
    /// Processes that had ended have gone; all their outputs have lower numbers.
    gone_order: u64,
}

impl FlightTree {
    fn process(&mut self, index: u32, now: Instant) -> &mut FlightProcess {
        let fresh = || FlightProcess {
            parent: None,
            born: false,
            known: now,
            ended: None,
            copies: VecDeque::new(),
            joined: 0,
            trimmed: None,
        };
        self.processes.entry(index).or_insert_with(fresh)
    }

    /// So many processes have numbers by now.
    pub fn number(&mut self, processes: u32, now: Instant) {
        for index in self.numbered..processes {
            self.process(index, now);
        }
        self.numbered = self.numbered.max(processes);
    }

    /// The first event of a process has come.
    pub fn born(&mut self, index: u32, parent: Option<u32>, now: Instant) {
        let process = self.process(index, now);
        (process.parent, process.born) = (parent, true);
    }

    /// Whether the first event of a process is still to come.
    pub fn awaits(&self, index: u32) -> bool {
        self.processes
            .get(&index)
            .is_none_or(|process| !process.born)
    }

    /// The process that has made one, if that is known.
    #[cfg(test)]
    pub fn parent(&self, index: u32) -> Option<u32> {
        self.processes.get(&index)?.parent
    }

    /// A process has a copy that sleeps. Gives one that nobody needs: that one itself, if the process has ended and gone, or a later
    /// copy is known, up to which its tapes may have gone (a copy may take long to tell of itself); or the one
    /// before, if both were made unasked, its tapes do not begin there, and not `all` are needed at present.
    pub fn add_copy(&mut self, index: u32, copy: SleepingCopy, all: bool) -> Option<CopyPlace> {
        let has_gone = index < self.numbered && !self.processes.contains_key(&index);
        if has_gone {
            return Some(copy.place);
        }
        let process = self.process(index, copy.taken);
        let last = process.copies.back().map(|copy| copy.work);
        let is_late = last.max(process.trimmed).is_some_and(|at| copy.work < at);
        if is_late {
            return Some(copy.place);
        }
        let begins = process.copies.len() == 1 && process.trimmed.is_some();
        let replaced = process
            .copies
            .pop_back_if(|before| !all && !begins && !before.place.asked && !copy.place.asked);
        process.copies.push_back(copy);
        replaced.map(|before| before.place)
    }

    /// When the last process ended, if all have.
    pub fn over(&self) -> Option<Instant> {
        let ends = self.processes.values().map(|p| Some(p.ended?.0));
        ends.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// All copies.
    pub fn copies(&self) -> impl Iterator<Item = &SleepingCopy> {
        self.processes.values().flat_map(|p| &p.copies)
    }

    /// Where the tapes go on behind the first copies.
    pub fn first_marks(&self) -> BTreeMap<TapeId, TapeMark> {
        let trimmed = self.processes.values().filter(|p| p.trimmed.is_some());
        let first = trimmed.filter_map(|p| p.copies.front());
        let marks = first.flat_map(|copy| &copy.marks);
        marks.map(|(id, mark)| (*id, *mark)).collect()
    }

    /// Drops the copies that do not live any more.
    pub fn drop_dead(&mut self, lives: impl Fn(CopyPlace) -> bool) {
        for process in self.processes.values_mut() {
            process.copies.retain(|copy| lives(copy.place));
        }
    }

    /// The processes that have tapes which can grow, where the tree was before `membership` was asked. Gives the copies of no use any more: those of processes that have
    /// ended within the window in which they were born.
    pub fn look(
        &mut self,
        living: &BTreeSet<u32>,
        tree: TreeState,
        membership: impl Fn(u32) -> Membership,
        window: Duration,
        now: Instant,
    ) -> Vec<CopyPlace> {
        let mut left = Vec::new();
        self.processes.retain(|index, process| {
            process.meets(membership(*index), tree.group);
            if !process.born {
                return now.saturating_duration_since(process.known) < BIRTH;
            }
            if process.ended.is_none() && !living.contains(index) {
                process.ended = Some((now, tree));
                if now.saturating_duration_since(process.known) < window {
                    left.extend(process.copies.drain(..).map(|copy| copy.place));
                }
            }
            true
        });
        left
    }

    /// Where a recording of what has happened since `at` begins with each process: with the newest copies that agree, made
    /// before then, or, if not `strict`, made as soon as possible afterwards. `None`: there are none, or it can begin with
    /// the first process's birth only.
    pub fn choose(&self, at: Instant, strict: bool) -> Option<FlightCut> {
        let groups: BTreeSet<u32> = self.copies().map(|copy| copy.tree.group).collect();
        let chosen = |group: &u32| self.choose_in_group(*group, at, strict);
        groups.iter().rev().find_map(chosen)
    }

    /// Where one begins as soon after `at` as there are copies that agree: of processes, too, that have ended since and were
    /// copied before that.
    pub fn choose_behind(&self, at: Instant) -> Option<FlightCut> {
        let moments: BTreeSet<Instant> = self.copies().map(|copy| copy.taken).collect();
        let mut behind = moments.into_iter().filter(|moment| *moment > at);
        behind.find_map(|moment| self.choose(moment, true))
    }

    /// The same as [`Self::choose`], with copies of which this is the highest number of changes of the group that shares memory: from its copy
    /// up to there no process has been a member together with others.
    fn choose_in_group(&self, group: u32, at: Instant, strict: bool) -> Option<FlightCut> {
        let own = self.by_themselves(group, at, strict);
        let mut cut = FlightCut::new();
        for (index, process) in &self.processes {
            let parent = process.parent.and_then(|parent| {
                let begins = *cut.get(&parent)?;
                Some((&self.processes.get(&parent)?.copies, begins))
            });
            let begins = match parent {
                _ if !process.born => ProcessBegins::Whole,
                Some((_, ProcessBegins::Whole)) => ProcessBegins::Whole,
                Some((copies, ProcessBegins::AtCopy(n)))
                    if *index >= copies.get(n)?.tree.processes =>
                {
                    ProcessBegins::Whole
                }
                _ => *own.get(index)?,
            };
            // What others have seen of it would happen once more.
            let met = (1..=group).contains(&process.joined);
            if begins == ProcessBegins::Whole && (process.trimmed.is_some() || met) {
                return None;
            }
            cut.insert(*index, begins);
        }
        let any = cut
            .values()
            .any(|begins| matches!(begins, ProcessBegins::AtCopy(_)));
        any.then_some(cut)
    }

    /// The processes with which a recording can begin though their parents do not make them.
    fn by_themselves(&self, group: u32, at: Instant, strict: bool) -> FlightCut {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (index, process) in &self.processes {
            let parent = process.parent.filter(|_| process.born);
            if let Some(parent) = parent {
                children.entry(parent).or_default().push(*index);
            }
        }
        let unborn = self.processes.iter().find(|(_, p)| !p.born);
        let unborn = unborn.map_or(u32::MAX, |(index, _)| *index);
        let mut own = FlightCut::new();
        // Children have higher numbers.
        for (index, process) in self.processes.iter().rev().filter(|(_, p)| p.born) {
            let agree = |below: u32| {
                let mut all = children.get(index).into_iter().flatten();
                all.all(|child| *child >= below || own.contains_key(child))
            };
            let over = process.ended.as_ref().is_some_and(|(when, tree)| {
                (*when <= at || !strict) && tree.group <= group && agree(u32::MAX)
            });
            if over {
                own.insert(*index, ProcessBegins::Gone);
                continue;
            }
            let copies = process.copies.iter().enumerate();
            let (before, behind): (Vec<_>, Vec<_>) = copies.partition(|(_, copy)| copy.taken <= at);
            let behind = behind.into_iter().filter(|_| !strict);
            let found = before.into_iter().rev().chain(behind).find(|(_, copy)| {
                let tree = copy.tree;
                (tree.group == group || tree.group < group && group <= copy.apart)
                    && tree.processes <= unborn
                    && agree(tree.processes)
            });
            if let Some((n, _)) = found {
                own.insert(*index, ProcessBegins::AtCopy(n));
            }
        }
        own
    }

    /// The copy with which a recording begins that has this cut.
    pub fn copy(&self, cut: &FlightCut, index: u32) -> Option<&SleepingCopy> {
        match cut.get(&index)? {
            ProcessBegins::AtCopy(n) => self.processes.get(&index)?.copies.get(*n),
            ProcessBegins::Whole | ProcessBegins::Gone => None,
        }
    }

    /// The tapes that a replay needs which begins with a cut.
    pub fn needed(&self, cut: &FlightCut) -> NeededTapes {
        let of = |index: &u32| match (cut.get(index), self.copy(cut, *index)) {
            (Some(ProcessBegins::Gone), _) => None,
            (_, Some(copy)) => Some(NeededOfProcess::Of {
                resting: copy.marks.keys().copied().collect(),
                threads: copy.threads,
            }),
            // Also of one that has been born behind the cut.
            _ => Some(NeededOfProcess::All),
        };
        let known = self.processes.keys();
        NeededTapes {
            processes: known
                .filter_map(|index| Some((*index, of(index)?)))
                .collect(),
            later: self.numbered,
        }
    }

    /// All copies go, and processes do not begin any more where they were born: what stands on tapes up to now has gone.
    pub fn start_over(&mut self) -> Vec<CopyPlace> {
        let all = self.processes.values_mut();
        all.flat_map(|process| {
            process.trimmed = process.trimmed.or(process.born.then_some(0));
            process.copies.drain(..).map(|copy| copy.place)
        })
        .collect()
    }

    /// Whether each process that lives has a copy that was made since then.
    pub fn are_copied_since(&self, at: Instant) -> bool {
        let mut living = self.processes.values().filter(|p| p.ended.is_none());
        living.all(|p| p.copies.back().is_some_and(|copy| copy.taken >= at))
    }

    /// All outputs that such a replay lacks have numbers in this range.
    pub fn lacks(&self, cut: &FlightCut) -> (u64, u64) {
        let copies = || cut.keys().filter_map(|index| self.copy(cut, *index));
        let orders = || copies().map(|copy| copy.tree.order);
        let gone = cut
            .iter()
            .filter(|(_, begins)| **begins == ProcessBegins::Gone);
        let gone = gone.filter_map(|(index, _)| self.processes.get(index)?.ended);
        let last = orders().chain(gone.map(|(_, tree)| tree.order)).max();
        let first = orders().min().unwrap_or(0);
        (first, last.unwrap_or(0).max(self.gone_order))
    }

    /// No event behind a cut refers to input before this offset.
    pub fn floor(&self, cut: &FlightCut) -> u64 {
        let copies = cut.keys().filter_map(|index| self.copy(cut, *index));
        copies.map(|copy| copy.tree.floor).min().unwrap_or(0)
    }

    /// No recording will begin before this cut. Gives the copies of no use any more.
    pub fn trim(&mut self, cut: &FlightCut) -> Vec<CopyPlace> {
        let (_, lacks) = self.lacks(cut);
        let mut left = Vec::new();
        self.processes.retain(|index, process| {
            match cut.get(index) {
                Some(ProcessBegins::AtCopy(n)) => {
                    process.trimmed = process.copies.get(*n).map(|copy| copy.work);
                    left.extend(process.copies.drain(..*n).map(|copy| copy.place));
                }
                Some(ProcessBegins::Gone) => {
                    left.extend(process.copies.drain(..).map(|copy| copy.place));
                    return false;
                }
                Some(ProcessBegins::Whole) | None => {}
            }
            true
        });
        self.gone_order = lacks;
        left
    }
}

#[cfg(test)]
mod tests;
