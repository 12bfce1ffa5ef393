//! Random programs with ordered instructions, sites and neighbours counted, or held and counted: they must do the same
//! as natively, and the count must be right with fragments of any size, stepped, beside another
//! pass, and with faults.

use std::sync::atomic::Ordering;

use relive_host::{GuestAddr, order};

use super::guest::{DATA_LEN, native_end, protect};
use super::program::END_BYTES;
use super::*;
use crate::{NeighbourRule, Sites, Translator};

const MODES: [Ordered; 3] = [Ordered::Record, Ordered::Count, Ordered::Wait];
const ALL: i32 = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
type GoOn = fn(&mut Guest) -> Stop;

/// The plain accesses that are ordered.
#[derive(Clone, Copy, Debug, Default)]
struct Plain {
    sites: Sites,
    neighbours: NeighbourRule,
}

fn with(order: Ordered, plain: Plain, max_insns: u32, count_accesses: bool) -> Options {
    Options {
        order,
        sites: plain.sites,
        neighbours: plain.neighbours,
        count_accesses,
        ..options(max_insns)
    }
}

/// The last state of the program natively.
fn native(code: &[u8], seed: u64) -> State {
    let mut guest = guest(with(Ordered::Off, Plain::default(), 64, false), code, seed);
    guest.fill(LOW_CODE + code.len() as u64 - END_BYTES, &native_end());
    guest.run_native();
    State::of(&guest)
}

/// Ordered instructions that the program executes, and its ticks.
fn stepped(code: &[u8], seed: u64, plain: Plain) -> (u64, u64) {
    let mut guest = guest(with(Ordered::Off, plain, 64, false), code, seed);
    let mut count = 0;
    loop {
        let pc = GuestAddr(guest.ctx.rip);
        count += u64::from(guest.t.is_ordered_at(&guest.memory, pc));
        match guest.step() {
            Stop::Pause { .. } | Stop::Stepped { .. } => {}
            Stop::Syscall { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(guest.ctx.ops, 0);
    (count, guest.ctx.ticks())
}

/// Every second plain access of the program that can be ordered.
fn sites(code: &[u8], seed: u64) -> Sites {
    let mut guest = guest(with(Ordered::Off, Plain::default(), 64, false), code, seed);
    let mut keys = Vec::new();
    loop {
        let pc = GuestAddr(guest.ctx.rip);
        keys.extend(Translator::site_at(&guest.memory, pc).filter(|key| key % 2 == 0));
        match guest.step() {
            Stop::Pause { .. } | Stop::Stepped { .. } => {}
            Stop::Syscall { .. } => return Sites::of(keys),
            other => panic!("{other:?}"),
        }
    }
}

/// Some of the plain accesses of the program, or none.
fn chosen(code: &[u8], seed: u64, has_sites: bool, neighbours: NeighbourRule) -> Plain {
    let sites = match has_sites {
        true => sites(code, seed),
        false => Sites::default(),
    };
    Plain { sites, neighbours }
}

/// Whether any object is held.
fn any_held() -> bool {
    const LINES: u64 = DATA_LEN / 64;
    (0..LINES).any(|line| order::object_of(DATA + 64 * line).is_held())
}

fn check_ordered(items: &[Item], seed: u64, has_sites: bool, neighbours: NeighbourRule) {
    let code = build(items, LOW_CODE, DATA);
    let native = native(&code, seed);
    let plain = chosen(&code, seed, has_sites, neighbours);
    let (ops, ticks) = stepped(&code, seed, plain);
    for mode in MODES {
        for (max, accesses, go_on) in [
            (64, false, Guest::run as GoOn),
            (64, true, Guest::run),
            (1, false, Guest::run),
            (3, false, Guest::run),
            (64, false, Guest::step),
        ] {
            let mut guest = guest(with(mode, plain, max, accesses), &code, seed);
            (guest.ctx.to_edge, *guest.ctx.done.get_mut()) = (0, 0);
            finish(&mut guest, go_on);
            let what = format!("{mode:?} in fragments of {max}");
            assert_eq!(native.diff(&State::of(&guest)), "", "{what}");
            assert_eq!((guest.ctx.ops, guest.ctx.ticks()), (ops, ticks), "{what}");
            assert_eq!(guest.ctx.edges(), [], "{what}");
            assert!(!any_held(), "{what}");
            if mode == Ordered::Wait {
                assert_eq!(guest.ctx.done.load(Ordering::Relaxed), ops, "{what}");
            }
        }
    }
}

/// Every access to the data faults first, and is made by a step.
fn check_faults(items: &[Item], seed: u64, has_sites: bool, neighbours: NeighbourRule) {
    let code = build(items, LOW_CODE, DATA);
    let native = native(&code, seed);
    let plain = chosen(&code, seed, has_sites, neighbours);
    let (ops, ticks) = stepped(&code, seed, plain);
    for mode in MODES {
        for max in [1, 64] {
            let mut guest = guest(with(mode, plain, max, false), &code, seed);
            protect(DATA, DATA_LEN, libc::PROT_NONE);
            loop {
                match guest.run() {
                    Stop::Pause { .. } => {}
                    Stop::Ordered { .. } => guest.ctx.to_edge = -1,
                    Stop::Syscall { .. } => break,
                    Stop::Fault { .. } => {
                        assert!(!any_held());
                        let before = guest.ctx.ops;
                        let pc = GuestAddr(guest.ctx.rip);
                        protect(DATA, DATA_LEN, ALL);
                        let ordered = guest.t.is_ordered_at(&guest.memory, pc);
                        let stop = guest.step();
                        assert!(matches!(stop, Stop::Stepped { .. }), "{stop:?}");
                        assert_eq!(guest.ctx.ops, before + u64::from(ordered));
                        protect(DATA, DATA_LEN, libc::PROT_NONE);
                    }
                    other => panic!("{other:?}"),
                }
            }
            protect(DATA, DATA_LEN, ALL);
            let what = format!("{mode:?} in fragments of {max}");
            assert_eq!(native.diff(&State::of(&guest)), "", "{what}");
            assert_eq!((guest.ctx.ops, guest.ctx.ticks()), (ops, ticks), "{what}");
        }
    }
}

fn rules() -> impl Strategy<Value = NeighbourRule> {
    prop_oneof![
        Just(NeighbourRule::None),
        Just(NeighbourRule::ByRegister),
        Just(NeighbourRule::Closely)
    ]
}

proptest! {
    #![proptest_config(Config { cases: CASES, failure_persistence: None, ..Config::default() })]

    #[test]
    fn ordered_instructions_are_counted_and_nothing_else_differs(
        items in programs(30),
        seed in any::<u64>(),
        has_sites in any::<bool>(),
        neighbours in rules(),
    ) {
        check_ordered(&items, seed, has_sites, neighbours);
    }

    #[test]
    fn an_ordered_instruction_that_faults_first_counts_once(
        items in programs(12),
        seed in any::<u64>(),
        has_sites in any::<bool>(),
        neighbours in rules(),
    ) {
        check_faults(&items, seed, has_sites, neighbours);
    }
}
