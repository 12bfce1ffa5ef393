//! Random accesses through the routine, as translated code makes them, against plain vector clocks.

use proptest::prelude::*;
use relive_host::track::call;

use super::*;

const THREADS: usize = 4;
/// Plain data: four words.
const DATA: u64 = 0x7000_0000;
const BYTES: usize = 32;
/// Words that atomic instructions access.
const LOCKS: u64 = 0x7100_0000;

#[derive(Clone, Copy, Debug)]
enum Step {
    Turn(usize),
    Access {
        at: usize,
        size: usize,
        writes: bool,
    },
    Atomic {
        at: usize,
        size: usize,
    },
    /// A plain read of words that atomic instructions access too.
    Load {
        at: usize,
        size: usize,
    },
    /// The memory is other memory.
    Renew,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = || prop::sample::select(vec![1, 2, 4, 8]);
    let access = (0..BYTES / 4, size(), any::<bool>()).prop_map(|(at, size, writes)| {
        let at = (at * 4).min(BYTES - size);
        Step::Access { at, size, writes }
    });
    let odd = (
        0..BYTES - 16,
        prop::sample::select(vec![1, 2, 3, 4, 8, 16]),
        any::<bool>(),
    )
        .prop_map(|(at, size, writes)| Step::Access { at, size, writes });
    let atomic = (0..4usize, prop::sample::select(vec![4, 8]))
        .prop_map(|(at, size)| Step::Atomic { at: at * 4, size });
    let load = (0..4usize, prop::sample::select(vec![4, 8]))
        .prop_map(|(at, size)| Step::Load { at: at * 4, size });
    let step = prop_oneof![
        6 => load,
        3 => (0..THREADS).prop_map(Step::Turn),
        20 => access,
        2 => odd,
        8 => atomic,
        1 => Just(Step::Renew),
    ];
    prop::collection::vec(step, 1..400)
}

/// All accesses that ever were, and the full clocks.
#[derive(Default)]
struct Plain {
    clocks: Vec<[u32; THREADS]>,
    objects: [[u32; THREADS]; 6],
    made: Vec<(usize, u32, std::ops::Range<usize>, bool)>,
}

impl Plain {
    fn new() -> Self {
        let mut clocks = vec![[0; THREADS]; THREADS];
        clocks[0][0] = 1;
        for thread in 1..THREADS {
            clocks[thread] = clocks[0];
            clocks[thread][thread] = 1;
            clocks[0][0] += 1;
        }
        Self {
            clocks,
            ..Self::default()
        }
    }

    fn join(a: &mut [u32; THREADS], b: [u32; THREADS]) {
        for (a, b) in a.iter_mut().zip(b) {
            *a = (*a).max(b);
        }
    }

    fn atomic(&mut self, thread: usize, at: usize, size: usize) {
        for object in at / 4..(at + size).div_ceil(4) {
            let object = &mut self.objects[object];
            Self::join(&mut self.clocks[thread], *object);
            *object = self.clocks[thread];
            self.clocks[thread][thread] += 1;
        }
    }

    fn load(&mut self, thread: usize, at: usize, size: usize) {
        for object in at / 4..(at + size).div_ceil(4) {
            Self::join(&mut self.clocks[thread], self.objects[object]);
        }
    }

    fn races(&mut self, thread: usize, bytes: std::ops::Range<usize>, writes: bool) -> bool {
        let clock = self.clocks[thread];
        let races = self.made.iter().any(|(other, time, theirs, wrote)| {
            let meet = theirs.start < bytes.end && bytes.start < theirs.end;
            meet && (*wrote || writes) && *time > clock[*other]
        });
        self.made.push((thread, clock[thread], bytes, writes));
        races
    }
}

fn word(pc: u64, size: usize, writes: bool, atomic: bool) -> u64 {
    let tracked = Tracked {
        pc,
        size: size as u64,
        writes,
        atomic,
        repeated: false,
        masked: None,
    };
    tracked.word()
}

