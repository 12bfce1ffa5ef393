//! Finds data races by happens-before (after FastTrack, Flanagan and Freund 2009): accesses come in
//! the order of a recording, and synchronisation between them. The detector knows neither a replay nor
//! a system call, and must never touch guest memory.

use std::collections::{BTreeSet, HashSet};

use relive_host::track::lines::Lines;

use super::clocks::Clocks;
use super::found_races::FoundRaces;
use super::learnt::Learnt;
use super::orders::Orders;
use super::shadow::{Numbers, Part, Shadow, parts};
use super::shadow_cell::{Made, preferred};
use super::touch::{SyncObject, Touch, TouchOutcome, TouchPosition, Use};
use crate::call::words::words;
use crate::guide::races::{OrderedAccess, Race, RaceAccess, RaceHints, Races};

/// Late words that are kept.
const MOST_LATE: usize = 100_000;
/// Bytes of the words that synchronisation is told apart by.
const SYNC: u64 = 4;
/// Bytes of one access that are looked at.
const MOST_BYTES: u64 = 1 << 20;

/// Finds the races of one process.
#[derive(Default)]
pub struct Detector {
    clocks: Clocks,
    shadow: Shadow,
    sites: HashSet<u64>,
    found: FoundRaces,
    late: BTreeSet<(u64, u64)>,
    /// The calls that accesses were made by, by the place that stands for them.
    calls: Numbers<u32>,
    /// Races are places to be learnt, and are not reported.
    learnt: Option<Learnt>,
    /// Orders of accesses are looked for, and no races.
    orders: Option<Orders>,
    /// Marks alone order threads.
    by_marks: bool,
}

impl Detector {
    /// With all that is known before.
    pub fn new(hints: &RaceHints) -> Self {
        let mut detector = Self {
            sites: hints.sites.iter().copied().collect(),
            ..Self::default()
        };
        for site in &hints.sites {
            detector.clocks.lines.tell_all_of(*site);
        }
        for (addr, size) in &hints.words {
            detector.synchronises(*addr, *size);
        }
        detector
    }

    /// One that learns places.
    pub fn learning() -> Self {
        Self {
            learnt: Some(Learnt::default()),
            ..Self::default()
        }
    }

    /// One that learns, to which each pair of accesses matters that races: the last races are complete.
    pub fn of_pairs() -> Self {
        Self {
            learnt: Some(Learnt::of_pairs()),
            ..Self::default()
        }
    }

    /// One to which marks alone order threads.
    pub fn of_marks() -> Self {
        Self {
            by_marks: true,
            ..Self::default()
        }
    }

    /// Whether it is one.
    pub fn checks_marks(&self) -> bool {
        self.by_marks
    }

    /// A thread passes one of its marks.
    pub fn passes_mark(&mut self, thread: (u32, u32), mark: u64) {
        self.clocks.passes_mark(thread, mark);
    }

    /// A thread goes on behind a mark of another one, or its end (0).
    pub fn comes_behind(&mut self, thread: (u32, u32), other: (u32, u32), mark: u64) {
        self.clocks.comes_behind(thread, other, mark);
    }

    /// One that looks for orders of accesses.
    pub fn of_orders() -> Self {
        Self {
            orders: Some(Orders::default()),
            ..Self::default()
        }
    }

    /// One of the same kind, for a new program.
    pub fn anew(&self, hints: &RaceHints) -> Self {
        match (&self.learnt, &self.orders) {
            _ if self.by_marks => Self::of_marks(),
            (Some(learnt), _) if learnt.wants_pairs() => Self::of_pairs(),
            (Some(_), _) => Self::learning(),
            (None, Some(_)) => Self::of_orders(),
            (None, None) => Self::new(hints),
        }
    }

    /// Whether it does.
    pub fn learns(&self) -> bool {
        self.learnt.is_some()
    }

    /// The places that it has learnt.
    pub fn learnt(&self) -> BTreeSet<u64> {
        let learnt = self.learnt.as_ref();
        learnt.map_or_else(BTreeSet::new, |learnt| learnt.places.clone())
    }

