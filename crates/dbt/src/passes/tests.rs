//! Composed passes: random programs with a pass of the tests on, beside all others, must do the
//! same as natively, and the pass must count right. The tests of random programs are the same as
//! without it: native, translated in fragments of any size, stepped, stopped at ticks, at
//! breakpoints and at watched memory.

use std::fs::File;
use std::io::Write;

use proptest::prelude::*;
use proptest::test_runner::Config;

use self::guest::{CODE_LEN, DATA, Guest, LOW_CODE, TOP, options};
use self::program::{Item, build, programs};
use self::random::first_state;
use self::state::State;
use super::accesses::{COUNTS, is_counted};
use crate::code::Window;
use crate::decode::{Decoded, Insn};
use crate::{Options, Ordered, Pairs, Stop, Watched};

// Items that only single tests need are not used here.
#[path = "../../tests/translate/guest.rs"]
#[allow(dead_code)]
pub(crate) mod guest;
#[path = "../../tests/translate/locked.rs"]
mod locked;
mod ordered;
mod permitted;
#[path = "../../tests/translate/program.rs"]
mod program;
#[path = "../../tests/translate/random.rs"]
mod random;
#[path = "../../tests/translate/raw.rs"]
mod raw;
#[path = "../../tests/translate/state.rs"]
#[allow(dead_code)]
mod state;

/// Programs that a random test runs.
const CASES: u32 = 400;

/// Options of the tests here.
fn base_options() -> Options {
    Options {
        pairs: Pairs::Always,
        loops: true,
        count_accesses: true,
        ..Options::default()
    }
}

/// A guest in front of a program.
fn guest(options: Options, code: &[u8], seed: u64) -> Guest {
    let mut guest = Guest::with(options);
    guest.load(LOW_CODE, code);
    first_state(seed, &mut guest).restore(&mut guest);
    guest
}

/// The counts before and behind instructions.
fn counts(guest: &Guest) -> [u64; 2] {
    [0, 8].map(|at| guest.read_u64(u64::from(COUNTS) + at))
}

/// Goes on until the program ends.
fn finish(guest: &mut Guest, go_on: fn(&mut Guest) -> Stop) {
    loop {
        match go_on(guest) {
            Stop::Pause { .. } | Stop::Stepped { .. } => {}
            // Each ordered instruction is held back once.
            Stop::Ordered { .. } => guest.ctx.to_edge = -1,
            Stop::Syscall { .. } => return,
            other => panic!("{other:?}"),
        }
    }
}

/// Whether the next instruction is counted.
fn next_is_counted(guest: &Guest) -> bool {
    let mut insn = Insn::new();
    let decoded = insn.decode(&mut Window::new(&guest.memory), guest.ctx.rip);
    matches!(decoded, Decoded::Insn) && is_counted(&insn)
}

fn check(items: &[Item], seed: u64) {
    let code = build(items, LOW_CODE, DATA);
    let plain = Options {
        count_accesses: false,
        ..options(64)
    };
    let mut without = guest(plain, &code, seed);
    let mut expected = 0;
    loop {
        expected += u64::from(next_is_counted(&without));
        match without.step() {
            Stop::Pause { .. } | Stop::Stepped { .. } => {}
            Stop::Syscall { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(counts(&without), [0, 0]);
    let (ticks, state) = (without.ctx.ticks(), State::of(&without));
    drop(without);
    for (max, go_on) in [
        (64, Guest::run as fn(&mut Guest) -> Stop),
        (1, Guest::run),
        (3, Guest::run),
        (64, Guest::step),
    ] {
        let mut with = guest(options(max), &code, seed);
        finish(&mut with, go_on);
        assert_eq!(state.diff(&State::of(&with)), "", "fragments of {max}");
        assert_eq!(with.ctx.ticks(), ticks, "fragments of {max}");
        assert_eq!(counts(&with), [expected; 2], "fragments of {max}");
    }
}

proptest! {
    #![proptest_config(Config { cases: CASES, failure_persistence: None, ..Config::default() })]

    #[test]
    fn what_a_pass_counts_is_right_and_nothing_else_differs(
        items in programs(30),
        seed in any::<u64>(),
    ) {
        check(&items, seed);
    }
}

/// A program that is translated, and the file that is kept of it.
fn kept(guest: &mut Guest) -> Option<Vec<u8>> {
    guest.assemble(LOW_CODE, |a| {
        let mut head = a.create_label();
        a.mov(iced_x86::code_asm::ecx, 9)?;
        a.set_label(&mut head)?;
        a.push(iced_x86::code_asm::rcx)?;
        a.pop(iced_x86::code_asm::rcx)?;
        a.dec(iced_x86::code_asm::ecx)?;
        a.jne(head)?;
        a.syscall()
    });
    guest.expect_syscall();
    let ranges = [(LOW_CODE, LOW_CODE + CODE_LEN)];
    let key = guest.t.key(b"a program");
    guest.t.save(key, &ranges, &mut |at, out| {
        // SAFETY: the range lies in the guest's code.
        out.copy_from_slice(unsafe { std::slice::from_raw_parts(at as *const u8, out.len()) });
        true
    })
}

#[test]
fn kept_translations_are_of_use_with_the_same_passes_only() {
    let each = [
        (false, Ordered::Off),
        (true, Ordered::Off),
        (false, Ordered::Record),
        (false, Ordered::Count),
    ]
    .map(|(count_accesses, order)| Options {
        count_accesses,
        order,
        ..options(64)
    });
    for made in each {
        let bytes = kept(&mut Guest::with(made)).expect("there is something to keep");
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&bytes).expect("written");
        for used in each {
            let mut guest = Guest::with(used);
            let key = guest.t.key(b"a program");
            let taken = |guest: &mut Guest, file: &File| guest.t.load(key, file, false) > 0;
            assert_eq!(taken(&mut guest, &file), made == used);
        }
    }
}

#[test]
fn what_one_process_watches_is_not_kept() {
    let mut guest = Guest::new(64);
    let watched = Watched {
        addr: TOP - 4096,
        len: 8,
        reads: true,
        writes: true,
    };
    guest.t.set_watched(&[watched]).expect("a filter");
    assert!(kept(&mut guest).is_none());
    guest.t.set_watched(&[]).expect("no filter");
    assert!(kept(&mut guest).is_some());
}
