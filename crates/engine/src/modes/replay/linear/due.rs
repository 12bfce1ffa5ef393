//! The turns that are found: how far each thread may run and when it is due, and the exact schedule.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use relive_host::GuestAddr;
use relive_trace::Recorder;

use super::access_waits::{AccessStop, AccessWaits};
use super::bound::{OtherThreads, Surroundings, bound};
use super::end_place::{EndPlace, places};
use super::exact_turns::ExactTurns;
use super::first_moments::FirstMoments;
use super::hints::{Hints, What};
use super::next_thread::{Due, Dues, circle};
use super::outlooks::{AllUnmet, Outlook, Outlooks, Unmet};
use super::own_outputs::{OutputTurn, OwnOutputs};
use super::reach::Bound;
use super::wanted::{AHEAD, TurnLength, hints, turns};
use super::ways::is_late;
use crate::call;
use crate::failure::Result;
use crate::machine::Machine;
use crate::modes::replay::hook_state;
use crate::tape::Tape;
use crate::task::Task;

/// The turns of one process, as they are found.
pub struct Linear {
    /// Its index.
    process: u32,
    /// The exact schedule.
    schedule: ExactTurns,
    /// Threads that there have been.
    seen: BTreeSet<u32>,
    /// Those below this number had been made where the recording begins.
    made_before: u32,
    /// Threads that stand in front of their next event.
    waiting: BTreeSet<u32>,
    /// Threads that have nothing left to do.
    over: BTreeSet<u32>,
    /// The decisions of a search.
    hints: Hints,
    /// The accesses that it has ordered.
    accesses: AccessWaits,
    /// The thread that has left the recording, if it is not the running one.
    pub blamed: Option<u32>,
    /// The process has executed another program.
    pub executed: bool,
    /// Where threads without the turn stand: steps since the last tick or event.
    steps: BTreeMap<u32, u64>,
    /// When threads began.
    first_moments: FirstMoments,
    outputs: OwnOutputs,
    outlooks: Outlooks,
    /// The recording says all of the order of accesses to memory.
    says_all: bool,
    /// Its tapes end where they were cut: what a thread waits for there may be on none.
    pub is_cut: bool,
    /// No thread was due, and some of them wait for each other: that no cut makes.
    waits_in_circle: bool,
    /// Where threads stand at the end of the epoch, if the replay is of one that ends before the recording.
    ends: BTreeMap<u32, EndPlace>,
    /// All threads stand there.
    pub is_at_end: bool,
    /// The turns are long: between its events the running thread may be ahead of others, up to so many ticks before what comes next.
    long: Option<u64>,
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
        let (recorder, is_cut, ends) = hook_state::with(|s| {
            let ends = s.epoch_end.as_ref().map(|end| places(&end.state));
            let manifest = s.trace.manifest();
            (manifest.recorder, s.trace.is_cut(), ends)
        });
        let hints = hints()?;
        Ok(Some(Self {
            schedule,
            seen: BTreeSet::new(),
            made_before: 0,
            waiting: BTreeSet::new(),
            over: BTreeSet::new(),
            long: match turns() {
                TurnLength::Long(near) => Some(near),
                TurnLength::Close => hints.long_turns(process),
            },
            process,
            hints,
            accesses: AccessWaits::default(),
            blamed: None,
            executed: false,
            steps: BTreeMap::new(),
            first_moments: FirstMoments::default(),
            outputs: OwnOutputs::default(),
            outlooks: Outlooks::default(),
            says_all: recorder == Recorder::Coherence,
            is_cut,
            waits_in_circle: false,
            ends: ends.unwrap_or_default(),
            is_at_end: false,
        }))
    }

    /// The process begins with these threads, and not with its program: what others did before has been done.
    pub fn begins_amid(&mut self, running: &Task, others: &BTreeMap<u32, Box<Task>>) {
        self.made_before = running.process.next_thread();
        for task in others.values() {
            self.seen.insert(task.slot);
            self.steps.insert(task.slot, task.steps.into());
        }
        self.seen.insert(running.slot);
    }

    /// Other decisions are followed from here on.
    pub fn follow(&mut self, hints: Hints) {
        self.long = hints.long_turns(self.process);
        self.hints = hints;
        self.outlooks.forget();
    }

    /// A new program begins, with one thread.
    pub fn begin_program(&mut self) {
        self.executed = true;
        self.seen.clear();
        self.made_before = 0;
        self.waiting.clear();
        self.over.clear();
        self.steps.clear();
        self.outlooks.forget();
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
        self.outlooks.changes(slot);
    }

    /// No thread is due: whether all stand at the end of the epoch.
    pub fn ends_epoch(&mut self, dues: &Dues) -> bool {
        let stand = dues.values().all(|due| matches!(due, Due::Never));
        self.is_at_end = stand && !self.ends.is_empty();
        self.is_at_end
    }

    /// No thread is due: one in the circle has gone wrong before, most likely one that has come to its event without
    /// an operation that another one waits for.
    pub fn blame(&mut self, dues: &Dues) {
        let circle = circle(dues);
        self.waits_in_circle = !circle.is_empty();
        let at_event = circle.iter().find(|slot| self.waiting.contains(slot));
        self.blamed = at_event.or(circle.first()).copied();
    }

    /// Whether the process may stop where no thread is due: each waits for one that is at the end of a tape which was cut.
    pub fn may_stop(&self) -> bool {
        self.is_cut && !self.waits_in_circle
    }

    /// The thread gives its turn up so many steps behind its last tick or event.
    pub fn leaves(&mut self, slot: u32, steps: u64) {
        self.steps.insert(slot, steps);
        self.outlooks.changes(slot);
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
        self.outlooks.changes(slot);
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

    /// When each thread is due, the running one with how far it may run. Threads are looked at again as far as that may
    /// have changed.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn all_dues(
        &mut self,
        tasks: &mut BTreeMap<u32, Box<Task>>,
        mut running: Option<&mut Task>,
    ) -> Result<(Dues, Option<Bound>)> {
        loop {
            let there = ThreadsSeen::of(tasks, running.as_deref(), (&self.seen, self.made_before));
            let stale = self.outlooks.stale(tasks.keys(), &there);
            let mut passed = 0;
            for slot in stale {
                let Some(mut task) = tasks.remove(&slot) else {
                    continue;
                };
                passed -= task.ctx.marks as i64;
                let outlook = self.outlook(&mut task, tasks, running.as_deref());
                passed += task.ctx.marks as i64;
                tasks.insert(slot, task);
                self.outlooks.is_due(slot, outlook?.1);
            }
            let mut own = None;
            if let Some(task) = running.as_deref_mut() {
                passed -= task.ctx.marks as i64;
                let (bound, due) = self.due(task, tasks)?;
                passed += task.ctx.marks as i64;
                own = Some((bound, (task.slot, due)));
            }
            // A thread that stands where it made marks has passed them once it is looked at: one that was looked at
            // before may wait for them.
            if passed == 0 {
                let dues = self.outlooks.dues(own.map(|(_, due)| due));
                return Ok((dues, own.map(|(bound, _)| bound)));
            }
        }
    }

    /// The running thread is the first, by these dues.
    pub fn leads(&mut self, slot: u32, dues: &Dues) {
        self.outlooks.leads(slot, dues);
    }

    /// How far the running thread may go without a look at the others, if it may.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn leads_on(
        &mut self,
        task: &mut Task,
        others: &BTreeMap<u32, Box<Task>>,
    ) -> Result<Option<Bound>> {
        let (bound, due) = self.due(task, others)?;
        let done = (task.ctx.ops, task.ctx.marks);
        let leads = self.outlooks.still_leads(others.len(), done, due);
        Ok(leads.then_some(bound))
    }

    /// How far the running thread may run, and when it is due: the first of all threads goes first.
    ///
    /// # Errors
    /// A damaged trace.
    pub fn due(
        &mut self,
        task: &mut Task,
        others: &BTreeMap<u32, Box<Task>>,
    ) -> Result<(Bound, Due)> {
        let (bound, outlook) = self.outlook(task, others, None)?;
        let is_at_event = self.waiting.contains(&task.slot);
        let due = match (outlook.due, bound) {
            // In front of its event it waits for those who were earlier.
            (due, Bound::Event { .. }) if is_at_event => due,
            (Due::At(at), Bound::Tick { .. } | Bound::Operation { .. } | Bound::Event { .. }) => {
                Due::At(at.saturating_sub(self.ahead(task)?))
            }
            (due, _) => due,
        };
        Ok((bound, due))
    }

    /// How far the running thread may be ahead of others, in cycles.
    ///
    /// # Errors
    /// A damaged trace.
    fn ahead(&self, task: &mut Task) -> Result<u64> {
        let (process, thread, ticks) = (task.process.index, task.index, task.ctx.ticks());
        let hint = |what| self.hints.at(process, thread, what);
        let is_late = match (self.long, &mut task.tape) {
            (Some(near), Tape::In(tape)) => is_late(tape, ticks, &hint, near)?,
            _ => true,
        };
        Ok(if is_late { 0 } else { AHEAD })
    }

    /// The same, and what may change it while the thread stands.
    fn outlook(
        &mut self,
        task: &mut Task,
        others: &BTreeMap<u32, Box<Task>>,
        running: Option<&Task>,
    ) -> Result<(Bound, Outlook)> {
        let slot = task.slot;
        self.seen.insert(slot);
        let (far, unmet) = self.bound(task, others, running)?;
        let is_ordered = self.hints.orders(task.process.index).next().is_some();
        let outlook = |due, hangs_on_outputs| Outlook {
            due,
            unmet,
            is_volatile: is_ordered || hangs_on_outputs,
        };
        let far = match self.access_stop(task, others, running, far)? {
            Ok(far) => far,
            Err(due) => return Ok((far, outlook(due, true))),
        };
        let (process, thread) = (task.process.index, task.index);
        let hint = |what| self.hints.at(process, thread, what);
        let mut hangs_on_outputs = false;
        let due = match far {
            _ if self.over.contains(&slot) => Due::Never,
            Bound::Tick { at, .. } | Bound::Step { at, .. } => Due::At(at),
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
                let output = match after {
                    Some(_) => OutputTurn::Own,
                    None => self.outputs.before(task)?,
                };
                hangs_on_outputs = output != OutputTurn::Own;
                match (after, output) {
                    (Some(after), _) => Due::After(after, at),
                    (None, OutputTurn::Of(thread)) => {
                        Due::After(slot_of(others, running, process, thread), at)
                    }
                    // Whoever needs this thread comes later than those who make it possible.
                    (None, OutputTurn::Elsewhere) => Due::NotBefore(at),
                    (None, OutputTurn::Own) if decided => Due::NotBefore(at),
                    (None, OutputTurn::Own) => Due::At(at),
                }
            }
            Bound::Event {
                begin,
                after: Some(other),
                changed: true,
                ..
            } => Due::Ahead(other, begin),
            Bound::Event { begin, .. } => Due::At(begin),
            Bound::Place => Due::Never,
            Bound::End => Due::At(u64::MAX),
        };
        Ok((far, outlook(due, hangs_on_outputs)))
    }

    /// How far a thread may run by its tape, and what others have not done yet.
    fn bound(
        &self,
        task: &mut Task,
        others: &BTreeMap<u32, Box<Task>>,
        running: Option<&Task>,
    ) -> Result<(Bound, AllUnmet)> {
        let there = ThreadsSeen::of(others, running, (&self.seen, self.made_before));
        let (process, thread) = (task.process.index, task.index);
        let hint = |what| self.hints.at(process, thread, what);
        // One that is over may stand in front of the event of its first turn.
        let is_at_event = self.waiting.contains(&task.slot) || self.over.contains(&task.slot);
        let around = Surroundings {
            others: &there,
            hint: &hint,
            ends: &self.ends,
            is_at_event,
            is_cut: self.is_cut,
            says_all: self.says_all,
            long: self.long.or(self.says_all.then_some(0)),
        };
        Ok((bound(task, around)?, there.unmet.into_inner()))
    }

    /// How far a thread may run before an access that is ordered, or when it is due.
    fn access_stop(
        &mut self,
        task: &mut Task,
        others: &BTreeMap<u32, Box<Task>>,
        running: Option<&Task>,
        far: Bound,
    ) -> Result<std::result::Result<Bound, Due>> {
        let process = task.process.index;
        let here = (task.index, task.ctx.ticks(), task.ctx.rip);
        let orders = || self.hints.orders(process);
        let Some(mut stop) = self.accesses.stop(orders(), here) else {
            return Ok(Ok(far));
        };
        let (limit, at) = match far {
            Bound::Tick { ticks, at } => (ticks, at),
            Bound::Operation { ticks, since, .. } => (ticks, since),
            Bound::Event { begin, .. } => match task.tape.outline()? {
                Some(next) if next.syscall || next.ticks > here.1 => (next.ticks, begin),
                _ => return Ok(Ok(far)),
            },
            Bound::Step { .. } | Bound::Place | Bound::End => return Ok(Ok(far)),
        };
        if let AccessStop::Wait(thread) = stop {
            let mut there = others.values().map(|task| &**task).chain(running);
            let other = there.find(|task| task.index == thread).map(|t| t.slot);
            if other.is_some() || thread >= task.process.next_thread() {
                // One that has not been made cannot be waited for: others go on.
                return Ok(Err(Due::After(other.unwrap_or(u32::MAX), at)));
            }
            self.accesses.has_ended(orders(), thread);
            stop = AccessStop::Step;
        }
        Ok(Ok(match (stop, far) {
            (AccessStop::Tick(ticks), _) if ticks < limit => Bound::Tick { ticks, at },
            (AccessStop::Tick(_), _) => far,
            // In front of its event, or of an operation that has to wait.
            (_, Bound::Event { .. }) if call::is_next(&task.ctx) => far,
            (_, Bound::Operation { .. }) if limit == here.1 && is_next(task)? => far,
            _ => Bound::Step { ticks: limit, at },
        }))
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

/// The slot of another thread; none that there is, if it has not been made.
fn slot_of(
    others: &BTreeMap<u32, Box<Task>>,
    running: Option<&Task>,
    process: u32,
    thread: u32,
) -> u32 {
    let mut there = others.values().map(|task| &**task).chain(running);
    let other = there.find(|task| task.process.index == process && task.index == thread);
    other.map_or(u32::MAX, |task| task.slot)
}

/// The other threads, seen from one.
struct ThreadsSeen<'a> {
    others: &'a BTreeMap<u32, Box<Task>>,
    running: Option<&'a Task>,
    seen: &'a BTreeSet<u32>,
    made_before: u32,
    /// What has been asked for, and not been done.
    unmet: RefCell<AllUnmet>,
}

