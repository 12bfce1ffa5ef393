//! Branches to strange places, and ordinary ones, which stop leaving to the host.

use iced_x86::code_asm::*;
use relive_dbt::{Options, Stop};
use relive_host::GuestAddr;

use super::guest::*;

fn no_code(pc: u64) -> Stop {
    Stop::NoCode {
        pc: GuestAddr(pc),
        addr: GuestAddr(pc),
    }
}

/// Jumps, calls and returns to `target` in rax; returns each stop with the ticks and the
/// stack pointer's move.
fn go_to(target: u64, max_insns: u32, step: bool) -> Vec<(Stop, u64, i64, u64)> {
    let forms: [&[u8]; 3] = [b"\xff\xe0", b"\xff\xd0", b"\x50\xc3"];
    forms
        .iter()
        .map(|code| {
            let mut guest = Guest::new(max_insns);
            guest.load(LOW_CODE, code);
            guest.ctx.gpr[0] = target;
            guest.ctx.gpr[1] = 77;
            let mut stop = if step { guest.step() } else { guest.run() };
            while matches!(stop, Stop::Stepped { .. }) {
                stop = guest.step();
            }
            assert_eq!(guest.ctx.gpr[1], 77);
            (
                stop,
                guest.ctx.ticks(),
                guest.ctx.gpr[4].wrapping_sub(TOP) as i64,
                guest.ctx.rip,
            )
        })
        .collect()
}

#[test]
fn unmapped_targets_stop_behind_the_branch() {
    // Low and unmapped, between the windows, the middle window, high, kernel, the vsyscall
    // page, -1.
    let targets = [
        0,
        0x1000,
        0x3000_0000,
        0x6000_0000,
        0x7fff_ffff,
        0x5_0000_0000,
        0x3000_0000_0000,
        0xffff_8000_0000_0000,
    ];
    let top = [
        0xffff_ffff_8000_0000,
        0xffff_ffff_ff60_0000,
        0xffff_ffff_ff60_0400,
        u64::MAX,
        u64::MAX - 7,
    ];
    for target in targets.into_iter().chain(top) {
        for (max, step) in [(1, false), (64, false), (64, true)] {
            let got = go_to(target, max, step);
            let expected = [(1, 0), (1, -8), (0, 0)]
                .map(|(ticks, moved)| (no_code(target), ticks, moved, target));
            assert_eq!(got, expected, "to {target:#x} with {max} {step}");
        }
    }
}

#[test]
fn non_canonical_targets_fault_at_the_branch() {
    for target in [
        0x4141_4141_4141_4141,
        0x8000_0000_0000,
        0xffff_7fff_ffff_ffff,
        1 << 63,
    ] {
        for step in [false, true] {
            let stop = |pc| Stop::BadTarget {
                pc: GuestAddr(pc),
                target,
            };
            let (at, behind) = (LOW_CODE, LOW_CODE + 1);
            let expected = [
                (stop(at), 0, 0, at),
                (stop(at), 0, 0, at),
                (stop(behind), 0, -8, behind),
            ];
            assert_eq!(go_to(target, 64, step), expected, "to {target:#x}");
        }
    }
}

/// The table cannot tell these from low addresses; landings can.
#[test]
fn aliases_of_low_addresses_are_not_taken_for_them() {
    for alias in [LOW_CODE + 0x100 + (1 << 61), LOW_CODE + 0x100 + (7 << 61)] {
        for form in [&b"\xff\xe0"[..], b"\x50\xc3"] {
            let mut guest = Guest::new(64);
            guest.load(LOW_CODE + 0x100, b"\x0f\x05");
            guest.load(LOW_CODE, form);
            for target in [LOW_CODE + 0x100, alias, LOW_CODE + 0x100, alias] {
                guest.ctx.rip = LOW_CODE;
                guest.ctx.gpr[0] = target;
                guest.ctx.gpr[4] = TOP;
                let stop = guest.run();
                if target == alias {
                    assert_eq!(stop, no_code(alias));
                } else {
                    assert!(matches!(stop, Stop::Syscall { .. }), "{stop:?}");
                }
            }
        }
    }
}

