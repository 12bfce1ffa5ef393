//! Finds data races by happens-before (after FastTrack, Flanagan and Freund 2009): accesses come in
//! the order of a recording, and synchronisation between them. The detector knows neither a replay nor
//! a system call, and must never touch guest memory.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::clock::VectorClock;
use super::shadow::{Made, Mixed, Numbers, Part, Shadow, parts};
use super::touch::{SyncObject, Touch, TouchOutcome, TouchPosition, Use};
use crate::guide::races::{Race, RaceAccess, RaceHints, Races};

/// Pairs of places that are kept.
const MOST_RACES: usize = 2000;
/// Late words that are kept.
const MOST_LATE: usize = 100_000;
/// Bytes of the words that synchronisation is told apart by.
const SYNC: u64 = 4;
/// Bytes of one access that are looked at.
const MOST_BYTES: u64 = 1 << 20;

/// A thread.
struct Runner {
    clock: VectorClock,
    /// Index in the recording.
    index: u32,
}

/// The places of a pair: instruction, and whether it writes.
type KnownPlaces = [(u64, bool); 2];

/// Finds the races of one process.
#[derive(Default)]
pub struct Detector {
    runners: Vec<Runner>,
    numbers: HashMap<(u32, u32), usize>,
    current: usize,
    objects: Mixed<SyncObject, VectorClock>,
    shadow: Shadow,
    sites: HashSet<u64>,
    found: HashMap<KnownPlaces, usize>,
    races: Vec<Race>,
    more: bool,
    late: BTreeSet<(u64, u64)>,
    /// The calls that accesses were made by, by the place that stands for them.
    calls: Numbers<u32>,
}

impl Detector {
    /// With all that is known before.
    pub fn new(hints: &RaceHints) -> Self {
        let mut detector = Self {
            sites: hints.sites.iter().copied().collect(),
            ..Self::default()
        };
        for (addr, size) in &hints.words {
            detector.synchronises(*addr, *size);
        }
        detector
    }

    /// Threads that ran.
    pub fn threads(&self) -> usize {
        self.runners.len()
    }

    /// The thread that runs from now on, by process and index. One that was not seen before
    /// was made by the one that ran up to now.
    pub fn run(&mut self, process: u32, index: u32) {
        self.current = self.number(process, index);
    }

    /// A thread has been made by the running one.
    pub fn born(&mut self, process: u32, index: u32) {
        self.number(process, index);
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
        self.runners.push(Runner { clock, index });
        self.numbers.insert((process, index), number);
        number
    }

    /// The running thread learns of all that another one has done.
    pub fn learn_from(&mut self, process: u32, index: u32) {
        let other = self.number(process, index);
        let theirs = self.runners[other].clock.clone();
        self.runners[other].clock.advance(other);
        self.runners[self.current].clock.join(&theirs);
    }

    /// The running thread and all others learn of each other.
    pub fn barrier(&mut self) {
        let mut all = VectorClock::default();
        for runner in &self.runners {
            all.join(&runner.clock);
        }
        for (number, runner) in self.runners.iter_mut().enumerate() {
            runner.clock.join(&all);
            runner.clock.advance(number);
        }
    }

    /// The running thread uses an object.
    pub fn uses(&mut self, object: SyncObject, how: Use) {
        let mine = &mut self.runners[self.current].clock;
        let shared = match how {
            Use::Acquire => match self.objects.get_mut(&object) {
                Some(shared) => shared,
                None => return,
            },
            _ => self.objects.entry(object).or_default(),
        };
        if how != Use::Release {
            mine.join(shared);
        }
        if how != Use::Acquire {
            shared.join(mine);
            mine.advance(self.current);
        }
    }

    /// Threads synchronise by this word.
    pub fn synchronises(&mut self, addr: u64, size: u64) {
        let size = size.min(MOST_BYTES);
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
        self.shadow.renew(start, end);
    }