impl<'a> ThreadsSeen<'a> {
    fn of(
        others: &'a BTreeMap<u32, Box<Task>>,
        running: Option<&'a Task>,
        (seen, made_before): (&'a BTreeSet<u32>, u32),
    ) -> Self {
        Self {
            others,
            running,
            seen,
            made_before,
            unmet: RefCell::default(),
        }
    }

    /// Whether it is so of a thread; of one that has ended with all that it did.
    fn is(&self, unmet: Unmet, thread: u32, so: impl FnOnce(&Task) -> bool) -> bool {
        let there = self.others.get(&thread).map(|task| &**task);
        let runs = self.running.filter(|task| task.slot == thread);
        let is = match there.or(runs) {
            Some(task) => so(task),
            None => thread < self.made_before || self.seen.contains(&thread),
        };
        if !is {
            self.unmet.borrow_mut().push(unmet);
        }
        is
    }
}

impl OtherThreads for ThreadsSeen<'_> {
    fn has_made(&self, thread: u32, op: u64) -> bool {
        self.is(Unmet::Operation(thread, op), thread, |task| {
            task.ctx.ops >= op
        })
    }

    fn has_passed(&self, thread: u32, mark: u64) -> bool {
        self.is(Unmet::Mark(thread, mark), thread, |task| {
            mark != 0 && task.ctx.marks >= mark
        })
    }
}

/// Whether the thread's next instruction is an ordered one.
fn is_next(task: &Task) -> Result<bool> {
    let pc = GuestAddr(task.ctx.rip);
    let mut memory = task.machine().memory();
    memory.with_code(false, |translator, code| translator.is_ordered_at(code, pc))
}