/// `ret` at `x` is a jump target, the byte behind it a return target: both want slot `x`.
#[test]
fn one_slot_wanted_by_a_jump_and_a_return() {
    for (jump_first, loops) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut guest = Guest::with(Options {
            loops,
            ..options(64)
        });
        let x = LOW_CODE + 0x101;
        guest.load(x, b"\xc3\x48\xff\xc3\x0f\x05"); // ret; inc rbx; syscall
        guest.load(LOW_CODE, b"\x50\xff\xe1"); // push rax; jmp rcx
        guest.load(LOW_CODE + 0x10, b"\x50\xc3"); // push rax; ret
        for round in 0..6 {
            let jump = (round % 2 == 0) == jump_first;
            guest.ctx.rip = if jump { LOW_CODE } else { LOW_CODE + 0x10 };
            guest.ctx.gpr[0] = x + 1;
            guest.ctx.gpr[1] = x;
            guest.ctx.gpr[4] = TOP;
            let (before, ticks) = (guest.ctx.gpr[3], guest.ctx.ticks());
            guest.expect_syscall();
            assert_eq!(guest.ctx.gpr[3], before + 1);
            assert_eq!(guest.ctx.ticks() - ticks, u64::from(jump));
        }
        if crate::PAIRS == relive_dbt::Pairs::Never {
            let stats = guest.t.stats();
            assert!(stats.mismatches > 0, "the slot was not shared");
            // Each landing is found to be reached by other branches once.
            assert!(stats.misled <= 2 * u64::from(loops), "{stats:?}");
        }
    }
}

#[test]
fn a_steady_state_stays_in_the_cache() {
    for max in [1, 3, 64] {
        let mut guest = Guest::new(max);
        guest.assemble(LOW_CODE, |a| {
            let (mut head, mut f, mut g) = (a.create_label(), a.create_label(), a.create_label());
            a.mov(r14d, 1000)?;
            a.lea(rdx, ptr(g))?;
            a.set_label(&mut head)?;
            a.call(f)?;
            a.call(rdx)?;
            a.dec(r14d)?;
            a.jne(head)?;
            a.syscall()?;
            a.set_label(&mut f)?;
            a.inc(rax)?;
            a.jmp(rdx)?;
            a.set_label(&mut g)?;
            a.inc(rbx)?;
            a.ret()
        });
        guest.expect_syscall();
        assert_eq!((guest.ctx.gpr[0], guest.ctx.gpr[3]), (1000, 2000));
        // Call, jump, indirect call per round; all but the last round's branch back.
        assert_eq!(guest.ctx.ticks(), 3999);
        assert!(guest.exits < 40, "{} exits", guest.exits);
    }
}

#[test]
fn low_and_high_code_call_each_other() {
    let mut guest = Guest::new(64);
    guest.assemble(HIGH_CODE, |a| {
        a.inc(rbx)?;
        a.mov(rcx, LOW_CODE + 0x100)?;
        a.call(rcx)?;
        a.ret()
    });
    guest.assemble(LOW_CODE + 0x100, |a| {
        a.inc(rdx)?;
        a.ret()
    });
    guest.assemble(LOW_CODE, |a| {
        let mut head = a.create_label();
        a.mov(esi, 5)?;
        a.mov(rax, HIGH_CODE)?;
        a.set_label(&mut head)?;
        a.call(rax)?;
        a.dec(esi)?;
        a.jne(head)?;
        a.syscall()
    });
    guest.expect_syscall();
    assert_eq!((guest.ctx.gpr[3], guest.ctx.gpr[2]), (5, 5));
    assert_eq!(guest.ctx.ticks(), 14);
    assert!(
        (1..=2).contains(&guest.t.stats().table_faults),
        "{:?}",
        guest.t.stats()
    );
    let expected = HIGH_CODE + 0xd + 2;
    assert!(
        guest.read(TOP - 16, 8) == expected.to_le_bytes().to_vec()
            || guest.read_u64(TOP - 16) > HIGH_CODE
    );
}

