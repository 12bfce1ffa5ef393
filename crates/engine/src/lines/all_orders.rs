//! Every order in which a few threads can take the steps of the protocol, by the code of the directory itself: a step is
//! what a thread does under the directory's lock, or with one access to a word that others use. After each step at most
//! one thread may write a line, and then no other one has it; each access comes behind all earlier ones that conflict
//! with it, by marks alone; and no thread waits for ever.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::Config;

use super::{ClaimStep, Directory, Holder, LineRange, Mark};

/// An access: lines, and whether they are written.
type Wants = &'static [LineRange];

/// What a thread does: its accesses, one after the other; then it ends.
type Story = &'static [Wants];

/// What a thread has behind it, as its tape says it.
enum StoryEntry {
    Access(Wants),
    Mark,
}

/// Lines of all stories.
const LINES: [u32; 3] = [0, 1, 64];

/// Where a thread stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClaimantAt {
    /// In front of an access.
    Asks,
    /// It is about to rest, until the number of its wakings changes.
    Rests(u32),
    /// It has said that it rests, and looks whether it has been asked.
    Looks(u32, Mark),
    /// It sleeps.
    Sleeps(u32),
    /// It is at rest in a call, and looks whether it has been asked.
    Calls(Mark),
    /// It is at rest in a call.
    InCall,
    /// It has all lines.
    Granted,
    /// It has made its access, and looks whether it has been asked.
    Made,
    /// It has nothing left to do.
    Ends,
    Ended,
}

struct Claimant {
    holder: Arc<Holder>,
    /// The word that the holder changes.
    _looked_up: Box<AtomicU64>,
    story: Story,
    next: usize,
    at: ClaimantAt,
    /// It has made an access since it got lines.
    gets_on: bool,
    entries: Vec<StoryEntry>,
    /// So much of each thread comes before what it does next.
    clock: Vec<usize>,
    /// The same at each of its marks.
    marks: Vec<Vec<usize>>,
}

impl Claimant {
    /// It comes to what follows in its story.
    fn go_on(&mut self) -> ClaimantAt {
        self.next += 1;
        match self.next == self.story.len() {
            true => ClaimantAt::Ends,
            false => ClaimantAt::Asks,
        }
    }
}

struct ModelOfLines {
    directory: Directory,
    threads: Vec<Claimant>,
}

impl ModelOfLines {
    fn new(stories: &[Story]) -> Self {
        let mut directory = Directory::new().expect("memory");
        directory.clock = || 0;
        let none = directory.none();
        let thread = |(index, story): (usize, &Story)| {
            let looked_up = Box::new(AtomicU64::new(0));
            let holder = Holder::new(index as u32, (0, 0), &looked_up, none).expect("memory");
            Claimant {
                holder: Arc::new(holder),
                _looked_up: looked_up,
                story,
                next: 0,
                at: ClaimantAt::Asks,
                gets_on: true,
                entries: Vec::new(),
                clock: vec![0; stories.len()],
                marks: Vec::new(),
            }
        };
        let threads: Vec<Claimant> = stories.iter().enumerate().map(thread).collect();
        for thread in &threads {
            directory.enrol(Arc::clone(&thread.holder));
        }
        Self { directory, threads }
    }

    /// Everything as at the beginning.
    fn start_over(&mut self) {
        self.directory.start_over();
        for thread in &mut self.threads {
            thread.holder.table.clear();
            thread.holder.goes_on();
            thread.holder.looks_at_own();
            (thread.next, thread.at) = (0, ClaimantAt::Asks);
            thread.gets_on = true;
            thread.entries.clear();
            thread.marks.clear();
            thread.clock.fill(0);
            self.directory.enrol(Arc::clone(&thread.holder));
        }
    }

    fn can_step(&self, thread: usize) -> bool {
        let thread = &self.threads[thread];
        match thread.at {
            ClaimantAt::Sleeps(since) => thread.holder.wakings() != since,
            ClaimantAt::Ended => false,
            _ => true,
        }
    }

