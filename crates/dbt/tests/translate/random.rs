//! Random programs must do the same natively, translated in fragments of any size, stepped,
//! and stopped and resumed at ticks; and the ticks must be the same in all of them.
//!
//! `RELIVE_DBT_CASES` sets the number of programs.

use std::collections::BTreeSet;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};
use proptest::prelude::*;
use proptest::test_runner::Config;
use relive_dbt::{Access, AtPause, Options, Stop, Watched, accesses};

use super::guest::*;
use super::program::{END_BYTES, Item, build, programs};
use relive_sched::Rng;

use super::raw::INDEX;
use super::state::State;

fn cases() -> u32 {
    std::env::var("RELIVE_DBT_CASES")
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(super::CASES)
}

/// Random registers and memory, as far as programs allow.
pub fn first_state(seed: u64, guest: &mut Guest) -> State {
    let mut rng = Rng::new(seed);
    let mut state = State::of(guest);
    for reg in &mut state.gpr {
        // Small values, too: otherwise boundaries are hardly ever met.
        *reg = if rng.one_in(3) {
            rng.below(5).wrapping_sub(2)
        } else {
            rng.word()
        };
    }
    state.gpr[4] = TOP;
    state.gpr[12] = INDEX;
    state.gpr[15] = DATA;
    state.rflags = 0x202 | rng.word() & 0x8d5;
    let len = state.vector.len();
    for byte in state.vector[160..416].iter_mut() {
        *byte = rng.word() as u8;
    }
    for byte in state.vector[576..len].iter_mut() {
        *byte = rng.word() as u8;
    }
    for byte in state.memory.iter_mut().flat_map(|(_, bytes)| bytes) {
        *byte = rng.word() as u8;
    }
    state
}

struct Case<'a> {
    code: &'a [u8],
    base: u64,
    seed: u64,
}

impl Case<'_> {
    fn end(&self) -> u64 {
        self.base + self.code.len() as u64 - END_BYTES
    }

    fn guest(&self, max_insns: u32) -> Guest {
        let at_pause = match self.seed % 2 {
            0 => AtPause::Leave,
            _ => AtPause::GoOn,
        };
        let mut guest = Guest::with(Options {
            at_pause,
            ..options(max_insns)
        });
        guest.load(self.base, self.code);
        first_state(self.seed, &mut guest).restore(&mut guest);
        guest
    }

    fn native(&self) -> State {
        let mut guest = self.guest(1);
        guest.fill(self.end(), &native_end());
        guest.run_native();
        State::of(&guest)
    }

    /// Runs to the end with a stop at each of these ticks; returns states and program
    /// counters there, and the last ones.
    fn with_stops(&self, max_insns: u32, ticks: &[u64]) -> Vec<(u64, State)> {
        let mut guest = self.guest(max_insns);
        let mut seen = Vec::new();
        for tick in ticks {
            let distance = tick - guest.ctx.ticks();
            guest.ctx.grant(distance as i64);
            let mut stop = guest.run();
            while matches!(stop, Stop::Pause { .. }) {
                stop = guest.run();
            }
            assert!(
                matches!(stop, Stop::Budget { .. }),
                "{stop:?} instead of tick {tick}"
            );
            assert_eq!(guest.ctx.ticks(), *tick);
            seen.push((guest.ctx.rip, State::of(&guest)));
        }
        guest.ctx.grant(PLENTY);
        self.finish(&mut guest);
        seen.push((guest.ctx.rip, State::of(&guest)));
        seen
    }

    /// Steps to the end, and counts ticks by the rule; the same states.
    fn stepped(&self, ticks: &[u64]) -> Vec<(u64, State)> {
        let mut guest = self.guest(64);
        let mut seen = Vec::new();
        let mut counted = 0;
        loop {
            let pc = guest.ctx.rip;
            let stop = guest.step();
            match stop {
                Stop::Stepped { .. } | Stop::Pause { .. } => {}
                _ => {
                    self.assert_end(&guest, &stop);
                    break;
                }
            }
            counted += u64::from(is_tick(&guest.read(pc, 15), pc, guest.ctx.rip));
            assert_eq!(guest.ctx.ticks(), counted, "after {pc:#x}");
            if ticks.get(seen.len()) == Some(&counted) {
                seen.push((guest.ctx.rip, State::of(&guest)));
            }
        }
        seen.push((guest.ctx.rip, State::of(&guest)));
        seen
    }

    /// Runs to the end, through `pause`.
    fn finish(&self, guest: &mut Guest) {
        let mut stop = guest.run();
        while matches!(stop, Stop::Pause { .. }) {
            stop = guest.run();
        }
        self.assert_end(guest, &stop);
    }

    fn assert_end(&self, guest: &Guest, stop: &Stop) {
        assert_eq!(guest.ctx.rip, self.end(), "{stop:?}");
        assert!(
            matches!(stop, Stop::Syscall { pc, .. } if pc.0 == self.end()),
            "{stop:?}"
        );
    }
}

