//! Random programs that look at permissions before each access: they must do the same as natively, whatever is
//! permitted, and make no access that is not.

use std::collections::BTreeSet;

use relive_host::permissions::{Permissions, READ, WRITE, WRITES, lines_of};

use super::*;
use crate::access::{Access, accesses};

/// The lines that a program accesses, and whether it writes them; its last state and its ticks.
fn stepped(code: &[u8], seed: u64) -> (BTreeSet<(u32, bool)>, State, u64) {
    let mut guest = guest(with(64), code, seed);
    let mut lines = BTreeSet::new();
    loop {
        for access in next_accesses(&guest) {
            lines.extend(lines_of(access.addr, access.len).map(|line| (line, access.writes)));
        }
        match guest.step() {
            Stop::Pause { .. } | Stop::Stepped { .. } => {}
            Stop::Syscall { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    let (state, ticks) = (State::of(&guest), guest.ctx.ticks());
    (lines, state, ticks)
}

fn with(max_insns: u32) -> Options {
    Options {
        count_accesses: false,
        ..options(max_insns)
    }
}

fn next_accesses(guest: &Guest) -> Vec<Access> {
    accesses(&guest.memory, guest.ctx)
}

/// The accesses for which the program has left, of which the context tells one.
fn asked_for(guest: &Guest) -> Vec<Access> {
    let all = next_accesses(guest);
    let (addr, what) = (guest.ctx.permit_at, guest.ctx.permit_what);
    if what != 0 {
        let (len, writes) = (what & (WRITES - 1), what & WRITES != 0);
        let told = |a: &Access| (a.addr, a.len, a.writes) == (addr, len, writes);
        assert!(all.iter().any(told), "{addr:#x}, {what:#x} in {all:?}");
        return all.into_iter().filter(told).collect();
    }
    all
}

/// Permits what is asked for; whether anything was not.
fn permit(table: &Permissions, all: &[Access]) -> bool {
    let mut new = false;
    for access in all {
        for line in lines_of(access.addr, access.len) {
            if !table.permits(line, access.writes) {
                let permitted = if access.writes { READ | WRITE } else { READ };
                table.set(line, permitted);
                new = true;
            }
        }
    }
    new
}

fn check_permitted(items: &[Item], seed: u64, forgets: bool) {
    let code = build(items, LOW_CODE, DATA);
    let (lines, state, ticks) = stepped(&code, seed);
    for max in [64, 1, 3] {
        let mut guest = guest(with(max), &code, seed);
        let table = Permissions::new().expect("memory");
        *guest.ctx.permissions.get_mut() = table.address();
        guest.t.set_permissions(true).expect("an empty cache");
        let mut stops = 0;
        loop {
            match guest.run() {
                Stop::Pause { .. } => {}
                Stop::Permission { .. } => {
                    stops += 1;
                    let all = asked_for(&guest);
                    if forgets && stops % 3 == 0 {
                        table.clear();
                    }
                    if !permit(&table, &all) {
                        let stop = guest.step();
                        let made = matches!(stop, Stop::Stepped { .. } | Stop::Pause { .. });
                        assert!(made, "{stop:?}");
                    }
                }
                Stop::Syscall { .. } => break,
                other => panic!("{other:?}"),
            }
        }
        let what = format!("fragments of {max}");
        assert_eq!(state.diff(&State::of(&guest)), "", "{what}");
        assert_eq!(guest.ctx.ticks(), ticks, "{what}");
        if !forgets {
            for &(line, writes) in &lines {
                assert!(table.permits(line, writes), "line {line}, {writes}, {what}");
            }
        }
        *guest.ctx.permissions.get_mut() = 0;
    }
}

proptest! {
    #![proptest_config(Config { cases: CASES, failure_persistence: None, ..Config::default() })]

    #[test]
    fn accesses_are_permitted_and_nothing_else_differs(
        items in programs(30),
        seed in any::<u64>(),
        forgets in any::<bool>(),
    ) {
        check_permitted(&items, seed, forgets);
    }
}