    /// The running thread makes an access.
    pub fn touch(&mut self, touch: &Touch, at: impl FnOnce() -> TouchPosition) -> TouchOutcome {
        let is_site = !self.sites.is_empty() && self.sites.contains(&touch.pc);
        if touch.atomic || is_site {
            self.synchronises(touch.addr, touch.size);
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
        for part in parts(touch.addr, size) {
            self.look(touch, part, at);
        }
        match (is_sync, touch.writes) {
            (false, _) => TouchOutcome::Known,
            (true, true) => TouchOutcome::Released,
            (true, false) => TouchOutcome::Acquired,
        }
    }

    /// Whether an access has a byte that threads synchronise by.
    fn synchronises_by(&mut self, touch: &Touch) -> bool {
        parts(touch.addr, touch.size.min(MOST_BYTES))
            .any(|part| self.shadow.sync(part.word) & part.mask != 0)
    }

    /// The words of an access are used.
    fn use_words(&mut self, touch: &Touch, how: Use) {
        let first = touch.addr / SYNC;
        let last = touch.addr.saturating_add(touch.size.clamp(1, 64) - 1) / SYNC;
        for word in first..=last {
            self.uses(SyncObject::Word(word * SYNC), how);
        }
    }

    /// Looks for races of a part of an access.
    fn look(&mut self, touch: &Touch, part: Part, at: TouchPosition) {
        let Ok(thread) = u16::try_from(self.current) else {
            return;
        };
        let runner = &self.runners[self.current];
        let new = Made {
            clock: runner.clock.of(self.current),
            thread,
            mask: part.mask,
            writes: touch.writes,
            tick: at.tick,
            event: at.event,
            pc: touch.pc,
        };
        let mut racing: Option<Made> = None;
        let mut tell = |old: Made| racing = Some(racing.unwrap_or(old));
        self.shadow.add(part.word, new, &runner.clock, &mut tell);
        if let Some(nr) = touch.call {
            self.calls.insert(place_of_call(touch.pc, at.event), nr);
        }
        if let Some(old) = racing {
            self.found(&old, &new, part.word, touch.call);
        }
    }

    /// A pair of accesses races.
    fn found(&mut self, old: &Made, new: &Made, word: u64, call: Option<u32>) {
        let places = [(old.pc, old.writes), (new.pc, new.writes)];
        let turned = [places[1], places[0]];
        if let Some(race) = self.found.get(&places).or_else(|| self.found.get(&turned)) {
            self.races[*race].count += 1;
            return;
        }
        if self.races.len() == MOST_RACES {
            self.more = true;
            return;
        }
        self.found.insert(places, self.races.len());
        let access = |made: &Made, call: Option<u32>| RaceAccess {
            thread: self.runners[usize::from(made.thread)].index,
            event: made.event,
            tick: made.tick,
            pc: made.pc,
            addr: word + u64::from(made.mask.trailing_zeros()),
            size: made.mask.count_ones().into(),
            writes: made.writes,
            call,
        };
        let earlier = self.calls.get(&place_of_call(old.pc, old.event)).copied();
        self.races.push(Race {
            first: access(old, earlier),
            second: access(new, call),
            count: 1,
        });
    }

    /// What was found so far.
    pub fn races(&self) -> Races {
        Races {
            races: self.races.clone(),
            more: self.more,
            late: self.late.iter().copied().collect(),
            threads: self.runners.len() as u32,
            ..Races::default()
        }
    }
}

/// Stands for a system call at an event.
fn place_of_call(pc: u64, event: u64) -> u64 {
    pc ^ event << 48
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(detector: &mut Detector, thread: u32, addr: u64, writes: bool, atomic: bool) {
        detector.run(0, thread);
        let touch = Touch {
            pc: 0x1000 + addr + u64::from(writes),
            addr,
            size: 4,
            writes,
            atomic,
            call: None,
        };
        detector.touch(&touch, TouchPosition::default);
    }

    fn two_threads() -> Detector {
        let mut detector = Detector::default();
        detector.run(0, 0);
        detector.born(0, 1);
        detector
    }

    #[test]
    fn a_creator_and_its_thread_race_behind_the_creation_only() {
        let mut detector = Detector::default();
        access(&mut detector, 0, 64, true, false);
        detector.born(0, 1);
        access(&mut detector, 1, 64, true, false);
        assert_eq!(detector.races().races.len(), 0);
        access(&mut detector, 0, 64, false, false);
        let races = detector.races().races;
        assert_eq!(races.len(), 1);
        assert_eq!((races[0].first.thread, races[0].second.thread), (1, 0));
    }

    #[test]
    fn a_word_of_atomic_instructions_orders_plain_accesses_too() {
        let mut detector = two_threads();
        access(&mut detector, 0, 128, true, true); // lock
        access(&mut detector, 0, 64, true, false);
        access(&mut detector, 0, 128, true, false); // unlock by a plain store
        access(&mut detector, 1, 128, true, true);
        access(&mut detector, 1, 64, true, false);
        assert_eq!(detector.races().races.len(), 0);
        // Its neighbour is plain data.
        access(&mut detector, 0, 132, true, false);
        access(&mut detector, 1, 132, true, false);
        assert_eq!(detector.races().races.len(), 1);
    }

    #[test]
    fn a_site_makes_its_word_one_to_synchronise_by() {
        let hints = RaceHints {
            words: Vec::new(),
            sites: vec![0x1000 + 128 + 1],
        };
        let mut detector = Detector::new(&hints);
        detector.run(0, 0);
        detector.born(0, 1);
        access(&mut detector, 0, 64, true, false);
        access(&mut detector, 0, 128, true, false);
        access(&mut detector, 1, 128, false, false);
        access(&mut detector, 1, 64, false, false);
        assert_eq!(detector.races().races.len(), 0);
        access(&mut detector, 1, 72, true, false);
        access(&mut detector, 0, 72, true, false);
        assert_eq!(detector.races().races.len(), 1);
    }

    #[test]
    fn new_memory_has_no_past() {
        let mut detector = two_threads();
        access(&mut detector, 0, 64, true, false);
        detector.renew(64, 4096);
        access(&mut detector, 1, 64, true, false);
        assert_eq!(detector.races().races.len(), 0);
    }
}