    /// The last races that it has learnt of.
    pub fn last_races(&self) -> Vec<Race> {
        let last = self.learnt.iter().flat_map(|learnt| &learnt.last);
        last.copied().collect()
    }

    /// The last races in which a thread took part at a tick, or beside it.
    pub fn races_at(&self, thread: u32, tick: u64) -> Vec<Race> {
        let learnt = self.learnt.as_ref();
        learnt.map_or_else(Vec::new, |learnt| learnt.at(thread, tick))
    }

    /// Threads that ran.
    pub fn threads(&self) -> usize {
        self.clocks.threads()
    }

    /// Accesses that the routine in front of this settles by itself.
    pub fn lines(&mut self) -> &mut Lines {
        &mut self.clocks.lines
    }

    /// The thread that runs from now on, by process and index. One that was not seen before
    /// was made by the one that ran up to now.
    pub fn run(&mut self, process: u32, index: u32) {
        self.with_threads(index, |clocks| clocks.run(process, index));
    }

    /// A thread has been made by the running one.
    pub fn born(&mut self, process: u32, index: u32) {
        self.with_threads(index, |clocks| clocks.born(process, index));
    }

    /// The running thread learns of all that another one has done.
    pub fn learn_from(&mut self, process: u32, index: u32) {
        self.with_threads(index, |clocks| clocks.learn_from(process, index));
    }

    /// Makes a change that may be the first one of this thread.
    fn with_threads(&mut self, index: u32, change: impl FnOnce(&mut Clocks)) {
        let before = self.clocks.threads();
        change(&mut self.clocks);
        if let Some(orders) = &mut self.orders
            && self.clocks.threads() > before
        {
            orders.begin(index);
        }
    }

    /// The running thread and all others learn of each other.
    pub fn barrier(&mut self) {
        self.clocks.barrier();
    }

    /// The running thread ends, and clears this word: a thread that finds it so knows of all that this one did.
    pub fn ends(&mut self, clear_tid: u64) {
        if let (Some(orders), Some(thread)) = (&mut self.orders, self.clocks.running()) {
            orders.end(thread, clear_tid);
        }
        self.synchronises(clear_tid, 4);
        self.uses(SyncObject::Word(clear_tid / 4 * 4), Use::Release);
    }

    /// The running thread makes a call by this instruction.
    pub fn calls(&mut self, site: u64, nr: u32, args: &[u64; 6]) {
        if let (Some(orders), Some(thread)) = (&mut self.orders, self.clocks.running()) {
            if i64::from(nr) == libc::SYS_rt_sigreturn {
                orders.returns(thread);
            }
            let access = OrderedAccess { thread, site };
            orders.note_call(access, &words(nr, args));
        }
    }

    /// A signal comes to the running thread.
    pub fn takes_signal(&mut self) {
        if let (Some(orders), Some(thread)) = (&mut self.orders, self.clocks.running()) {
            orders.handles(thread);
        }
        self.uses(SyncObject::Signals, Use::Acquire);
    }

    /// The running thread uses an object.
    pub fn uses(&mut self, object: SyncObject, how: Use) {
        if let (Some(orders), Some(thread), SyncObject::Word(word), Use::Acquire) =
            (&mut self.orders, self.clocks.running(), object, how)
        {
            orders.looks_at(thread, word);
        }
        self.clocks.uses(object, how);
    }

    /// Threads synchronise by this word.
    pub fn synchronises(&mut self, addr: u64, size: u64) {
        let size = size.min(MOST_BYTES);
        if let Some(learnt) = &mut self.learnt {
            parts(addr, size).for_each(|part| learnt.synchronises(part));
            return;
        }
        let mut late = false;
        for part in parts(addr, size) {
            late |= self.shadow.synchronises(part);
        }
        if late && self.late.len() < MOST_LATE {
            self.late.insert((addr, size));
        }
    }

    /// Other memory is there from now on.
    pub fn renew(&mut self, start: u64, end: u64) {
        if let Some(learnt) = &mut self.learnt {
            learnt.renew(start, end);
        }
        self.shadow.renew(start, end);
        self.clocks.lines.forget();
    }