/// A context for each thread, as one that runs translated code has it.
fn contexts() -> Vec<Box<Context>> {
    (0..THREADS).map(|_| Context::new()).collect()
}

/// A turn begins.
fn turn(ctx: &mut Context, thread: usize) {
    // SAFETY: the contexts stay until the last call of the routine.
    unsafe { relive_host::enter::adopt(ctx) };
    ctx.guest_fs = ctx.host_fs;
    with(|t| {
        t.detector.run(0, thread as u32);
        t.begin_era(ctx);
    });
}

/// The running thread makes an access.
fn access(ctx: &mut Context, addr: u64, word: u64) {
    // SAFETY: the context of the turn; and one test at a time tracks.
    unsafe { call(ctx, addr, word) };
}

fn start() -> Vec<Box<Context>> {
    begin(RaceHints::default()).expect("a filter");
    let mut contexts = contexts();
    turn(&mut contexts[0], 0);
    for thread in 1..THREADS {
        with(|t| t.detector.born(0, thread as u32));
    }
    contexts
}

fn verdicts() -> u64 {
    with(|t| t.detector.races().races.iter().map(|race| race.count).sum()).unwrap_or(0)
}

fn check(steps: &[Step]) {
    let mut contexts = start();
    let mut plain = Plain::new();
    let mut thread = 0;
    for at in (0..24).step_by(4) {
        let ctx = &mut contexts[thread];
        access(ctx, LOCKS + at as u64, word(1, 4, true, true));
        plain.atomic(thread, at, 4);
    }
    for (i, step) in steps.iter().enumerate() {
        let pc = 0x40_0000 + i as u64;
        let ctx = &mut contexts[thread];
        match *step {
            Step::Turn(next) => {
                thread = next;
                turn(&mut contexts[thread], thread);
            }
            Step::Renew => {
                with(|t| t.detector.renew(DATA, DATA + BYTES as u64));
                plain.made.clear();
            }
            Step::Atomic { at, size } => {
                access(ctx, LOCKS + at as u64, word(pc, size, true, true));
                plain.atomic(thread, at, size);
            }
            Step::Load { at, size } => {
                access(ctx, LOCKS + at as u64, word(pc, size, false, false));
                plain.load(thread, at, size);
            }
            Step::Access { at, size, writes } => {
                let before = verdicts();
                access(ctx, DATA + at as u64, word(pc, size, writes, false));
                let races = plain.races(thread, at..at + size, writes);
                assert_eq!(verdicts() > before, races, "step {i}");
            }
        }
    }
}

/// One test, as a process has one tracker.
#[test]
fn the_routine_misses_no_race_and_makes_none_up() {
    let config = ProptestConfig::with_cases(500);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let checked = runner.run(&steps(), |steps| {
        check(&steps);
        Ok(())
    });
    checked.expect("the same verdicts");
    it_renews_the_place_of_an_access();
}

fn it_renews_the_place_of_an_access() {
    let mut contexts = start();
    let (first, second) = (word(1, 8, true, false), word(2, 8, true, false));
    access(&mut contexts[0], DATA, first);
    access(&mut contexts[0], LOCKS, word(3, 4, true, true));
    access(&mut contexts[0], LOCKS, word(3, 4, true, true));
    // The tracker would take the number of events from the replay, where there are none.
    with(|t| t.detector.lines().now_mut().event = 77);
    (
        contexts[0].dealt[7],
        contexts[0].lanes[7],
        contexts[0].dealt[0],
    ) = (50, 20, 3);
    access(&mut contexts[0], DATA, second);
    turn(&mut contexts[1], 1);
    access(&mut contexts[1], LOCKS, word(4, 4, true, true));
    access(&mut contexts[1], DATA, word(5, 1, false, false));
    let races = with(|t| t.detector.races().races).unwrap_or_default();
    assert_eq!(races.len(), 1);
    let first = &races[0].first;
    assert_eq!((first.pc, first.event, first.tick), (2, 77, 33));
}