    fn mark(&mut self, me: usize) -> Mark {
        let thread = &mut self.threads[me];
        thread.clock[me] = thread.entries.len();
        thread.entries.push(StoryEntry::Mark);
        thread.marks.push(thread.clock.clone());
        thread.marks.len() as Mark
    }

    fn come_behind(&mut self, me: usize, behind: &[(u32, Mark)]) {
        for &(other, mark) in behind {
            let other = &self.threads[other as usize];
            let clock = match mark {
                0 => {
                    assert!(
                        other.at == ClaimantAt::Ended,
                        "behind an end that has not come"
                    );
                    other.clock.clone()
                }
                mark => other.marks[mark as usize - 1].clone(),
            };
            for (mine, theirs) in self.threads[me].clock.iter_mut().zip(clock) {
                *mine = theirs.max(*mine);
            }
        }
    }

    fn step(&mut self, me: usize) {
        let index = me as u32;
        let thread = &self.threads[me];
        self.threads[me].at = match thread.at {
            ClaimantAt::Asks if thread.story[thread.next].is_empty() => {
                let mark = self.mark(me);
                self.threads[me].holder.rests(mark);
                ClaimantAt::Calls(mark)
            }
            ClaimantAt::Calls(mark) => {
                if thread.holder.has_been_asked() {
                    self.directory.answer(index, mark);
                }
                ClaimantAt::InCall
            }
            ClaimantAt::InCall => {
                thread.holder.goes_on();
                self.threads[me].go_on()
            }
            // Its code finds that it is asked, in front of an access that it may make.
            ClaimantAt::Asks
                if thread.holder.has_been_asked()
                    && thread.gets_on
                    && thread.story[thread.next]
                        .iter()
                        .all(|&range| has(&thread.holder, range)) =>
            {
                let mark = self.mark(me);
                self.directory.answer(index, mark);
                ClaimantAt::Asks
            }
            ClaimantAt::Asks => match self.directory.claim(index, thread.story[thread.next]) {
                ClaimStep::Done(behind) => {
                    self.come_behind(me, &behind);
                    self.threads[me].gets_on = false;
                    ClaimantAt::Granted
                }
                ClaimStep::Waits(_, since) => {
                    self.threads[me].gets_on = false;
                    ClaimantAt::Rests(since)
                }
            },
            ClaimantAt::Rests(since) => {
                let mark = self.mark(me);
                self.threads[me].holder.rests(mark);
                ClaimantAt::Looks(since, mark)
            }
            ClaimantAt::Looks(since, mark) => {
                if thread.holder.has_been_asked() {
                    self.directory.answer(index, mark);
                }
                ClaimantAt::Sleeps(since)
            }
            ClaimantAt::Sleeps(_) => {
                thread.holder.goes_on();
                ClaimantAt::Asks
            }
            ClaimantAt::Granted => {
                self.access(me);
                ClaimantAt::Made
            }
            ClaimantAt::Made => {
                self.threads[me].gets_on = true;
                let thread = &self.threads[me];
                if thread.holder.has_been_asked() {
                    let mark = self.mark(me);
                    self.directory.answer(index, mark);
                }
                self.threads[me].go_on()
            }
            ClaimantAt::Ends | ClaimantAt::Ended => {
                self.threads[me].clock[me] = self.threads[me].entries.len();
                self.directory.withdraw(index);
                ClaimantAt::Ended
            }
        };
        self.check_permissions();
    }

    fn access(&mut self, me: usize) {
        let wants = self.threads[me].story[self.threads[me].next];
        for &range in wants {
            assert!(
                has(&self.threads[me].holder, range),
                "thread {me} has lost lines of {range:?}"
            );
        }
        for (other, theirs) in self.threads.iter().enumerate().filter(|(t, _)| *t != me) {
            let known = self.threads[me].clock[other];
            for entry in theirs.entries.iter().skip(known) {
                let StoryEntry::Access(before) = entry else {
                    continue;
                };
                let meets = before.iter().any(|there| {
                    let meets = |here: &LineRange| here.first < there.end && there.first < here.end;
                    let mut here = wants.iter().filter(|here| meets(here));
                    here.any(|here| here.writes || there.writes)
                });
                assert!(
                    !meets,
                    "thread {me} does not come behind an access of {other}"
                );
            }
        }
        self.threads[me].entries.push(StoryEntry::Access(wants));
    }