    /// The running thread makes an access.
    pub fn touch(&mut self, touch: &Touch, at: impl FnOnce() -> TouchPosition) -> TouchOutcome {
        self.clocks.settle();
        let outcome = self.touched(touch, at);
        self.clocks.publish();
        outcome
    }

    fn touched(&mut self, touch: &Touch, at: impl FnOnce() -> TouchPosition) -> TouchOutcome {
        if let (Some(orders), Some(thread)) = (&mut self.orders, self.clocks.running()) {
            orders.note(thread, touch);
            // The filter does not tell instructions apart.
            return match orders.wants_all() {
                true => TouchOutcome::Acquired,
                false => TouchOutcome::Known,
            };
        }
        if self.by_marks {
            let at = at();
            for part in parts(touch.addr, touch.size.min(MOST_BYTES)) {
                self.look(touch, part, at);
            }
            return TouchOutcome::Known;
        }
        let is_site = !self.sites.is_empty() && self.sites.contains(&touch.pc);
        if touch.atomic || is_site {
            self.synchronises(touch.addr, touch.size);
        }
        if self.learns() {
            return self.touch_to_learn(touch, at());
        }
        if touch.atomic {
            self.use_words(touch, Use::Both);
            return TouchOutcome::Released;
        }
        let size = touch.size.min(MOST_BYTES);
        let is_sync = self.synchronises_by(touch);
        if is_sync {
            let how = if touch.writes {
                Use::Both
            } else {
                Use::Acquire
            };
            self.use_words(touch, how);
        }
        let at = at();
        let mut parts = parts(touch.addr, size);
        if let (true, Some(part), None) = (touch.has_line() && !is_sync, parts.next(), parts.next())
        {
            self.look_and_know(touch, part, at);
            return TouchOutcome::Known;
        }
        let mut is_all_sync = true;
        for part in super::shadow::parts(touch.addr, size) {
            is_all_sync &= part.mask & !self.shadow.sync(part.word) == 0;
            self.look(touch, part, at);
        }
        if is_all_sync && is_sync && !touch.writes && touch.has_line() {
            // Nobody else releases it before another thread runs.
            self.clocks.lines.ignores(touch.addr, touch.size);
        }
        match (is_sync, touch.writes) {
            (false, _) => TouchOutcome::Known,
            (true, true) => TouchOutcome::Released,
            (true, false) => TouchOutcome::Acquired,
        }
    }

    /// Looks for races of an access of one word; if there are none, the routine does without this the
    /// next time.
    fn look_and_know(&mut self, touch: &Touch, part: Part, at: TouchPosition) {
        let Some((new, false)) = self.look(touch, part, at) else {
            return;
        };
        if let Some(slot) = self.shadow.slot(part.word, &new) {
            self.clocks
                .lines
                .renews(touch.addr, touch.size, touch.writes, slot);
        }
    }

    /// The running thread makes an access, which may race with others before it has synchronised with them.
    fn touch_to_learn(&mut self, touch: &Touch, at: TouchPosition) -> TouchOutcome {
        if touch.atomic
            && let Some(learnt) = &mut self.learnt
        {
            learnt.is_ordered(touch.pc);
        }
        for part in parts(touch.addr, touch.size.min(MOST_BYTES)) {
            self.look(touch, part, at);
        }
        match (self.synchronises_by(touch), touch.writes) {
            // The filter does not tell instructions apart.
            (false, _) if self.learnt.as_ref().is_some_and(Learnt::wants_pairs) => {
                TouchOutcome::Acquired
            }
            (false, _) => TouchOutcome::Known,
            (true, true) => {
                self.use_words(touch, Use::Both);
                TouchOutcome::Released
            }
            (true, false) => {
                self.use_words(touch, Use::Acquire);
                TouchOutcome::Acquired
            }
        }
    }

    /// Whether an access has a byte that threads synchronise by.
    fn synchronises_by(&mut self, touch: &Touch) -> bool {
        let mut parts = parts(touch.addr, touch.size.min(MOST_BYTES));
        match &self.learnt {
            Some(learnt) => parts.any(|part| learnt.is_sync(part)),
            None => parts.any(|part| self.shadow.sync(part.word) & part.mask != 0),
        }
    }

