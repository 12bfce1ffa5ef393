//! The directory of lines: which thread asks which other one for a line, and what follows. All changes of hands
//! are made here, under the lock of its owner. Must never wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use relive_host::order;
use relive_host::permissions::{Permissions, READ, WRITE};
use smallvec::SmallVec;

use super::blocks::{Blocks, LARGEST};
use super::line_holder::{Holder, Mark, MarksBehind};
use super::page_holders::{HolderPlace, PageHolders};
use super::writers::Writers;

/// All threads and what they wait for.
pub struct Directory {
    /// By their indices.
    threads: Vec<HolderState>,
    /// Threads that have ended, in this order.
    ended: Vec<u32>,
    /// Those that threads which are about to begin need not come behind.
    births: BTreeMap<u32, usize>,
    writers: Writers,
    blocks: Blocks,
    pages: PageHolders,
    none: &'static Permissions,
    pub(super) clock: fn() -> u64,
}

/// A thread.
struct HolderState {
    holder: Arc<Holder>,
    /// Where the pages name it.
    place: HolderPlace,
    /// What others ask it for.
    asked_for: Vec<LineAsk>,
    /// Lines that it keeps until the access at hand has been made, in order.
    pinned: Vec<u32>,
    /// The marks of others that it comes behind, and has not said so.
    behind: Vec<(u32, Mark)>,
    /// The last mark of each other thread that it has said to come behind.
    known: BTreeMap<u32, Mark>,
    /// So many of the threads that have ended are behind it.
    ended: usize,
    /// The thread that it has asked.
    asks: Option<u32>,
    /// The line that it waits to write: none gets it as a reader before.
    waits_to_write: Option<u32>,
    /// The lines that it needs behind the one that it waits for, and whether they are written.
    needs: Vec<(u32, bool)>,
}

/// A line that a thread asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LineAsk {
    by: u32,
    line: u32,
    writes: bool,
}

/// How far a claim is.
pub enum ClaimStep {
    /// All lines are there: it comes behind these marks.
    Done(MarksBehind),
    /// It waits for this thread, until the number of its wakings changes.
    Waits(Arc<Holder>, u32),
}

impl HolderState {
    fn thread(&self) -> u32 {
        self.holder.thread
    }

    fn table(&self) -> &Permissions {
        &self.holder.table
    }

    fn comes_behind(&mut self, thread: u32, mark: Mark) {
        if thread == self.thread() {
            return;
        }
        match self.behind.iter_mut().find(|(other, _)| *other == thread) {
            Some((_, known)) => *known = mark.max(*known),
            None => self.behind.push((thread, mark)),
        }
    }

    fn pin(&mut self, line: u32) {
        if let Err(at) = self.pinned.binary_search(&line) {
            self.pinned.insert(at, line);
        }
    }

    fn has_pinned(&self, line: u32) -> bool {
        self.pinned.binary_search(&line).is_ok()
    }

    /// Whether an ask has to wait until this thread has made the access at hand, at rest or not.
    fn comes_first(&self, line: u32, writes: bool) -> bool {
        self.has_pinned(line) || !writes && self.waits_to_write == Some(line)
    }
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
        let state = HolderState {
            holder,
            place,
            asked_for: Vec::new(),
            pinned: Vec::new(),
            behind: Vec::new(),
            known: BTreeMap::new(),
            ended: self.births.remove(&thread).unwrap_or(0),
            asks: None,
            waits_to_write: None,
            needs: Vec::new(),
        };
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
    pub fn claim(&mut self, me: u32, wants: &[(u32, bool)]) -> ClaimStep {
        let mine = self.place(me).expect("it has been enrolled");
        self.asks_nobody(mine);
        self.threads[mine].waits_to_write = None;
        let mut done = 0;
        while let Some(&(line, writes)) = wants.get(done) {
            if is_page(&wants[done..]) && self.take_page(mine, line) {
                done += LARGEST;
                continue;
            }
            while let Some(other) = self.take(mine, line, writes) {
                let waits = self.ask(mine, other, line, writes);
                let state = &self.threads[other];
                // It may have come to rest before it could see that it was asked.
                if state.comes_first(line, writes) || state.holder.hold_still().is_none() {
                    let had = wants[..done].iter().map(|(line, _)| *line);
                    let state = &mut self.threads[mine];
                    state.waits_to_write = writes.then_some(line);
                    state.pinned.clear();
                    state.pinned.extend(had);
                    state.needs.clear();
                    state.needs.extend_from_slice(&wants[done + 1..]);
                    return waits;
                }
                state.holder.let_go();
                self.asks_nobody(mine);
            }
            done += 1;
        }
        self.threads[mine].pinned.clear();
        ClaimStep::Done(self.comes_behind(me))
    }