    /// All on which the rest hangs.
    fn state(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for thread in &self.threads {
            let since = match thread.at {
                ClaimantAt::Rests(since)
                | ClaimantAt::Looks(since, _)
                | ClaimantAt::Sleeps(since) => Some(thread.holder.wakings() != since),
                _ => None,
            };
            let lines = LINES.map(|line| thread.holder.table.get(line));
            let at = std::mem::discriminant(&thread.at);
            (at, since, thread.next, lines, &thread.clock).hash(&mut hasher);
            (thread.holder.has_been_asked(), &thread.marks).hash(&mut hasher);
            (thread.entries.len(), thread.gets_on).hash(&mut hasher);
        }
        self.directory.waits().hash(&mut hasher);
        hasher.finish()
    }

    fn check_permissions(&self) {
        for line in LINES.into_iter().chain([2, 63, 65, 127]) {
            let there = self.threads.iter().filter(|t| t.at != ClaimantAt::Ended);
            let there: Vec<&Claimant> = there
                .filter(|t| t.holder.table.permits(line, false))
                .collect();
            let written = there.iter().any(|t| t.holder.table.permits(line, true));
            assert!(
                !written || there.len() == 1,
                "line {line} is written and read"
            );
        }
    }
}

/// Whether a thread may access all of these lines.
fn has(holder: &Holder, range: LineRange) -> bool {
    let table = &holder.table;
    table
        .first_not_permitted(range.lines(), range.writes)
        .is_none()
}

/// Runs threads in all orders, as far as they lead to states that differ; how many of those there are.
fn all_orders(stories: &[Story]) -> usize {
    let mut model = ModelOfLines::new(stories);
    let mut choices: Vec<(usize, usize)> = Vec::new();
    let mut seen = HashSet::new();
    loop {
        model.start_over();
        for at in 0.. {
            let able: Vec<usize> = (0..stories.len()).filter(|t| model.can_step(*t)).collect();
            if able.is_empty() {
                let ended = model.threads.iter().all(|t| t.at == ClaimantAt::Ended);
                assert!(ended, "threads wait for each other: {choices:?}");
                break;
            }
            assert!(at < 200, "threads take lines from each other for ever");
            if at == choices.len() {
                if !seen.insert(model.state()) {
                    // What follows has been seen.
                    break;
                }
                choices.push((0, able.len()));
            }
            assert_eq!(
                choices[at].1,
                able.len(),
                "the steps depend on more than their order"
            );
            model.step(able[choices[at].0]);
        }
        while let Some((choice, of)) = choices.pop() {
            if choice + 1 < of {
                choices.push((choice + 1, of));
                break;
            }
        }
        if choices.is_empty() {
            return seen.len();
        }
    }
}

/// Runs threads in one order, drawn by these numbers.
fn one_order(stories: &[Story], picks: &[u8]) {
    let mut model = ModelOfLines::new(stories);
    for &pick in picks {
        let able: Vec<usize> = (0..stories.len()).filter(|t| model.can_step(*t)).collect();
        if able.is_empty() {
            let ended = model.threads.iter().all(|t| t.at == ClaimantAt::Ended);
            assert!(ended, "threads wait for each other");
            return;
        }
        model.step(able[usize::from(pick) % able.len()]);
    }
}

// Lines of two blocks, and two of one block.
const R0: Wants = &[LineRange::of(0, false)];
const W0: Wants = &[LineRange::of(0, true)];
const R1: Wants = &[LineRange::of(1, false)];
const W1: Wants = &[LineRange::of(1, true)];
const R64: Wants = &[LineRange::of(64, false)];
const W64: Wants = &[LineRange::of(64, true)];
const BOTH: Wants = &[LineRange::of(0, true), LineRange::of(64, true)];
/// No access: a call, in which the thread is at rest.
const CALL: Wants = &[];
const PAIR: Wants = &[LineRange::of(0, true), LineRange::of(1, true)];
/// As calls that unmap one, and two.
const PAGE: Wants = &[WRITTEN];
const PAGES: Wants = &[LineRange {
    end: 128,
    ..WRITTEN
}];
const WRITTEN: LineRange = LineRange {
    first: 0,
    end: 64,
    writes: true,
};