    /// The words of an access are used.
    fn use_words(&mut self, touch: &Touch, how: Use) {
        let first = touch.addr / SYNC;
        let last = touch.addr.saturating_add(touch.size.clamp(1, 64) - 1) / SYNC;
        let mut held = [std::ptr::null_mut(); 2];
        for word in first..=last {
            if let Some(now) = self.clocks.act_on(SyncObject::Word(word * SYNC), how) {
                held = [if word == first { now } else { held[0] }, now];
            }
        }
        // One that learns is told of each.
        if touch.atomic && touch.has_line() && last - first < 2 && !self.learns() {
            self.clocks.lines.releases(touch.addr, touch.size, held);
        }
    }

    /// Looks for races of a part of an access: as it was kept, and whether it races.
    fn look(&mut self, touch: &Touch, part: Part, at: TouchPosition) -> Option<(Made, bool)> {
        let (current, clock) = self.clocks.now()?;
        let thread = u16::try_from(current).ok()?;
        let new = Made {
            time: clock.of(current),
            thread,
            mask: part.mask,
            writes: touch.writes.into(),
            tick: at.tick,
            event: at.event,
            place: touch.pc,
        };
        let learnt = self.learnt.as_mut();
        let pairs = learnt.map_or_else(Vec::new, |learnt| learnt.pairs(part.word, new, clock));
        let mut racing: Option<Made> = None;
        let mut tell = |old: Made| racing = Some(racing.map_or(old, |one| preferred(one, old)));
        if self.shadow.add(part.word, new, clock, &mut tell) {
            self.clocks.lines.forget();
        }
        if let Some(nr) = touch.call {
            self.calls.insert(place_of_call(touch.pc, at.event), nr);
        }
        if let Some(old) = racing {
            self.found(&old, &new, part.word, touch.call);
        }
        for old in pairs {
            self.found(&old, &new, part.word, touch.call);
        }
        Some((new, racing.is_some()))
    }

    /// A pair of accesses races.
    fn found(&mut self, old: &Made, new: &Made, word: u64, call: Option<u32>) {
        if self.learns() {
            let race = self.race(old, new, word, call);
            let was_call = self.calls.contains_key(&place_of_call(old.pc(), old.event));
            let Some(learnt) = &mut self.learnt else {
                return;
            };
            learnt.comes_last(race);
            for (pc, by_call) in [(old.pc(), was_call), (new.pc(), call.is_some())] {
                if !by_call {
                    learnt.races(pc);
                }
            }
            return;
        }
        let places = [(old.pc(), old.writes != 0), (new.pc(), new.writes != 0)];
        if !self.found.counts(places) {
            let race = self.race(old, new, word, call);
            self.found.add(places, race);
        }
    }

    fn race(&self, old: &Made, new: &Made, word: u64, call: Option<u32>) -> Race {
        let access = |made: &Made, call: Option<u32>| RaceAccess {
            thread: self.clocks.index(made.thread.into()),
            event: made.event,
            tick: made.tick,
            pc: made.pc(),
            addr: word + u64::from(made.mask.trailing_zeros()),
            size: made.mask.count_ones().into(),
            writes: made.writes != 0,
            call,
        };
        let earlier = self.calls.get(&place_of_call(old.pc(), old.event)).copied();
        Race {
            first: access(old, earlier),
            second: access(new, call),
            count: 1,
        }
    }

    /// The races found so far.
    pub fn races(&self) -> Races {
        Races {
            races: self.found.races().to_vec(),
            more: self.found.has_more(),
            late: self.late.iter().copied().collect(),
            orders: self
                .orders
                .as_ref()
                .map_or_else(Vec::new, |o| o.found().to_vec()),
            threads: self.clocks.threads() as u32,
            ..Races::default()
        }
    }
}

/// Stands for a system call at an event.
fn place_of_call(pc: u64, event: u64) -> u64 {
    pc ^ event << 48
}

#[cfg(test)]
mod tests;