    /// Takes all lines of a page to write them, if all others that have some are at rest, and have pinned none. Calls map and unmap
    /// memory by megabytes.
    fn take_page(&mut self, mine: usize, line: u32) -> bool {
        let size = LARGEST as u32;
        let page = line..line + size;
        let mut givers: SmallVec<[(usize, Mark); 4]> = SmallVec::new();
        let mut all = true;
        for (at, state) in self.threads.iter().enumerate() {
            let has = at != mine
                && self.pages.may_have(state.place, line)
                && state.table().permits_some(line, size);
            if !has {
                continue;
            }
            let has_pinned = state.pinned.iter().any(|line| page.contains(line));
            let held = (!has_pinned).then(|| state.holder.hold_still()).flatten();
            match held {
                Some(mark) => givers.push((at, mark)),
                None => {
                    all = false;
                    break;
                }
            }
        }
        if all {
            for &(from, mark) in &givers {
                self.threads[from].table().forbid_all(line, size.into());
                self.pages.has_none(self.threads[from].place, line);
                self.leads_behind(from, mine, mark);
            }
            let state = &mut self.threads[mine];
            for line in page {
                if let Some((thread, mark)) = self.writers.get(line) {
                    state.comes_behind(thread, mark);
                }
            }
            state.table().permit_all(line, size.into());
            self.pages.gets(state.place, line);
        }
        for (at, _) in givers {
            self.threads[at].holder.let_go();
        }
        all
    }

    /// Takes a line from all others that are at rest; the one that has to be asked.
    fn take(&mut self, mine: usize, line: u32, writes: bool) -> Option<usize> {
        if self.threads[mine].table().permits(line, writes) {
            return None;
        }
        if let Some(writer) = self.waiting_writer(line).filter(|_| !writes) {
            return Some(writer);
        }
        let (mut taken, mut whole) = (false, writes);
        for other in (0..self.threads.len()).filter(|other| *other != mine) {
            let state = &self.threads[other];
            if !self.pages.may_have(state.place, line) {
                continue;
            }
            if !conflicts(state.table().get(line), writes) {
                if !state.table().permits_some(line, LARGEST as u32) {
                    self.pages.has_none(state.place, line);
                }
                continue;
            }
            let mark = match state.has_pinned(line) {
                true => None,
                false => state.holder.hold_still(),
            };
            let Some(mark) = mark else {
                if taken {
                    // A reader at least, or the next one to ask would not know of those before it.
                    self.grant(mine, line, false);
                }
                return Some(other);
            };
            whole |= self.hand_over(other, mine, line, writes, mark);
            self.take_along(Some((other, mark)), mine, line, writes);
            self.threads[other].holder.let_go();
            taken = true;
        }
        self.grant(mine, line, whole);
        if !taken {
            self.take_along(None, mine, line, writes);
        }
        None
    }

    /// A thread that waits to write a line. Readers come behind it: the others that it has to ask would get the line
    /// again and again before the last of them has given it up.
    fn waiting_writer(&self, line: u32) -> Option<usize> {
        let mut threads = self.threads.iter();
        threads.position(|state| state.waits_to_write == Some(line))
    }

    /// One thread gives a line up at its mark, for another one; the table of the first may be changed. Whether it has
    /// given it up as a whole, and the other one may write it.
    ///
    /// A line that is only read from here on has one last writer, for all readers that come later. It is not the first
    /// thread where that has got the line since its mark: what it comes behind then it says behind the mark.
    fn hand_over(&mut self, from: usize, to: usize, line: u32, writes: bool, mark: Mark) -> bool {
        let table = self.threads[from].table();
        let wrote = table.permits(line, true);
        let whole = writes || wrote && !self.threads[from].behind.is_empty();
        table.set(line, if whole { 0 } else { READ });
        let thread = self.threads[from].thread();
        if wrote && !whole {
            self.writers.set(line, thread, mark);
        }
        self.leads_behind(from, to, mark);
        whole
    }

    /// A thread comes behind the mark of another one, and behind what that one has got since, as it has not come behind that yet.
    fn leads_behind(&mut self, from: usize, to: usize, mark: Mark) {
        for at in 0..self.threads[from].behind.len() {
            let (thread, mark) = self.threads[from].behind[at];
            self.threads[to].comes_behind(thread, mark);
        }
        let thread = self.threads[from].thread();
        self.threads[to].comes_behind(thread, mark);
    }

    /// A line that no other thread has in a way that conflicts is a thread's.
    fn grant(&mut self, mine: usize, line: u32, writes: bool) {
        let state = &mut self.threads[mine];
        if let Some((thread, mark)) = self.writers.get(line) {
            state.comes_behind(thread, mark);
        }
        let permitted = if writes { READ | WRITE } else { READ };
        state.table().set(line, permitted);
        self.pages.gets(state.place, line);
    }

