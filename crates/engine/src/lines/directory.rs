//! The directory of lines: which thread asks which other one for a line, and what follows. All changes of hands
//! are made under the lock of its owner. Must never wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use relive_host::order;
use relive_host::permissions::Permissions;
use smallvec::SmallVec;

use super::blocks::Blocks;
use super::holder_state::{HolderState, LineAsk};
use super::line_holder::{Holder, Mark, MarksBehind};
use super::line_ranges::LineRange;
use super::page_holders::PageHolders;
use super::writers::Writers;

/// All threads and what they wait for.
pub struct Directory {
    /// By their indices.
    pub(super) threads: Vec<HolderState>,
    /// Threads that have ended, in this order.
    ended: Vec<u32>,
    /// Those that threads which are about to begin need not come behind.
    births: BTreeMap<u32, usize>,
    pub(super) writers: Writers,
    pub(super) blocks: Blocks,
    pub(super) pages: PageHolders,
    none: &'static Permissions,
    pub(super) clock: fn() -> u64,
}

/// How far a claim is.
pub enum ClaimStep {
    /// All lines are there: it comes behind these marks.
    Done(MarksBehind),
    /// It waits for this thread, until the number of its wakings changes.
    Waits(Arc<Holder>, u32),
}

impl Directory {
    /// Without threads.
    ///
    /// # Errors
    /// The kernel's error number: no memory.
    pub fn new() -> Result<Self, i32> {
        Ok(Self {
            threads: Vec::new(),
            ended: Vec::new(),
            births: BTreeMap::new(),
            writers: Writers::new()?,
            blocks: Blocks::default(),
            pages: PageHolders::default(),
            none: Box::leak(Box::new(Permissions::new()?)),
            clock: order::now,
        })
    }