/// Whether going from the instruction at `pc` to `next` is a tick.
fn is_tick(bytes: &[u8], pc: u64, next: u64) -> bool {
    let mut insn = Instruction::default();
    Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode_out(&mut insn);
    match insn.flow_control() {
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
            insn.near_branch_target() <= pc && next == insn.near_branch_target()
        }
        FlowControl::Call | FlowControl::IndirectCall | FlowControl::IndirectBranch => true,
        _ => insn.code() == Code::Pause,
    }
}

/// The last state and the ticks.
fn translated(case: &Case<'_>, max_insns: u32) -> (State, u64) {
    let mut guest = case.guest(max_insns);
    case.finish(&mut guest);
    (State::of(&guest), guest.ctx.ticks())
}

fn same(what: &str, a: &State, b: &State) {
    let diff = a.diff(b);
    assert!(diff.is_empty(), "{what}:\n{diff}");
}

/// The observations of a debugger that stops a program at breakpoints and reads memory.
#[derive(Default, Debug, PartialEq, Eq)]
struct Seen {
    /// Breakpoints in the order in which they are met.
    breakpoints: Vec<u64>,
    /// Instructions that access watched memory.
    touches: Vec<u64>,
}

/// Whether any of these accesses touches watched memory.
fn touches(accesses: &[Access], watched: &[Watched]) -> bool {
    let counts = |w: &Watched, a: &Access| a.reads && w.reads || a.writes && w.writes;
    watched.iter().any(|w| {
        accesses
            .iter()
            .any(|a| counts(w, a) && w.overlaps(a.addr, a.len))
    })
}

impl Case<'_> {
    /// Some instructions of the program, and some memory that it may use.
    fn disturbances(&self, rng: &mut Rng, visited: &[u64]) -> (BTreeSet<u64>, Vec<Watched>) {
        let breakpoints = (0..3)
            .map(|_| visited[rng.below(visited.len() as u64) as usize])
            .collect();
        let data = if self.base == LOW_CODE {
            DATA
        } else {
            HIGH_DATA
        };
        let watched = (0..3)
            .map(|i| Watched {
                addr: match i {
                    0 => TOP - rng.below(256),
                    _ => data + rng.below(DATA_LEN - 64),
                },
                len: 1 + rng.below(64),
                reads: rng.one_in(2),
                writes: true,
            })
            .collect();
        (breakpoints, watched)
    }

    fn visited(&self) -> Vec<u64> {
        let mut guest = self.guest(64);
        let mut all = vec![guest.ctx.rip];
        while matches!(guest.step(), Stop::Stepped { .. } | Stop::Pause { .. }) {
            all.push(guest.ctx.rip);
        }
        all
    }

    /// Steps, and compares watched memory independently.
    fn looked_at(&self, breakpoints: &BTreeSet<u64>, watched: &[Watched]) -> Seen {
        let mut guest = self.guest(64);
        let mut seen = Seen::default();
        loop {
            let pc = guest.ctx.rip;
            if breakpoints.contains(&pc) {
                seen.breakpoints.push(pc);
            }
            let all = accesses(&guest.memory, guest.ctx);
            let touched = touches(&all, watched);
            if touched {
                seen.touches.push(pc);
            }
            let memory = |guest: &Guest| -> Vec<Vec<u8>> {
                let writes = watched.iter().filter(|w| w.writes);
                writes.map(|w| guest.read(w.addr, w.len)).collect()
            };
            let before = memory(&guest);
            let stop = guest.step();
            assert!(
                touched || before == memory(&guest),
                "the instruction at {pc:#x} writes more than {all:x?}"
            );
            if !matches!(stop, Stop::Stepped { .. } | Stop::Pause { .. }) {
                self.assert_end(&guest, &stop);
                return seen;
            }
        }
    }

    /// Runs with breakpoints and checks of memory accesses.
    fn disturbed(
        &self,
        max_insns: u32,
        breakpoints: &BTreeSet<u64>,
        watched: &[Watched],
    ) -> (Seen, State, u64) {
        let mut guest = self.guest(max_insns);
        guest
            .t
            .set_breakpoints(breakpoints.clone())
            .expect("the code can be changed");
        guest.t.set_watched(watched).expect("a filter");
        let mut seen = Seen::default();
        loop {
            let stop = guest.run();
            match stop {
                Stop::Pause { .. } => continue,
                Stop::Breakpoint { pc } => {
                    assert_eq!(pc.0, guest.ctx.rip);
                    seen.breakpoints.push(pc.0);
                }
                Stop::Watch { pc } => assert_eq!(pc.0, guest.ctx.rip),
                stop => {
                    self.assert_end(&guest, &stop);
                    return (seen, State::of(&guest), guest.ctx.ticks());
                }
            }
            if touches(&accesses(&guest.memory, guest.ctx), watched) {
                seen.touches.push(guest.ctx.rip);
            }
            let stop = guest.step();
            if !matches!(stop, Stop::Stepped { .. } | Stop::Pause { .. }) {
                self.assert_end(&guest, &stop);
                return (seen, State::of(&guest), guest.ctx.ticks());
            }
        }
    }
}