    /// The other lines of a block go along with one, as far as all that have them in a way that conflicts stand at marks:
    /// the one that it comes from, and those at rest.
    fn take_along(&mut self, from: Option<(usize, Mark)>, mine: usize, line: u32, writes: bool) {
        let size = match from {
            Some(_) => self.blocks.go_along_with(line, (self.clock)()),
            None => LARGEST,
        };
        let first = line & !(size as u32 - 1);
        let mut stays = [false; LARGEST];
        for (stays, other) in stays.iter_mut().zip(first..) {
            *stays = other == line || self.threads[mine].table().permits(other, writes);
        }
        let mut givers: SmallVec<[(usize, Mark); 4]> = from.into_iter().collect();
        for place in (0..self.threads.len()).filter(|place| *place != mine) {
            let state = &self.threads[place];
            if let Some(line) = state.waits_to_write.filter(|_| !writes)
                && let Some(stays) = stays[..size].get_mut(line.wrapping_sub(first) as usize)
            {
                *stays = true;
            }
            if !self.pages.may_have(state.place, first) {
                continue;
            }
            let conflicts = |line| conflicts(state.table().get(line), writes);
            let mut wanted = (0..size).filter(|at| !stays[*at] && conflicts(first + *at as u32));
            if from.is_some_and(|(from, _)| from == place) || wanted.next().is_none() {
                continue;
            }
            match state.holder.hold_still() {
                Some(mark) => givers.push((place, mark)),
                None => {
                    for (stays, line) in stays[..size].iter_mut().zip(first..) {
                        *stays |= conflicts(line);
                    }
                }
            }
        }
        for &(place, _) in &givers {
            for pinned in &self.threads[place].pinned {
                if let Some(stays) = stays[..size].get_mut(pinned.wrapping_sub(first) as usize) {
                    *stays = true;
                }
            }
        }
        for (_, other) in stays[..size]
            .iter()
            .zip(first..)
            .filter(|(stays, _)| !**stays)
        {
            let mut whole = writes;
            for &(place, mark) in &givers {
                if conflicts(self.threads[place].table().get(other), writes) {
                    whole |= self.hand_over(place, mine, other, writes, mark);
                }
            }
            self.grant(mine, other, whole);
        }
        let held = givers.iter().skip(usize::from(from.is_some()));
        held.for_each(|(place, _)| self.threads[*place].holder.let_go());
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

    fn give(&mut self, mine: usize, by: usize, ask: LineAsk, mark: Mark) {
        self.threads[by].asks = None;
        let permitted = self.threads[mine].table().get(ask.line);
        if !conflicts(permitted, ask.writes) {
            return;
        }
        let whole = self.hand_over(mine, by, ask.line, ask.writes, mark);
        // It has the line at once, or the next one to ask would not know of this thread. Where others read it, it
        // hears of them when it goes on with its claim, and keeps nothing before: two might wait for each other.
        let writes = whole && !self.is_read_beside(by, ask.line);
        self.grant(by, ask.line, writes);
        if writes || !ask.writes {
            self.threads[by].pin(ask.line);
        }
        self.take_along(Some((mine, mark)), by, ask.line, writes && ask.writes);
        self.give_needed(mine, by, mark);
    }

    /// What the other one will ask for next goes along too. It is not kept for the access at hand: lines are kept in
    /// one order.
    fn give_needed(&mut self, mine: usize, by: usize, mark: Mark) {
        let needs = std::mem::take(&mut self.threads[by].needs);
        for &(line, writes) in &needs {
            let state = &self.threads[mine];
            let waits = !writes && self.waiting_writer(line).is_some();
            if conflicts(state.table().get(line), writes) && !state.has_pinned(line) && !waits {
                let whole = self.hand_over(mine, by, line, writes, mark);
                self.grant(by, line, whole && !self.is_read_beside(by, line));
            }
        }
        self.threads[by].needs = needs;
    }

    /// Whether other threads have a line.
    fn is_read_beside(&self, place: usize, line: u32) -> bool {
        let mut others = (0..self.threads.len()).filter(|other| *other != place);
        others.any(|other| {
            let state = &self.threads[other];
            self.pages.may_have(state.place, line) && state.table().get(line) != 0
        })
    }
}

/// Whether these begin with all lines of a page, to be written.
fn is_page(wants: &[(u32, bool)]) -> bool {
    let Some(page) = wants.get(..LARGEST) else {
        return false;
    };
    let first = page[0].0;
    first.is_multiple_of(LARGEST as u32)
        && page
            .iter()
            .zip(first..)
            .all(|(want, line)| *want == (line, true))
}

/// Whether a thread with these permissions has a line in a way in which it cannot while another one reads it, or writes.
fn conflicts(permitted: u8, writes: bool) -> bool {
    match writes {
        true => permitted != 0,
        false => permitted & WRITE != 0,
    }
}