#[test]
fn code_without_table_slots_runs() {
    let mut guest = Guest::new(64);
    let at = HIGH_CODE + 0x1000;
    guest.assemble(at, |a| {
        let (mut f, mut head) = (a.create_label(), a.create_label());
        a.mov(r14d, 10)?;
        a.set_label(&mut head)?;
        a.call(f)?;
        a.dec(r14d)?;
        a.jne(head)?;
        a.syscall()?;
        a.set_label(&mut f)?;
        a.inc(rbx)?;
        a.ret_1(0)
    });
    guest.expect_syscall();
    assert_eq!(
        (guest.ctx.gpr[3], guest.ctx.ticks(), guest.ctx.gpr[4]),
        (10, 19, TOP)
    );
    // The pushed return address is the guest's, all 64 bits of it.
    assert_eq!(guest.read_u64(TOP - 8), at + 6 + 5);
}

#[test]
fn operand_size_prefixes_on_branches_are_refused() {
    for code in [
        &b"\x66\xe9\x00\x00\x00\x00"[..],
        b"\x66\xc3",
        b"\x66\xff\xe0",
        b"\x66\x74\x00",
        b"\x66\xe8\0\0\0\0",
    ] {
        let mut guest = Guest::new(64);
        guest.load(LOW_CODE, code);
        let stop = guest.run();
        assert!(
            matches!(
                stop,
                Stop::Unsupported {
                    what: "16-bit branch",
                    ..
                }
            ),
            "{stop:?} for {code:02x?}"
        );
    }
}

/// The prefixes that compilers emit around `__tls_get_addr`, and hints and markers on branches.
#[test]
fn meaningless_prefixes_on_branches_are_dropped() {
    let target = (LOW_CODE + 0x100).to_le_bytes();
    let forms: [&[u8]; 7] = [
        b"\x66\x66\x48\xe8\xf8\x00\x00\x00", // data16 data16 rex64 call +0x100
        b"\x3e\xff\xe0",                     // notrack jmp rax
        b"\xf2\xff\xd0",                     // bnd call rax
        b"\xf2\xe9\xfa\x00\x00\x00",         // bnd jmp +0x100
        b"\x2e\x0f\x84\xf9\x00\x00\x00",     // je,pn +0x100
        b"\x48\xff\xe0",                     // rex.w jmp rax
        b"\x50\xf3\xc3",                     // push rax; rep ret
    ];
    for code in forms {
        for max in [1, 64] {
            let mut guest = Guest::new(max);
            guest.load(LOW_CODE + 0x100, b"\x0f\x05");
            guest.load(LOW_CODE, code);
            guest.ctx.gpr[0] = u64::from_le_bytes(target);
            guest.ctx.rflags |= 0x40;
            guest.expect_syscall();
            assert_eq!(guest.ctx.rip, LOW_CODE + 0x100, "{code:02x?}");
        }
    }
}

/// A branch to itself goes backwards.
#[test]
fn branches_to_themselves_are_tick_sites() {
    for max in [1, 64] {
        let mut guest = Guest::new(max);
        guest.load(LOW_CODE, b"\xeb\xfe"); // jmp $
        guest.ctx.grant(5);
        assert_eq!(
            guest.run(),
            Stop::Budget {
                pc: GuestAddr(LOW_CODE)
            }
        );
        assert_eq!(guest.ctx.ticks(), 5);
        guest.load(LOW_CODE + 0x10, b"\xe2\xfe\x0f\x05"); // loop $; syscall
        guest.ctx.gpr[1] = 5;
        guest.ctx.grant(PLENTY);
        guest.expect_syscall();
        assert_eq!(guest.ctx.ticks(), 5 + 4);
    }
}