    /// A table in which nothing is permitted.
    pub fn none(&self) -> &'static Permissions {
        self.none
    }

    /// Forgets all threads, in a process that has one.
    pub fn start_over(&mut self) {
        self.threads.clear();
        self.ended.clear();
        self.births.clear();
        self.writers.forget();
        self.blocks = Blocks::default();
        self.pages = PageHolders::default();
    }

    /// A thread is about to be made by another one, which has come behind all that have ended.
    pub fn will_begin(&mut self, thread: u32) {
        self.births.insert(thread, self.ended.len());
    }

    /// A thread begins.
    pub fn enrol(&mut self, holder: Arc<Holder>) {
        let thread = holder.thread;
        let place = self.pages.enter();
        let ended = self.births.remove(&thread).unwrap_or(0);
        let state = HolderState::new(holder, place, ended);
        let at = self.threads.partition_point(|s| s.thread() < thread);
        self.threads.insert(at, state);
    }

    /// A thread is permitted lines without a claim, as no other one runs.
    pub fn may_have_any(&mut self, thread: u32) {
        if let Some(at) = self.place(thread) {
            self.pages.leave(self.threads[at].place.take());
        }
    }

    /// Where the state of a thread is.
    fn place(&self, thread: u32) -> Option<usize> {
        self.threads
            .binary_search_by_key(&thread, HolderState::thread)
            .ok()
    }

    /// A thread has ended, with all that it did: its lines belong to nobody.
    pub fn withdraw(&mut self, thread: u32) {
        let Some(at) = self.place(thread) else {
            return;
        };
        let state = self.threads.remove(at);
        self.pages.leave(state.place);
        state.holder.withdraws();
        self.ended.push(thread);
        for ask in state.asked_for {
            self.wake(ask.by);
        }
    }

    /// A thread gets all lines, behind all that the others have done; they are at rest. What it comes behind. It has yet to
    /// be permitted those that there are.
    ///
    /// `None`: one of them is not at a mark, as it was killed where it ran.
    pub fn claim_all(&mut self, me: u32) -> Option<MarksBehind> {
        let mut behind = Vec::new();
        for state in self.threads.iter_mut().filter(|s| s.thread() != me) {
            let mark = state.holder.hold_still()?;
            behind.append(&mut state.behind.clone());
            behind.push((state.thread(), mark));
            state.table().clear();
            state.pinned.clear();
            state.holder.let_go();
        }
        self.blocks = Blocks::default();
        let mine = self.place(me)?;
        let state = &mut self.threads[mine];
        self.pages.leave(state.place.take());
        for (thread, mark) in behind {
            state.comes_behind(thread, mark);
        }
        Some(self.comes_behind(me))
    }

    /// Nobody asks for anything any more, or waits.
    pub fn dissolve(&mut self) {
        for state in &mut self.threads {
            state.asked_for.clear();
            state.waits_to_write = None;
            state.holder.looks_at_own();
            state.holder.wake();
        }
    }

    fn wake(&self, thread: u32) {
        if let Some(at) = self.place(thread) {
            self.threads[at].holder.wake();
        }
    }

    /// The marks that a thread comes behind now, to be said: the new ones alone.
    pub fn comes_behind(&mut self, thread: u32) -> MarksBehind {
        let Some(at) = self.place(thread) else {
            return MarksBehind::new();
        };
        let state = &mut self.threads[at];
        let mut said: MarksBehind = state.behind.drain(..).collect();
        said.retain(|&mut (other, mark)| {
            let known = state.known.entry(other).or_default();
            let is_new = mark > *known;
            *known = mark.max(*known);
            is_new
        });
        let new = self.ended[state.ended..].iter();
        let new = new.filter(|other| **other != thread);
        said.extend(new.map(|&other| (other, 0)));
        state.ended = self.ended.len();
        said
    }

    /// Goes on with a claim of a thread that is active: lines in one order for all threads, each with whether it is
    /// written.
    ///
    /// # Panics
    /// The thread is none of the directory's.
    pub fn claim(&mut self, me: u32, wants: &[LineRange]) -> ClaimStep {
        let mine = self.place(me).expect("it has been enrolled");
        self.asks_nobody(mine);
        self.threads[mine].waits_to_write = None;
        for (at, range) in wants.iter().enumerate() {
            let mut lines = range.lines();
            let table = |state: &HolderState, lines| {
                let table = state.table();
                table.first_not_permitted(lines, range.writes)
            };
            while let Some(line) = table(&self.threads[mine], lines.clone()) {
                let pages = range.pages_from(line);
                if !pages.is_empty() {
                    let taken = self.take_pages(mine, pages, None);
                    if taken > line {
                        lines.start = taken;
                        continue;
                    }
                }
                while let Some(other) = self.take(mine, line, range.writes) {
                    let waits = self.ask(mine, other, line, range.writes);
                    let state = &self.threads[other];
                    // It may have come to rest before it could see that it was asked.
                    if state.comes_first(line, range.writes) || state.holder.hold_still().is_none()
                    {
                        self.stays_with(mine, wants, at, line);
                        return waits;
                    }
                    state.holder.let_go();
                    self.asks_nobody(mine);
                }
                lines.start = line + 1;
            }
        }
        self.threads[mine].pinned.clear();
        ClaimStep::Done(self.comes_behind(me))
    }

    /// A thread keeps what it has got of a claim, and waits for a line of one of the ranges.
    fn stays_with(&mut self, mine: usize, wants: &[LineRange], at: usize, line: u32) {
        let state = &mut self.threads[mine];
        let range = wants[at];
        let had = LineRange { end: line, ..range };
        let left = LineRange {
            first: line + 1,
            ..range
        };
        let is_some = |range: &LineRange| range.first < range.end;
        let before = wants[..at].iter().copied();
        state.waits_to_write = range.writes.then_some(line);
        state.pinned.become_all(before.chain([had]).filter(is_some));
        state.needs.clear();
        state.needs.extend([left].into_iter().filter(is_some));
        state.needs.extend_from_slice(&wants[at + 1..]);
    }

    /// All that threads wait for, and have not said, in numbers.
    #[cfg(test)]
    pub(super) fn waits(&self) -> String {
        let each = |s: &HolderState| {
            let asks: Vec<_> = s
                .asked_for
                .iter()
                .map(|a| (a.by, a.line, a.writes))
                .collect();
            let written = [0, 1, 64].map(|line| self.writers.get(line));
            let (pinned, behind, known) = (&s.pinned, &s.behind, &s.known);
            format!(
                "{asks:?} {pinned:?} {behind:?} {known:?} {} {:?} {:?} {:?} {written:?}",
                s.ended, s.asks, s.waits_to_write, s.needs
            )
        };
        self.threads.iter().map(each).collect()
    }

    fn ask(&mut self, mine: usize, other: usize, line: u32, writes: bool) -> ClaimStep {
        let other_thread = self.threads[other].thread();
        let asker = &mut self.threads[mine];
        asker.asks = Some(other_thread);
        let (by, wakings) = (asker.thread(), asker.holder.wakings());
        let state = &mut self.threads[other];
        state.asked_for.push(LineAsk { by, line, writes });
        state.holder.is_asked();
        ClaimStep::Waits(Arc::clone(&state.holder), wakings)
    }

    fn asks_nobody(&mut self, mine: usize) {
        let me = self.threads[mine].thread();
        let asked = self.threads[mine].asks.take();
        if let Some(other) = asked.and_then(|other| self.place(other)) {
            self.threads[other].asked_for.retain(|ask| ask.by != me);
        }
    }

    /// A thread stands at its mark, and gives up what others ask it for. Its own thread calls this, at rest or not.
    pub fn answer(&mut self, me: u32, mark: Mark) {
        let Some(mine) = self.place(me) else {
            return;
        };
        let state = &mut self.threads[mine];
        let mut now: SmallVec<[LineAsk; 4]> = SmallVec::new();
        let mut asked_for = std::mem::take(&mut state.asked_for);
        asked_for.retain(|ask| {
            let later = state.comes_first(ask.line, ask.writes);
            if !later {
                now.push(*ask);
            }
            later
        });
        state.asked_for = asked_for;
        if state.asked_for.is_empty() {
            state.holder.looks_at_own();
        }
        for ask in now {
            if let Some(by) = self.place(ask.by) {
                self.give(mine, by, ask, mark);
                self.threads[by].holder.wake();
            }
        }
    }
}