#[test]
fn two_threads_that_write_and_read() {
    assert!(all_orders(&[&[W0, R0], &[W0, R0]]) > 100);
    assert!(all_orders(&[&[W0, W64], &[W64, W0]]) > 100);
    assert!(all_orders(&[&[R0, W0], &[R0, W0]]) > 100);
}

#[test]
fn an_access_to_two_lines_has_both() {
    assert!(all_orders(&[&[BOTH, BOTH], &[W64, W0]]) > 100);
    assert!(all_orders(&[&[BOTH], &[BOTH], &[R64]]) > 100);
    assert!(all_orders(&[&[R0, R64], &[R64, R0], &[BOTH]]) > 1000);
}

#[test]
fn lines_that_go_along_are_in_order_too() {
    assert!(all_orders(&[&[W0, W1], &[W1, R0]]) > 100);
    assert!(all_orders(&[&[W0], &[W1], &[R0]]) > 100);
    assert!(all_orders(&[&[R1], &[W1], &[W0]]) > 100);
    assert!(all_orders(&[&[PAIR], &[R1], &[W0]]) > 100);
}

#[test]
fn a_page_is_taken_in_order() {
    assert!(all_orders(&[&[PAGE, R0], &[W0, PAGE]]) > 100);
    assert!(all_orders(&[&[PAGE], &[W1, R64], &[R0]]) > 100);
    assert!(all_orders(&[&[PAGE], &[PAGE, W1]]) > 100);
    assert!(all_orders(&[&[PAGES, R0], &[W64, PAGES]]) > 100);
    assert!(all_orders(&[&[PAGES], &[W1, R64], &[R64]]) > 100);
    assert!(all_orders(&[&[PAGES], &[PAGE, W64], &[BOTH]]) > 100);
}

#[test]
fn three_threads_that_read_and_then_write() {
    assert!(all_orders(&[&[R0], &[R0], &[W0]]) > 100);
    assert!(all_orders(&[&[W0], &[W0], &[R0]]) > 100);
    assert!(all_orders(&[&[R0, W0], &[R0], &[W0]]) > 1000);
}

/// Readers that read again as soon as they have given a line up: the writer must get it when each has done so once.
#[test]
fn a_writer_that_waits_comes_before_those_who_read_again() {
    let mut model = ModelOfLines::new(&[&[R0], &[R0], &[W0]]);
    let claims = |model: &mut ModelOfLines, thread: u32, wants: Wants| {
        matches!(model.directory.claim(thread, wants), ClaimStep::Done(_))
    };
    assert!(claims(&mut model, 0, R0) && claims(&mut model, 1, R0));
    for reader in 0..2 {
        assert!(!claims(&mut model, 2, W0), "reader {reader} has the line");
        let mark = model.mark(reader);
        model.directory.answer(reader as u32, mark);
        let again = claims(&mut model, reader as u32, R0);
        assert!(!again, "reader {reader} has overtaken the writer");
    }
    assert!(claims(&mut model, 2, W0));
    let mark = model.mark(2);
    model.directory.answer(2, mark);
    assert!(claims(&mut model, 0, R0) && claims(&mut model, 1, R0));
}

#[test]
fn a_reader_comes_behind_the_writer_of_a_line_that_went_on_to_a_thread_at_rest() {
    assert!(all_orders(&[&[R0], &[W0, R0], &[W1]]) > 100);
}

proptest! {
    #![proptest_config(Config { cases: 2000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_threads_in_any_order(
        stories in vec(vec(select(&[R0, W0, R1, W1, R64, W64, PAIR, PAGE, PAGES, BOTH, CALL][..]), 1..6), 2..5),
        picks in vec(any::<u8>(), 400),
    ) {
        let stories: Vec<Story> = stories.into_iter().map(|s| &*s.leak()).collect();
        one_order(&stories, &picks);
    }
}
