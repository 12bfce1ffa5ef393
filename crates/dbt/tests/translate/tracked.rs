//! Tracked accesses: random programs do the same with and without, and each access that is told is one
//! that the program makes, in order.

use std::cell::RefCell;
use std::sync::OnceLock;

use proptest::prelude::*;
use proptest::test_runner::Config;
use relive_dbt::{Access, Stop, accesses, repeats};
use relive_host::Context;
use relive_host::track::{self, Span, Tracked};

use super::guest::*;
use super::program::{END_BYTES, build, programs};
use super::random::first_state;
use super::state::State;

thread_local! {
    /// The accesses seen of this thread's guest.
    static TOLD: RefCell<Vec<(Span, Tracked)>> = const { RefCell::new(Vec::new()) };
}

/// Notes an access, and leaves as few registers alone as compiled code may.
fn note(_: &mut Context, span: Span, word: u64) {
    TOLD.with_borrow_mut(|told| told.push((span, Tracked::of(word))));
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the routine that calls a tracker has saved all vector registers.
        unsafe { std::arch::asm!("vzeroall", out("ymm0") _, out("ymm1") _, out("ymm2") _) };
    }
}

fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    // SAFETY: the tracker touches data of its own thread alone, and no access is put into the filter.
    INSTALLED.get_or_init(|| unsafe { track::install(note).expect("memory for the filter") });
}

/// Runs a program to its end.
fn finish(guest: &mut Guest) -> (State, u64) {
    let mut stop = guest.run();
    while matches!(stop, Stop::Pause { .. }) {
        stop = guest.run();
    }
    assert!(matches!(stop, Stop::Syscall { .. }), "{stop:?}");
    (State::of(guest), guest.ctx.ticks())
}

fn check(code: &[u8], seed: u64, base: u64) {
    install();
    let guest = |max_insns: u32| {
        let mut guest = Guest::new(max_insns);
        guest.load(base, code);
        first_state(seed, &mut guest).restore(&mut guest);
        guest
    };
    let (plain, ticks) = finish(&mut guest(64));
    let mut stepped = guest(64);
    let mut made = Vec::new();
    let end = base + code.len() as u64 - END_BYTES;
    while stepped.ctx.rip != end {
        let pc = stepped.ctx.rip;
        let all = accesses(&stepped.memory, stepped.ctx);
        made.extend(all.iter().map(|&access| (pc, access)));
        stepped.step();
    }
    // There is one guest at a time.
    drop(stepped);
    for max in [1, 64] {
        let mut tracked = guest(max);
        tracked.t.set_tracked(true).expect("the cache is flushed");
        TOLD.take();
        let (state, other) = finish(&mut tracked);
        let diff = plain.diff(&state);
        assert!(diff.is_empty(), "plain / tracked {max}:\n{diff}");
        assert_eq!(ticks, other, "ticks when tracked");
        // In order, but for untracked accesses: the words of pushes and calls, for instance. How far a repeated search
        // goes is not known.
        let mut rest = made.iter();
        let told = TOLD.take().into_iter();
        for (span, t) in told.filter(|(_, t)| t.repeated || !repeats(&tracked.memory, t.pc)) {
            let is_it = |(pc, a): &(u64, Access)| {
                let all = !t.repeated || a.len == span.size;
                all && (*pc, a.addr, a.writes) == (t.pc, span.addr, t.writes)
            };
            let made = span.size == 0 || rest.any(is_it);
            assert!(made, "{span:x?} of {t:x?} is not made there");
        }
    }
}

proptest! {
    #![proptest_config(Config {
        cases: super::CASES / 8,
        failure_persistence: None,
        ..Config::default()
    })]

    #[test]
    fn tracked(items in programs(30), seed in any::<u64>(), low in any::<bool>()) {
        let (base, data) = if low { (LOW_CODE, DATA) } else { (HIGH_CODE, HIGH_DATA) };
        check(&build(&items, base, data), seed, base);
    }
}
