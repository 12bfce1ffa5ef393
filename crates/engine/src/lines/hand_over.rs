//! How lines go from one thread to another. Must be called with the directory's lock alone, and never wait.

use std::ops::Range;

use relive_host::permissions::{READ, WRITE};
use smallvec::SmallVec;

use super::blocks::LARGEST;
use super::directory::Directory;
use super::holder_state::LineAsk;
use super::line_holder::Mark;
use super::line_ranges::LineRange;

/// Threads that give lines up, by their places, and their marks.
type Givers = SmallVec<[(usize, Mark); 4]>;

impl Directory {
    /// Takes the lines of whole pages to write them, from all others that are at rest, as far as no other one has or has pinned
    /// some: calls map and unmap memory by gibibytes. `answers` stands at its mark too. The first line that is not taken.
    pub(super) fn take_pages(
        &mut self,
        to: usize,
        lines: Range<u32>,
        answers: Option<(usize, Mark)>,
    ) -> u32 {
        let mut end = lines.end;
        let mut givers = Givers::new();
        for (at, state) in self.threads.iter().enumerate().filter(|(at, _)| *at != to) {
            let Some(first) = state.first_line(&self.pages, lines.start..end) else {
                continue;
            };
            let answers = answers.filter(|(answers, _)| *answers == at);
            let mark = match answers {
                Some((_, mark)) => Some(mark),
                None => state.holder.hold_still(),
            };
            let stays = match mark {
                Some(mark) => {
                    givers.push((at, mark));
                    state.pinned.first_of(lines.start..end)
                }
                None => Some(first),
            };
            if let Some(stays) = stays {
                end = stays & !(LARGEST as u32 - 1);
            }
        }
        let taken = lines.start..end.max(lines.start);
        for &(from, mark) in &givers {
            let state = &self.threads[from];
            if let Some(first) = state.first_line(&self.pages, taken.clone()) {
                // It has none before this page.
                let first = first & !(LARGEST as u32 - 1);
                let count = taken.end - first;
                state.table().forbid_all(first, count.into());
                for page in (first..taken.end).step_by(LARGEST) {
                    self.pages.has_none(state.place, page);
                }
                self.leads_behind(from, to, mark);
            }
            if answers.is_none_or(|(answers, _)| answers != from) {
                self.threads[from].holder.let_go();
            }
        }
        self.grant_all(to, taken.clone());
        taken.end
    }

    /// The lines of whole pages, which no other thread has, are a thread's to write.
    fn grant_all(&mut self, to: usize, lines: Range<u32>) {
        let state = &mut self.threads[to];
        self.writers.each_of(lines.clone(), |thread, mark| {
            state.comes_behind(thread, mark)
        });
        let count = lines.end - lines.start;
        state.table().permit_all(lines.start, count.into());
        for page in lines.step_by(LARGEST) {
            self.pages.gets(state.place, page);
        }
    }

    /// Takes a line from all others that are at rest; the one that has to be asked.
    pub(super) fn take(&mut self, mine: usize, line: u32, writes: bool) -> Option<usize> {
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
            let mark = match state.pinned.contains(line) {
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
        let mut givers: Givers = from.into_iter().collect();
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
            let pinned = &self.threads[place].pinned;
            for (stays, line) in stays[..size].iter_mut().zip(first..) {
                *stays |= pinned.contains(line);
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

    /// A thread that stands at its mark gives up what another one asks it for.
    pub(super) fn give(&mut self, mine: usize, by: usize, ask: LineAsk, mark: Mark) {
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
            self.threads[by].pinned.insert(ask.line);
        }
        self.take_along(Some((mine, mark)), by, ask.line, writes && ask.writes);
        self.give_needed(mine, by, mark);
    }

    /// What the other one will ask for next goes along too. It is not kept for the access at hand: lines are kept in
    /// one order.
    fn give_needed(&mut self, mine: usize, by: usize, mark: Mark) {
        let needs = std::mem::take(&mut self.threads[by].needs);
        for range in &needs {
            let mut lines = range.lines();
            while let Some(line) = self.threads[mine].first_line(&self.pages, lines.clone()) {
                lines.start = line + 1;
                let LineRange { writes, .. } = *range;
                let pages = range.pages_from(line);
                if !pages.is_empty() {
                    let taken = self.take_pages(by, pages, Some((mine, mark)));
                    if taken > line {
                        lines.start = taken;
                        continue;
                    }
                }
                let state = &self.threads[mine];
                let waits = !writes && self.waiting_writer(line).is_some();
                let pinned = state.pinned.contains(line);
                if conflicts(state.table().get(line), writes) && !pinned && !waits {
                    let whole = self.hand_over(mine, by, line, writes, mark);
                    self.grant(by, line, whole && !self.is_read_beside(by, line));
                }
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

/// Whether a thread with these permissions has a line in a way in which it cannot while another one reads it, or writes.
fn conflicts(permitted: u8, writes: bool) -> bool {
    match writes {
        true => permitted != 0,
        false => permitted & WRITE != 0,
    }
}
