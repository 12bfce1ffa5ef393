//! Indirect branches out of the low window.

use iced_x86::code_asm::*;
use relive_dbt::Stop;
use relive_host::GuestAddr;

use super::guest::*;

/// Addresses this far apart (by exclusive or) have one hash: the lower half of the distance's
/// CRC-32C is 0.
const APART: u64 = 0x216f;

/// Calls the two functions at the addresses in r12 and r13 in turns, 100 times each.
fn calls(a: &mut CodeAssembler) -> Result<(), iced_x86::IcedError> {
    let mut head = a.create_label();
    a.mov(r14d, 100)?;
    a.set_label(&mut head)?;
    a.stc()?;
    a.call(r12)?;
    a.clc()?;
    a.call(r13)?;
    a.dec(r14d)?;
    a.jne(head)?;
    a.syscall()
}

/// Adds one to a register where the carry flag is as expected, without a change of flags.
fn function(at: u64, guest: &mut Guest, carry: bool) {
    guest.assemble(at, |a| {
        let mut wrong = a.create_label();
        if carry {
            a.jnc(wrong)?;
            a.lea(rbx, rbx + 1)?;
        } else {
            a.jc(wrong)?;
            a.lea(rdi, rdi + 1)?;
        }
        a.ret()?;
        a.set_label(&mut wrong)?;
        a.ud2()
    });
}

fn run(main: u64, first: u64, second: u64, max: u32) -> relive_dbt::Stats {
    let mut guest = Guest::new(max);
    function(first, &mut guest, true);
    function(second, &mut guest, false);
    guest.assemble(main, calls);
    (guest.ctx.gpr[12], guest.ctx.gpr[13]) = (first, second);
    let kept = [0, 1, 2, 8, 15].map(|r| (r, 0x1111 * (1 + r as u64)));
    kept.iter().for_each(|(r, v)| guest.ctx.gpr[*r] = *v);
    guest.expect_syscall();
    assert_eq!((guest.ctx.gpr[3], guest.ctx.gpr[7]), (100, 100));
    kept.iter()
        .for_each(|(r, v)| assert_eq!(guest.ctx.gpr[*r], *v, "register {r}"));
    assert_eq!(guest.ctx.gpr[4], TOP);
    assert_eq!(guest.ctx.ticks(), 299);
    guest.t.stats()
}

#[test]
fn each_branch_faults_once_at_most() {
    for max in [1, 64] {
        let high = HIGH_CODE + 0x1000;
        let stats = run(LOW_CODE, high, high + 0x100, max);
        assert!((1..=2).contains(&stats.table_faults), "{stats:?}");
        let stats = run(HIGH_CODE, LOW_CODE + 0x1000, high, max);
        assert!(stats.table_faults <= 1, "{stats:?}");
        let exits: u64 = stats.exits().map(|(_, n)| n).sum();
        assert!(exits < 40, "{stats:?}");
    }
}

#[test]
fn targets_with_one_hash_are_told_apart() {
    let stats = run(LOW_CODE, HIGH_CODE, HIGH_CODE ^ APART, 64);
    assert!(stats.jump_misses > 190, "their hashes differ: {stats:?}");
}

#[test]
fn a_branch_to_nowhere_faults_where_it_is() {
    let target = 0x4141_4141_4141_4141;
    let forms: [(&[u8], u64); 3] = [(b"\xff\xe1", 0), (b"\xff\xd1", 0), (b"\x51\xc3", 1)];
    for (form, at) in forms {
        let mut guest = Guest::new(64);
        guest.load(HIGH_CODE, form);
        guest.ctx.gpr[1] = target;
        let pc = GuestAddr(HIGH_CODE + at);
        assert_eq!(guest.run(), Stop::BadTarget { pc, target });
        assert_eq!((guest.ctx.rip, guest.ctx.gpr[1]), (pc.0, target));
        assert_eq!(guest.ctx.gpr[4], TOP - 8 * at);
    }
}

#[test]
fn canonical_targets_without_code_are_found_there() {
    let target = HIGH_CODE + CODE_LEN + 8;
    let mut guest = Guest::new(64);
    guest.load(HIGH_CODE, b"\xff\xe1"); // jmp rcx
    guest.ctx.gpr[1] = target;
    let stop = guest.run();
    assert!(matches!(stop, Stop::NoCode { .. }), "{stop:?}");
    assert_eq!((guest.ctx.rip, guest.ctx.ticks()), (target, 1));
}

#[test]
fn changed_code_is_not_reached_through_old_slots() {
    let mut guest = Guest::new(64);
    let f = HIGH_CODE + 0x2000;
    guest.assemble(HIGH_CODE, |a| {
        a.call(rdx)?;
        a.call(rdx)?;
        a.syscall()
    });
    for n in 1..4u8 {
        guest.load(f, &[0x48, 0x83, 0xc0, n, 0xc3]); // add rax, n; ret
        guest.t.invalidate(GuestAddr(f), GuestAddr(f + 5)).expect("the code can be changed");
        guest.ctx.rip = HIGH_CODE;
        (guest.ctx.gpr[0], guest.ctx.gpr[2]) = (0, f);
        guest.expect_syscall();
        assert_eq!(guest.ctx.gpr[0], 2 * u64::from(n));
    }
    assert_eq!(guest.t.stats().stale_entries, 0);
}

#[test]
fn a_flush_empties_the_table() {
    let mut guest = Guest::new(64);
    guest.assemble(HIGH_CODE, |a| {
        a.call(rdx)?;
        a.syscall()
    });
    guest.load(HIGH_CODE + 0x2000, b"\xc3");
    for _ in 0..3 {
        guest.ctx.rip = HIGH_CODE;
        guest.ctx.gpr[2] = HIGH_CODE + 0x2000;
        guest.expect_syscall();
        guest.t.flush().expect("flush");
    }
}

/// A branch to code that reads the flags meets a landing for code that overwrites them.
#[test]
fn flags_survive_a_slot_of_another_target() {
    let mut guest = Guest::new(64);
    guest.load(HIGH_CODE, &FLAGS_WRITER);
    guest.load(HIGH_CODE ^ APART, &FLAGS_READER);
    const ZERO: u64 = 0x40;
    // xor eax, eax; jmp rcx / push rcx; xor eax, eax; ret
    for form in [&b"\x31\xc0\xff\xe1"[..], b"\x51\x31\xc0\xc3"] {
        guest.load(LOW_CODE + 0x100, form);
        guest
            .t
            .invalidate(GuestAddr(LOW_CODE), GuestAddr(LOW_CODE + 0x1000)).expect("the code can be changed");
        for _ in 0..4 {
            for target in [HIGH_CODE, HIGH_CODE ^ APART] {
                guest.ctx.rip = LOW_CODE + 0x100;
                guest.ctx.gpr[1] = target;
                guest.ctx.gpr[3] = ZERO;
                guest.expect_syscall();
                assert_eq!(guest.ctx.gpr[3] & ZERO, ZERO, "to {target:#x}");
            }
        }
    }
}