/// Breakpoints and watched memory change nothing in the program, and no access is missed.
fn check_disturbed(items: &[Item], seed: u64, base: u64, data: u64) {
    let code = build(items, base, data);
    let case = Case {
        code: &code,
        base,
        seed,
    };
    let (plain, ticks) = translated(&case, 64);
    let mut rng = Rng::new(seed);
    let (breakpoints, watched) = case.disturbances(&mut rng, &case.visited());
    let expected = case.looked_at(&breakpoints, &watched);
    for max in [1, 64] {
        let (seen, state, other) = case.disturbed(max, &breakpoints, &watched);
        same(&format!("plain / disturbed {max}"), &plain, &state);
        assert_eq!(ticks, other, "ticks when disturbed");
        assert_eq!(expected, seen, "with fragments of {max}: {watched:x?}");
    }
}

fn check(items: &[Item], seed: u64, base: u64, rip_data: u64) {
    let code = build(items, base, rip_data);
    let case = Case {
        code: &code,
        base,
        seed,
    };
    let native = case.native();
    let (large, ticks) = translated(&case, 64);
    same("native / 64", &native, &large);
    for max in [1, 3] {
        let (state, other) = translated(&case, max);
        same(&format!("native / {max}"), &native, &state);
        assert_eq!(ticks, other, "ticks with 64 and {max}");
    }
    let mut rng = Rng::new(seed);
    let mut stops: Vec<u64> = (0..4.min(ticks)).map(|_| 1 + rng.below(ticks)).collect();
    stops.sort_unstable();
    stops.dedup();
    let by_step = case.stepped(&stops);
    same("native / stepped", &native, &by_step[by_step.len() - 1].1);
    for max in [1, 64] {
        for ((a, b), tick) in by_step
            .iter()
            .zip(case.with_stops(max, &stops))
            .zip(stops.iter().chain([&u64::MAX]))
        {
            assert_eq!(a.0, b.0, "program counter at tick {tick}");
            same(&format!("stepped / {max} at tick {tick}"), &a.1, &b.1);
        }
    }
}

fn config() -> Config {
    Config {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn low_code(items in programs(30), seed in any::<u64>()) {
        check(&items, seed, LOW_CODE, DATA);
    }
}

proptest! {
    #![proptest_config(Config { cases: cases() / 4, ..config() })]

    #[test]
    fn high_code(items in programs(30), seed in any::<u64>()) {
        check(&items, seed, HIGH_CODE, HIGH_DATA);
    }
}

proptest! {
    #![proptest_config(Config { cases: cases() / 4, ..config() })]

    #[test]
    fn disturbed(items in programs(30), seed in any::<u64>(), low in any::<bool>()) {
        let (base, data) = if low { (LOW_CODE, DATA) } else { (HIGH_CODE, HIGH_DATA) };
        check_disturbed(&items, seed, base, data);
    }
}
